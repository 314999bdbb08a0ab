// What other processes have exported and is mapped here: each handle once, for all buffers of it.
// Callers: buffer.cpp. Threads: any; a first import may take milliseconds under the lock.
// Always true: a mapping is given out only after its owner was seen alive and standing by the
// handle, at each import. It ends with its last buffer, or as one of those that keep() lets stay.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "lci/share/memory.hpp"
#include "lci/share/owner_link.hpp"

namespace lci::share {

class imports {
 public:
  explicit imports(const owner_calls& calls = system_owner_calls()) : calls_(calls) {}
  static imports& of_process();

  // The memory, whose whole extent is what the handle names, or of this process: `offset` says
  // where in it. Throws buffer_error and backend_error.
  std::shared_ptr<detail::buffer_memory> open(const std::string& bytes, std::size_t& offset,
                                              std::size_t& size);
  void keep(std::size_t count);
  std::size_t size() const;  // mappings that exist

 private:
  using kept = std::shared_ptr<detail::buffer_memory>;
  struct owner_row {
    std::weak_ptr<owner_link> link;
    int number = 0;  // tells owners apart for the accelerator
  };
  kept open_locked(const std::string& bytes, const handle& h);
  std::shared_ptr<owner_link> owner_locked(const handle& h, int& number);
  void keep_locked(const kept& used);
  void forget_ended_locked();

  const owner_calls& calls_;
  mutable std::mutex mutex_;  // guards all below
  process_identity me_;       // read when first needed, and after a fork
  std::unordered_map<std::string, std::weak_ptr<detail::buffer_memory>> known_;
  std::map<std::pair<std::uint32_t, std::uint64_t>, owner_row> owners_;  // pid, start time
  std::deque<kept> kept_;                                                // oldest use first
  std::size_t keep_ = 0, look_at_ = 64;  // known_ of that size is looked through
  int next_owner_ = 0;
};

}  // namespace lci::share
