// The sockets of a key-value server: accepts, reads, writes and drops, all from the owner's poll
// loop, without a thread of its own.
// Callers: lcrun (its main loop) and tcp rank 0 (inside open and fence). Threads: single.
// Always true: no call blocks. A connection that has not joined can neither stop the others nor can
// such connections pile up: beyond MAX_STRANGERS the oldest is dropped. Where the job has a key, no
// bytes reach the server that were not sealed with it.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lci/base/unshared.hpp"
#include "lci/boot/fd.hpp"
#include "lci/boot/kv_member.hpp"
#include "lci/boot/kv_server.hpp"
#include "lci/boot/seal.hpp"

namespace lci::boot::kv {

class service {
 public:
  // How many connections beyond the size of the job may have sent no hello.
  static constexpr std::size_t MAX_STRANGERS = 64;
  // How many are accepted before connected peers are read again: newcomers cannot keep these
  // waiting.
  static constexpr int MAX_ACCEPTS = 32;
  // Members on this host get outputs from this size on in memory that they share. Where 256 ranks
  // say some 130 bytes each; a file costs each member two system calls more, which copy as fast as
  // some 30 KiB.
  static constexpr std::size_t MIN_SHARED = 32 * 1024;
  // How many refused connections of other users are logged.
  static constexpr std::size_t MOST_WARNINGS = 10;

  // `listener` is non-blocking. With `only_uid`, peers of other users are refused (local sockets).
  // `hold_news`: see server.
  service(base::descriptor listener, int size, std::optional<uid_t> only_uid,
          bool hold_news = false);
  // From now on, connections must prove that they know the key.
  void require(const job_key& key) { key_ = key; }

  // What to poll for, and what to do with the results: pass exactly the entries that were added.
  void add_to(std::vector<pollfd>& set) const;
  void handle(const std::vector<pollfd>& set);

  // From now on no process can join; connections that have not joined are closed.
  void stop_listening();
  // True once the kernel has taken everything that was to be sent.
  bool flushed() const noexcept;
  // The member that lives in this process, instead of behind a socket. It must outlive the service.
  void attach(member& local);
  // Carries bytes between the attached member and the server. Throws what member::receive throws.
  void run_local();

  const server& core() const noexcept { return server_; }
  // How many connections were refused because they belong to another user.
  std::size_t refused() const noexcept { return refused_; }
  void fail_all(const std::string& why);
  void rank_ended(int rank, const std::string& why);
  void tell_failures();
  void take_leave();

 private:
  // No descriptor has this number.
  static constexpr server::connection LOCAL = std::numeric_limits<int>::max();

  struct piece {
    std::shared_ptr<const std::string> bytes;
    std::shared_ptr<const base::descriptor>
        file;                                    // travels with the first of them, if there is one
    std::shared_ptr<const std::string> without;  // what stands for both where no file can be sent
  };
  struct link {
    base::descriptor fd;
    base::unshared is_ours;   // fd: it closes when this process ends
    std::deque<piece> queue;  // not yet taken by the kernel
    std::size_t sent = 0;     // bytes of queue.front() already sent
    bool closing = false;     // close when the queue is empty; read no more
    std::uint64_t age = 0;
    std::optional<sealed_stream> seal;  // where the job has a key
  };

  // Reads from and writes to one link, which may no longer exist afterwards.
  void serve(const pollfd& entry);
  void accept_all();
  void refuse(long user);
  void drop_oldest_stranger();
  bool read_from(int fd, bool to_the_end);
  void take_in(link& l, std::string_view bytes);
  void enqueue(link& l, std::shared_ptr<const std::string> bytes);
  // The same bytes for a member of this host: a frame, and a file that all of them share. Nothing:
  // there is none.
  std::optional<piece> in_a_file(const std::shared_ptr<const std::string>& bytes);
  void progress();
  // False when the link is of no further use.
  bool flush(link& l) noexcept;
  // Afterwards the caller must call progress(). lose(): the peer takes no bytes any more; what it
  // sent before it hung up counts.
  void close(int fd);
  void lose(int fd);

  base::descriptor listener_;
  base::unshared is_ours_;  // listener_
  const int size_;
  server server_;
  const std::optional<uid_t> only_uid_;
  std::optional<job_key> key_;
  std::map<int, link> links_;            // by descriptor
  std::map<std::uint64_t, int> by_age_;  // the same links, oldest first
  std::uint64_t next_age_ = 0;
  std::size_t refused_ = 0;
  std::weak_ptr<const std::string> shared_;  // what in_a_file_ stands for
  piece in_a_file_;                          // without a file: there is none
  member* local_ = nullptr;
  std::string local_in_;  // bytes for the attached member
};

}  // namespace lci::boot::kv
