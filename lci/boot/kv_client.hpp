// A member of the key-value exchange behind a connected socket.
// Callers: the lcrun bootstrap and tcp ranks above 0. Threads: single.
// Always true: a fence is one round trip (what was put travels with the arrival, everybody's values
// come with the release), and get() reads local memory.
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
  client(const char* backend, unique_fd fd, int rank, int size, std::chrono::milliseconds limit);
  // To be called before join(): everything is sealed with this key.
  void seal(const job_key& key) { seal_.emplace(key, sealed_stream::side::joiner); }

  // Sends the hello; costs no round trip.
  void greet() { send_output(limit()); }
  // The same, and waits until everybody has joined. False if the server hung up without a word: it
  // may be on its way out, with another one to come.
  bool join();
  void fence();
  void put(std::string_view key, std::string_view value) { member_.put(key, value); }
  const std::string& get(int rank, const std::string& key) const { return member_.get(rank, key); }
  // Which ranks have ended, as far as it came in between; never waits. Each is handed on once: the
  // state of ranks is kept by those that ask.
  std::vector<departure> news();
  // Says so, if that can be done at once.
  void leave() noexcept;
  // Sends no disconnect.
  bool was_server_lost() const noexcept { return !lost_.empty() && !member_.has_server_left(); }
  const member& state() const noexcept { return member_; }

 private:
  deadline limit() const;
  // What the member has to say, as it travels.
  std::string take_output();
  void send(std::string_view bytes, const deadline& until);
  void send_output(const deadline& until);
  // False when the connection is lost; then lost_ says how.
  bool receive_some(const deadline& until, const std::string& what);

  unique_fd fd_;
  base::unshared is_ours_;  // fd_: its end is that of this process
  member member_;
  std::optional<sealed_stream> seal_;  // where the job has a key
  const std::chrono::milliseconds limit_;
  std::string lost_;  // why the connection to the server has ended
};

}  // namespace lci::boot::kv
