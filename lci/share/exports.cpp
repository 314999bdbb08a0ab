#include "lci/share/exports.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

namespace lci::share {

exports& exports::of_process() {
  static exports* const one = [] {
    auto* const made = new exports;  // outlives buffers in static objects
    // The serving thread may have the lock while another thread forks. It is a leaf, so taking it
    // there waits for no thread that waits for us.
    pthread_atfork([] { of_process().mutex_.lock(); }, [] { of_process().mutex_.unlock(); },
                   [] { of_process().mutex_.unlock(); });
    return made;
  }();
  return *one;
}

void exports::start_locked() {
  if (made_in_ == getpid()) return;
  rows_.clear();
  free_.clear();
  page_.reset();  // of the parent: our copies of it
  me_ = this_process();
  fill_random(&socket_, sizeof(socket_));
  page_.emplace();
  made_in_ = getpid();
}

handle exports::publish(export_facts& what, const std::shared_ptr<detail::buffer_memory>& memory,
                        std::size_t offset) {
  const std::lock_guard lock(mutex_);
  start_locked();
  if (free_.empty() && rows_.size() == SLOTS) {
    throw buffer_error(buffer_fault::no_room, "a process has at most " + std::to_string(SLOTS) +
                                                  " handles of buffers at a time");
  }
  handle& h = what.fields;
  fill_random(h.tag.data(), h.tag.size());
  if (free_.empty()) {
    free_.reserve(rows_.size() + 1);  // so that withdraw() has room
    free_.push_back(static_cast<std::uint32_t>(rows_.size()));
    rows_.emplace_back();
  }
  h.slot = free_.back();
  h.boot = me_.boot;
  h.process_space = me_.process_space;
  h.start_time = me_.start_time;
  h.pid = me_.pid;
  h.user = me_.user;
  h.page_fd = page_->fd();
  h.socket = socket_;
  h.serial = page_->next_serial();
  h = handle::decode(h.encode());  // with its checksum
  free_.pop_back();
  rows_[h.slot] = {true, h.serial, h.memory_fd, offset, memory};
  page_->write(h);
  return h;
}

bool exports::is_own(const handle& h) noexcept {
  const std::lock_guard lock(mutex_);
  return is_own_locked(h);
}

bool exports::is_own_locked(const handle& h) const noexcept {
  return made_in_ == getpid() && h.pid == me_.pid && h.start_time == me_.start_time;
}

void exports::withdraw(const handle& h) noexcept {
  const std::lock_guard lock(mutex_);
  if (!is_own_locked(h) || rows_[h.slot].serial != h.serial) return;
  page_->clear(h.slot);
  rows_[h.slot] = {};
  free_.push_back(h.slot);  // publish() has made room
}

std::shared_ptr<detail::buffer_memory> exports::find_own(const handle& h, std::size_t& offset) {
  const std::lock_guard lock(mutex_);
  const verdict found = made_in_ == getpid() ? page_->view().compare(h) : verdict::forged;
  if (found == verdict::same) {
    offset = rows_[h.slot].offset;
    if (auto memory = rows_[h.slot].memory.lock()) return memory;
  }
  if (found == verdict::forged)
    throw buffer_error(buffer_fault::forged, "this process has never published that handle");
  throw buffer_error(buffer_fault::stale, "this process has withdrawn that handle");
}

verdict exports::answer(const handle& h, base::descriptor& page,
                        base::descriptor& memory) noexcept {
  const std::lock_guard lock(mutex_);
  const verdict found = made_in_ == getpid() ? page_->view().compare(h) : verdict::forged;
  if (found != verdict::same) return found;
  page.reset(fcntl(page_->fd(), F_DUPFD_CLOEXEC, 0));
  if (h.memory_fd >= 0) memory.reset(fcntl(h.memory_fd, F_DUPFD_CLOEXEC, 0));
  return verdict::same;
}

std::uint64_t exports::socket_name() {
  const std::lock_guard lock(mutex_);
  start_locked();
  return socket_;
}

}  // namespace lci::share

namespace lci::detail {

buffer_export::buffer_export(const std::shared_ptr<buffer_memory>& memory, std::size_t offset,
                             std::size_t size)
    : facts_(memory->export_range(offset, size)) {
  bytes_ = share::exports::of_process().publish(facts_, memory, offset).encode();
}

buffer_export::~buffer_export() { share::exports::of_process().withdraw(facts_.fields); }

}  // namespace lci::detail
