// The keys to a peer's memory that this side has been given, and what the peer says they are worth.
// Owned by link; operations hold the keys they use. Threads: single, under core::mutex_.
// Always true: nothing is read or written by a key before the peer has confirmed it, and nothing
// outside the bounds or beyond the time that it has confirmed.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "lci/transport/messages.hpp"

namespace lci::transports {

class remote_key {
 public:
  using time = std::chrono::steady_clock::time_point;
  enum class state { unknown, asked, good, refused };

  explicit remote_key(std::string text) : text_(std::move(text)) {}
  state now() const noexcept { return state_; }
  const std::string& text() const noexcept { return text_; }
  std::uint64_t memory() const noexcept { return said_.memory; }
  const rmr_t& rmr() const noexcept { return said_.rmr; }
  // Why that is not allowed; empty: it is. Of a key that is good or refused.
  std::string refusal_of(std::uint64_t address, std::size_t size, bool is_write) const;
  // Where an address lies in the registration.
  std::uintptr_t offset_of(std::uint64_t address) const noexcept {
    return static_cast<std::uintptr_t>(address - said_.rmr.base);
  }
  std::size_t uses = 0;  // pieces under way

 private:
  friend class remote_keys;
  const std::string text_;
  state state_ = state::unknown;
  answer said_;
  time ends_ = time::max();
};

class remote_keys {
 public:
  // Kept while no operation holds them, or as many as are held.
  static constexpr std::size_t MOST_IDLE = 4096;
  static constexpr std::size_t MOST_TEXT = 1024;  // bytes; a key has far fewer

  // Throws argument_error: no key is that long.
  std::shared_ptr<remote_key> find(const std::string& text);
  // The next questions, in the order of find().
  std::vector<ask> questions(std::size_t most);
  bool has_questions() const noexcept { return !unknown_.empty(); }
  // Questions without an answer.
  std::size_t asked() const noexcept { return asked_.size(); }
  // False: questions() and released() have nothing to say.
  bool has_news() const noexcept { return has_questions() || !leaving_.empty(); }
  // False: that was not asked.
  bool hear(const answer& reply, remote_key::time now);
  // The owner takes back what it said about a memory.
  void withdraw(const withdrawn& told);
  // The numbers of withdrawals of which nothing is used any more; each is returned once.
  std::vector<std::uint64_t> released();
  void clear() noexcept;

 private:
  void trim();
  void forget_good(remote_key& one) noexcept;

  std::unordered_map<std::string, std::shared_ptr<remote_key>> all_;
  // Of all_, by memory: an owner withdraws one of many.
  std::unordered_map<std::uint64_t, std::unordered_set<remote_key*>> good_;
  std::size_t most_ = MOST_IDLE;      // of all_; beyond it the idle ones are taken out
  std::shared_ptr<remote_key> last_;  // that find() has returned, of all_
  std::unordered_map<std::uint32_t, std::shared_ptr<remote_key>> asked_;  // by number
  std::deque<std::shared_ptr<remote_key>> unknown_;
  // Withdrawn, with the keys that were in use then.
  struct leaving {
    std::uint64_t number = 0;
    std::vector<std::shared_ptr<remote_key>> used;
  };
  std::vector<leaving> leaving_;
  std::uint32_t next_number_ = 1;
};

}  // namespace lci::transports
