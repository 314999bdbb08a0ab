// What this process has published: its page, and for each handle that is out the memory behind it.
// Callers: buffer.cpp, server. Threads: any.
// Always true: a handle is out from publish() to withdraw(); the memory of one that is out exists,
// because its buffer holds both. A child of fork() has published nothing: what its parent's objects
// withdraw in it is not touched.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "lci/share/memory.hpp"
#include "lci/share/page.hpp"

namespace lci::share {

class exports {
 public:
  static exports& of_process();

  // Throws buffer_error: no_room.
  handle publish(export_facts& what, const std::shared_ptr<detail::buffer_memory>& memory,
                 std::size_t offset);
  void withdraw(const handle& h) noexcept;
  // It was published by this process: not by the one that this is a child of.
  bool is_own(const handle& h) noexcept;
  // The memory behind a handle of this process, and where in it. Throws buffer_error: stale,
  // forged.
  std::shared_ptr<detail::buffer_memory> find_own(const handle& h, std::size_t& offset);
  // For the server: copies of the page's descriptor and of the one behind the memory, if it has
  // one.
  verdict answer(const handle& h, base::descriptor& page, base::descriptor& memory) noexcept;
  // Names the server's socket.
  std::uint64_t socket_name();

 private:
  struct row {
    bool is_out = false;
    std::uint64_t serial = 0;
    int memory_fd = -1;
    std::size_t offset = 0;
    std::weak_ptr<detail::buffer_memory> memory;
  };
  void start_locked();  // in a new process
  bool is_own_locked(const handle& h) const noexcept;

  std::mutex mutex_;  // guards all below
  pid_t made_in_ = 0;
  process_identity me_;
  std::uint64_t socket_ = 0;
  std::optional<published_page> page_;
  std::vector<row> rows_;            // by slot
  std::vector<std::uint32_t> free_;  // slots below rows_.size() that are empty
};

}  // namespace lci::share

namespace lci::detail {

// A handle that is out. Threads: one at a time.
class buffer_export {
 public:
  buffer_export(const std::shared_ptr<buffer_memory>& memory, std::size_t offset, std::size_t size);
  ~buffer_export();
  buffer_export(const buffer_export&) = delete;
  buffer_export& operator=(const buffer_export&) = delete;
  const std::string& bytes() const noexcept { return bytes_; }
  const std::string& how() const noexcept { return facts_.how; }
  bool is_own() const noexcept { return share::exports::of_process().is_own(facts_.fields); }

 private:
  share::export_facts facts_;  // its descriptor closes after the handle was withdrawn
  std::string bytes_;
};

}  // namespace lci::detail
