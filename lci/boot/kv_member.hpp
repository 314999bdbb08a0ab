// One process's side of the key-value exchange, without the sockets: frames in, frames out.
// Callers: kv_client (a socket to the server) and tcp rank 0 (the server is in the same process).
// Threads: single. Always true: values become readable when `released` arrives; after a failure
// every further call throws it again.
#pragma once

#include <cstdint>
#include <list>
#include <string>
#include <string_view>
#include <vector>

#include "lci/boot/fd.hpp"
#include "lci/boot/kv_wire.hpp"
#include "lci/boot/shared_bytes.hpp"
#include "lci/boot/value_store.hpp"

namespace lci::boot::kv {

class member {
 public:
  // `backend` is the name for errors. The hello is the first output.
  member(const char* backend, int rank, int size);

  void put(std::string_view key, std::string_view value);
  // Everything put so far belongs to the fence that begins; it is over when fence_pending() returns
  // false. Throws backend_error if the job has failed before.
  void begin_fence();
  bool fence_pending() const noexcept { return pending_; }
  bool is_welcome() const noexcept { return welcome_; }
  // Valid until the next call of receive().
  std::string_view get(int rank, std::string_view key) const;

  // The bytes for the server since the last call.
  std::string take_output();
  // After it, receive() can take this many bytes, whatever it throws. Throws std::bad_alloc.
  void make_room(std::size_t bytes) { in_.make_room(bytes); }
  // Bytes from the server. Throws backend_error when they report that the job failed, or are
  // malformed, and std::bad_alloc: the next call handles what was not handled.
  void receive(std::string_view bytes);
  // A file that came with the bytes that are received next.
  void take_file(base::descriptor file);
  // The server is lost: throws, and remembers.
  [[noreturn]] void fail(const std::string& why);

  // The departures since the last call.
  std::vector<departure> take_news();
  // Announces that this process leaves in an orderly way.
  void leave();
  // True if the server's process has announced the same.
  bool has_server_left() const noexcept { return server_left_; }

  const char* backend() const noexcept { return backend_; }
  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }
  std::uint32_t round() const noexcept { return round_; }

 private:
  void handle(const frame& f);
  void handle_value(const frame& f, bool is_shared);
  void handle_shared(std::uint64_t size);
  [[noreturn]] void fail_for(const frame& f);

  const char* const backend_;
  const int rank_, size_;
  splitter in_;
  std::string out_;
  value_store store_;
  base::descriptor file_;          // of a frame that has not come yet
  std::list<shared_bytes> files_;  // what the store refers to
  std::uint32_t round_ = 0;        // fences completed
  bool welcome_ = false;
  bool pending_ = false;
  bool server_left_ = false;
  std::vector<departure> news_;
  std::string failure_;  // empty = none
};

}  // namespace lci::boot::kv
