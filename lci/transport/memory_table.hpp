// The memory of this process that transports may use, by number. A memory_state is one of them: its
// bytes, the keys given out for it, and the transports that have registered it. Callers: the public
// memory, and link, which asks here what a peer's key is worth. Threads: shared, all functions.
// Always true: a number names one memory, for good; a key is admitted only if this process wrote
// it, its memory lives, its time is not over and it was not withdrawn.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lci/mem/memory_kind.hpp"
#include "lci/transport/memory_key.hpp"
#include "lci/transport_memory.hpp"

namespace lci::transports {

// The longest time, in seconds, that is added to a clock: one that counts nanoseconds ends after
// 292 years.
inline constexpr double MOST_SECONDS = 1e9;
// With all its digits.
std::string seconds_text(double value);
// Throws argument_error for a time that no clock can keep, with its name.
void check_seconds(const char* call, const char* name, double value);
// The same for what is no number. Of calls that wait every number is good: below 0 and above
// MOST_SECONDS are no limit.
void check_limit(const char* call, double limit_s);

class core;

class memory_state : public std::enable_shared_from_this<memory_state> {
 public:
  // Throws argument_error. Made by memory_table::add().
  memory_state(void* data, std::size_t size, std::uint32_t slot, std::uint32_t generation);

  void* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }
  mem::mem_kind kind() const noexcept { return kind_; }
  int device() const noexcept { return device_; }  // -1: host memory
  // Slot and generation, as one number.
  std::uint64_t id() const noexcept { return std::uint64_t{generation_} << 32 | slot_; }
  bool contains(const void* at, std::size_t length) const noexcept;
  memory_view view_of(void* data, std::size_t size) const;
  static std::shared_ptr<memory_state> of(const memory_view& view) { return view.state_.lock(); }

  std::string give_key(const key_options& options);
  // Those that were withdrawn are refused from now on.
  void withdraw(const memory_key& key);
  void withdraw_all();
  void end();  // its owner has ended it
  bool has_ended() const noexcept {
    // edge memory.ended: partner is end().
    return has_ended_.load(std::memory_order_acquire);
  }
  // Why a key of this memory is refused; empty: it is good.
  std::string refusal_of(const memory_key& key) const;

  // Transports that have it registered.
  void used_by(const std::shared_ptr<core>& transport);
  std::vector<std::shared_ptr<core>> users() const;

 private:
  void* const data_;
  const std::size_t size_;
  const std::uint32_t slot_, generation_;
  mem::mem_kind kind_ = mem::mem_kind::host;
  int device_ = -1;
  mutable std::mutex mutex_;  // guards what follows
  std::uint64_t next_number_ = 1;
  std::uint64_t first_good_ = 1;                      // keys of lower numbers are withdrawn
  std::map<std::uint64_t, std::uint64_t> withdrawn_;  // numbers of others, and when they end
  std::string lasting_[4];                            // keys without end, by rights
  std::vector<std::weak_ptr<core>> users_;
  std::atomic<bool> has_ended_{false};
};

struct admitted {
  std::shared_ptr<memory_state> memory;
  memory_key key;
};

namespace memory_table {
std::shared_ptr<memory_state> add(void* data, std::size_t size);
void remove(const memory_state& one) noexcept;
std::shared_ptr<memory_state> find(std::uint64_t id);  // null: it has ended
// What a key names; nothing: it is refused, and `why` says so.
std::optional<admitted> admit(std::string_view key, std::string& why);
}  // namespace memory_table

}  // namespace lci::transports
