// A member of the key-value exchange behind a connected socket.
// Callers: the lcrun bootstrap and tcp ranks above 0. Threads: single.
// Always true: a fence is one round trip (what was put travels with the arrival, the values of all
// ranks come with the release), and get() reads local memory.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lci/base/unshared.hpp"
#include "lci/boot/fd.hpp"
#include "lci/boot/kv_member.hpp"
#include "lci/boot/seal.hpp"

namespace lci::boot::kv {

class client {
 public:
  // `limit` bounds each wait; zero means none.
  client(const char* backend, base::descriptor fd, int rank, int size,
         std::chrono::milliseconds limit);
  // Call it before join(): everything is sealed with this key.
  void seal(const job_key& key) { seal_.emplace(key, sealed_stream::side::joiner); }

  // Sends the hello; takes no round trip.
  void greet() { send_output(limit()); }
  // The same, and waits until all ranks have joined. False if the server hung up without sending
  // anything: it may be exiting, with another one to come.
  bool join();
  // With rounds of `work` while it waits; null: none.
  void fence(meanwhile* work = nullptr);
  void put(std::string_view key, std::string_view value) { member_.put(key, value); }
  // As bootstrap::get_all(), and of one of them; valid until the next fence() or news().
  template <class Visit>
  void get_all(std::string_view key, const Visit& visit) const {
    for (int r = 0; r < member_.size(); ++r) visit(r, member_.get(r, key));
  }
  std::string_view get(int rank, std::string_view key) const { return member_.get(rank, key); }
  // The departures reported meanwhile; never waits.
  std::vector<departure> news();
  // Announces that this process leaves, if that can be sent at once.
  void leave() noexcept;
  // True if the server is lost and sent no disconnect.
  bool was_server_lost() const noexcept { return !lost_.empty() && !member_.has_server_left(); }
  const member& state() const noexcept { return member_; }

 private:
  deadline limit() const;
  // The member's pending output, in the form in which it travels.
  std::string take_output();
  void send(std::string_view bytes, const deadline& until);
  void send_output(const deadline& until);
  // False when the connection is lost; then lost_ holds the reason.
  bool receive_some(const deadline& until, const std::string& what, meanwhile* work = nullptr);

  base::descriptor fd_;
  base::unshared is_ours_;  // fd_: it closes when this process ends
  member member_;
  std::optional<sealed_stream> seal_;  // where the job has a key
  const std::chrono::milliseconds limit_;
  std::string lost_;
};

}  // namespace lci::boot::kv
