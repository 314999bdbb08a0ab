#include "lci/share/imports.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "lci/share/exports.hpp"
#include "lci/share/gpus.hpp"

namespace lci::share {
namespace {

using detail::buffer_memory;

// Memory of another process. What is mapped is the range of the handle, on the host rounded to
// pages.
class imported_memory : public buffer_memory {
 public:
  imported_memory(const handle& h, const std::string& bytes, std::shared_ptr<owner_link> owner)
      : handle_(h), bytes_(bytes), owner_(std::move(owner)) {
    size = h.size;
  }
  void check() const override { owner_->check(handle_); }
  const std::string& origin() const noexcept override { return bytes_; }
  export_facts export_range(std::size_t, std::size_t) override {
    throw buffer_error(buffer_fault::not_exportable,
                       "a part of an imported buffer has no handle of its own: ask its owner (" +
                           owner_text(handle_) + ")");
  }

 protected:
  const handle handle_;
  const std::string bytes_;
  const std::shared_ptr<owner_link> owner_;
};

class imported_host final : public imported_memory {
 public:
  imported_host(const handle& h, const std::string& bytes, std::shared_ptr<owner_link> owner)
      : imported_memory(h, bytes, std::move(owner)) {
    const base::descriptor fd = owner_->take_memory(h);
    struct stat about {};
    const int seals = fcntl(fd.get(), F_GET_SEALS);
    // Sealed, so that it cannot shrink under us.
    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(fd.get(), &about) != 0 ||
        static_cast<std::uint64_t>(about.st_size) < h.memory_size)
      throw buffer_error(buffer_fault::forged,
                         "the descriptor that the handle names is not the memory it describes");
    const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    const std::uint64_t skipped = h.offset % page;
    length_ = h.size + skipped;
    start_ = mmap(nullptr, length_, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(),
                  static_cast<off_t>(h.offset - skipped));
    if (start_ == MAP_FAILED) {
      throw buffer_error(buffer_fault::no_room, "mmap of " + std::to_string(length_) +
                                                    " bytes of " + owner_text(h) +
                                                    " failed: " + std::strerror(errno));
    }
    at = static_cast<std::byte*>(start_) + skipped;
    how = "host memory of " + owner_text(h) + ", its descriptor by " + owner_->how();
  }
  ~imported_host() override { munmap(start_, length_); }

 private:
  void* start_ = nullptr;
  std::size_t length_ = 0;
};

class imported_gpu final : public imported_memory {
 public:
  imported_gpu(const handle& h, const std::string& bytes, std::shared_ptr<owner_link> owner,
               int owner_number)
      : imported_memory(h, bytes, std::move(owner)) {
    mem::memory_sharing& gpus = gpus_for(h);
    mem::share_request request;
    request.owner = owner_number;
    request.ticket = std::as_bytes(std::span(handle_.ticket));
    request.memory_size = h.memory_size;
    request.offset = h.offset;
    request.size = h.size;
    request.pci = text_of(h.pci);
    const std::string otherwise = gpus.way_without_descriptor(request.ticket);
    std::string why_no_fd;
    if (h.memory_fd >= 0) request.fd = take_descriptor(!otherwise.empty(), why_no_fd);
    const bool has_fd = static_cast<bool>(request.fd);
    std::string why_not;
    mapped_ = gpus.map(std::move(request), device, why_not);
    if (!mapped_) {
      // What the owner freed meanwhile, the driver refuses in its own words.
      check_owner(has_fd);
      if (why_no_fd.empty()) throw buffer_error(buffer_fault::no_gpu, why_not);
      throw buffer_error(buffer_fault::unreachable, why_no_fd + "; and " + why_not);
    }
    // A descriptor was compared as it was taken. Without, what was mapped may be what the owner
    // made after it had freed this.
    if (!has_fd) check_owner(has_fd);
    at = mapped_.at();
    how = "memory of GPU " + std::to_string(device) + " of " + owner_text(h) + ", " +
          (has_fd ? "VMM, its descriptor by " + owner_->how() : "by " + otherwise);
  }
  ~imported_gpu() override {
    // The driver does not work in a child of fork().
    if (!mark_.is_ours()) mapped_.detach();
  }

 private:
  // That it stands by the handle, and is the one that was asked at first.
  void check_owner(bool has_fd) const {
    owner_->check(handle_);
    if (!has_fd) owner_->check_program(handle_);
  }
  // Empty, if it can be done without: the owner lets nobody take one.
  base::descriptor take_descriptor(bool can_do_without, std::string& why_not) const {
    try {
      return owner_->take_memory(handle_);
    } catch (const buffer_error& error) {
      if (error.fault() != buffer_fault::unreachable || !can_do_without) throw;
      why_not = error.what();
      return {};
    }
  }
  template <std::size_t N>
  static std::string text_of(const std::array<char, N>& text) {
    return std::string(text.data(), strnlen(text.data(), N));
  }
  static mem::memory_sharing& gpus_for(const handle& h) {
    std::string why_not;
    const gpu_side* const side = find_gpus(why_not);
    if (side == nullptr) throw buffer_error(buffer_fault::no_gpu, why_not);
    const std::string domain = text_of(h.domain);
    const auto version = static_cast<std::uint64_t>(side->sharing->driver_version());
    if (domain != side->domain->name || version != h.driver_version) {
      throw buffer_error(buffer_fault::other_driver,
                         "the handle is of driver " + domain + " " +
                             std::to_string(h.driver_version) + ", here is " +
                             std::string(side->domain->name) + " " + std::to_string(version));
    }
    return *side->sharing;
  }

  mem::mapped_memory mapped_;
};

void check_place(const handle& h, const process_identity& me) {
  if (h.boot != me.boot)
    throw buffer_error(buffer_fault::other_machine,
                       "the handle is of another machine, or of another boot of this one");
  if (h.process_space != me.process_space)
    throw buffer_error(buffer_fault::other_machine,
                       "the handle is of another space of process numbers (a container)");
  if (h.user != me.user)
    throw buffer_error(buffer_fault::other_user, "the handle is of user " + std::to_string(h.user) +
                                                     ", this process of user " +
                                                     std::to_string(me.user));
}

}  // namespace

imports& imports::of_process() {
  static imports* const one = new imports;  // outlives buffers in static objects
  return *one;
}

std::shared_ptr<buffer_memory> imports::open(const std::string& bytes, std::size_t& offset,
                                             std::size_t& size) {
  const handle h = handle::decode(bytes);
  offset = 0;
  size = h.size;
  std::unique_lock lock(mutex_);
  if (me_.pid != static_cast<std::uint32_t>(getpid())) me_ = this_process();
  check_place(h, me_);
  if (h.pid == me_.pid && h.start_time == me_.start_time) {
    lock.unlock();
    return exports::of_process().find_own(h, offset);
  }
  return open_locked(bytes, h);
}

imports::kept imports::open_locked(const std::string& bytes, const handle& h) {
  if (const auto known = known_.find(bytes); known != known_.end()) {
    // A parent's that is not reachable here is mapped anew, which says why it cannot be.
    if (kept memory = known->second.lock(); memory != nullptr && memory->is_reachable()) {
      try {
        memory->check();
      } catch (const buffer_error&) {
        std::erase(kept_, memory);
        throw;
      }
      keep_locked(memory);
      return memory;
    }
  }
  int number = 0;
  const std::shared_ptr<owner_link> owner = owner_locked(h, number);
  owner->check(h);
  kept memory;
  if (h.way == handle_way::host_file)
    memory = std::make_shared<imported_host>(h, bytes, owner);
  else
    memory = std::make_shared<imported_gpu>(h, bytes, owner, number);
  forget_ended_locked();
  known_[bytes] = memory;
  keep_locked(memory);
  return memory;
}

std::shared_ptr<owner_link> imports::owner_locked(const handle& h, int& number) {
  const std::pair key{h.pid, h.start_time};
  const auto known = owners_.find(key);
  if (known != owners_.end()) {
    number = known->second.number;
    if (auto link = known->second.link.lock()) return link;
  }
  std::shared_ptr<owner_link> link = owner_link::open(h, calls_);
  if (known == owners_.end()) number = ++next_owner_;
  owners_[key] = {link, number};
  return link;
}

void imports::keep_locked(const kept& used) {
  if (keep_ == 0) return;
  std::erase(kept_, used);
  kept_.push_back(used);
  while (kept_.size() > keep_) kept_.pop_front();
}

void imports::keep(std::size_t count) {
  const std::lock_guard lock(mutex_);
  keep_ = count;
  while (kept_.size() > keep_) kept_.pop_front();
}

std::size_t imports::size() const {
  const std::lock_guard lock(mutex_);
  std::size_t count = 0;
  for (const auto& [bytes, memory] : known_) count += !memory.expired();
  return count;
}

// Rows of what is not mapped any more, once there are twice as many as after the last look.
void imports::forget_ended_locked() {
  if (known_.size() < look_at_) return;
  std::erase_if(known_, [](const auto& row) { return row.second.expired(); });
  std::erase_if(owners_, [](const auto& row) { return row.second.link.expired(); });
  look_at_ = std::max<std::size_t>(64, known_.size() * 2);
}

}  // namespace lci::share
