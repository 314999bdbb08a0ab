#include "experimental/cuda/gdrcopy/gdr_mappings.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "backends/cuda/network_memory.hpp"
#include "lci/base/log.hpp"
#include "lci/base/race_point.hpp"
#include "lci/errors.hpp"

namespace lci::cuda {
namespace {

abi::device_ptr round_down(abi::device_ptr at, std::size_t to) { return at / to * to; }
abi::device_ptr round_up(abi::device_ptr at, std::size_t to) { return round_down(at + to - 1, to); }

}  // namespace

// Keeps a window mapped while it is copied through.
class gdr_mappings::use {
 public:
  use(gdr_mappings& all, const allocation& of, abi::device_ptr at, std::size_t size) noexcept {
    // Without an id nobody can tell it from what was there before.
    if (of.id.buffer_id == 0 || size > gdr_limits::LONGEST || !of.contains(at, size)) return;
    try {
      window_ = all.find_or_make(of, at);
    } catch (...) {  // no memory, or no GPU
    }
  }
  ~use() {
    // edge cuda.gdr_window: the copy is over; partner is gdr_mappings::oldest_locked().
    if (window_ != nullptr) window_->users.fetch_sub(1, std::memory_order_release);
  }
  use(const use&) = delete;
  use& operator=(const use&) = delete;
  explicit operator bool() const noexcept { return window_ != nullptr && window_->at != nullptr; }
  std::byte* there(abi::device_ptr at) const noexcept {
    return window_->at + (at - window_->start);
  }
  gdr_handle handle() const noexcept { return window_->pinned; }

 private:
  window* window_ = nullptr;
};

gdr_mappings::gdr_mappings(gpu_list& gpus, std::span<const char* const> libraries,
                           const gdr_limits& limits)
    : gpus_(gpus), limits_(limits), library_(libraries) {}

gdr_mappings::~gdr_mappings() {
  for (const auto& [where, each] : windows_) undo(*each);
}

bool gdr_mappings::write(const allocation& of, abi::device_ptr to, const void* from,
                         std::size_t size) noexcept {
  const use in(*this, of, to, size);
  if (!in || library_.write(in.handle(), in.there(to), from, size) != 0) return false;
  // Work that is launched on this GPU comes behind the bytes anyway, but another GPU may read them
  // over NVLink, and a peer be told before they are through PCIe. A read of the same window
  // passes no write before it. The fence keeps the processor from reading first.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  std::uint32_t last = 0;
  return library_.read(in.handle(), &last, in.there(round_down(to + size - 1, sizeof(last))),
                       sizeof(last)) == 0;
}

bool gdr_mappings::read(const allocation& of, void* to, abi::device_ptr from,
                        std::size_t size) noexcept {
  const use in(*this, of, from, size);
  return in && library_.read(in.handle(), to, in.there(from), size) == 0;
}

gdr_mappings::window* gdr_mappings::find(const key& where) noexcept {
  const std::lock_guard lock(lock_);
  const auto found = windows_.find(where);
  if (found == windows_.end()) return nullptr;
  window& one = *found->second;
  one.last_use = ++uses_;
  one.users.fetch_add(1, std::memory_order_relaxed);  // under the lock
  return &one;
}

// Null: all are in use. The caller is a user of what it gets.
gdr_mappings::window* gdr_mappings::find_or_make(const allocation& of, abi::device_ptr at) {
  const key where{at / limits_.window, of.id.buffer_id};
  if (window* const known = find(where); known != nullptr) return known;
  LCI_RACE_POINT("gdr_mappings.find_or_make.not_found");
  const std::lock_guard making(making_);
  if (window* const known = find(where); known != nullptr) return known;
  window_map fresh;  // so that nothing has to be allocated once it is mapped
  window& made = *fresh.emplace(where, plan(of, where.first)).first->second;
  window_list gone;
  const bool has_room = make_room(made, gone);
  for (const auto& each : gone) undo(*each);
  if (!has_room) return nullptr;
  const std::string why_not = map(made);
  if (!why_not.empty()) say(made, why_not);
  {
    const std::lock_guard lock(lock_);
    if (made.at == nullptr) bytes_ -= std::exchange(made.size, 0);
    windows_.merge(fresh);
  }
  return find(where);
}

// The pages of the window that hold bytes of the allocation.
std::unique_ptr<gdr_mappings::window> gdr_mappings::plan(const allocation& of,
                                                         abi::device_ptr number) const {
  constexpr std::size_t PAGE = gdr_library::PAGE;
  auto made = std::make_unique<window>();
  const abi::device_ptr first = number * limits_.window;
  made->of = of;
  made->start = std::max(first, round_down(of.base, PAGE));
  const abi::device_ptr end =
      std::min(first + limits_.window + gdr_limits::LONGEST, round_up(of.base + of.size, PAGE));
  made->size = end - made->start;
  return made;
}

// Takes out what is over, or was not used for longest, until the new one fits; it is counted then.
// False: the others are in use.
bool gdr_mappings::make_room(const window& wanted, window_list& gone) {
  gone.reserve(limits_.entries);
  const std::lock_guard lock(lock_);
  for (auto next = windows_.begin(); next != windows_.end();) {
    window& each = *(next++)->second;
    // Two allocations never overlap, so the older one was freed.
    const bool is_over = each.of.id != wanted.of.id &&
                         each.of.base < wanted.of.base + wanted.of.size &&
                         wanted.of.base < each.of.base + each.of.size;
    // edge cuda.gdr_window: see oldest_locked().
    if (is_over && each.users.load(std::memory_order_acquire) == 0) take_out_locked(each, gone);
  }
  while (windows_.size() >= limits_.entries || bytes_ + wanted.size > limits_.bytes) {
    window* const oldest = oldest_locked();
    if (oldest == nullptr) return false;
    take_out_locked(*oldest, gone);
  }
  bytes_ += wanted.size;
  return true;
}

// Of those that nobody uses; null: there is none.
gdr_mappings::window* gdr_mappings::oldest_locked() noexcept {
  window* oldest = nullptr;
  for (const auto& [where, each] : windows_) {
    // edge cuda.gdr_window: who finds no user finds their copies over; partner is ~use().
    const bool is_free = each->users.load(std::memory_order_acquire) == 0;
    if (is_free && (oldest == nullptr || each->last_use < oldest->last_use)) oldest = each.get();
  }
  return oldest;
}

void gdr_mappings::take_out_locked(window& old, window_list& gone) {
  const auto found = std::find_if(windows_.begin(), windows_.end(),
                                  [&](const auto& each) { return each.second.get() == &old; });
  bytes_ -= old.size;
  gone.push_back(std::move(found->second));
  windows_.erase(found);
}

// Empty, or why not. Synchronous copies of the program on the allocation wait from now on: the
// processor would else overtake them.
std::string gdr_mappings::map(window& one) {
  const mem::network_pointer ready = ready_pointer(gpus_, one.of);
  if (!ready.why_not.empty()) return ready.why_not;
  if (!ready.is_synchronous) return "the driver does not make synchronous copies on it wait";
  if (const int code = library_.pin(one.start, one.size, one.pinned); code != 0)
    return std::string("gdr_pin_buffer failed: ") + std::strerror(code);
  void* at = nullptr;
  if (const int code = library_.map(one.pinned, &at, one.size); code != 0) {
    library_.unpin(one.pinned);
    return std::string("gdr_map failed: ") + std::strerror(code);
  }
  one.at = static_cast<std::byte*>(at);
  return "";
}

// Also of memory that was freed: then the module has taken the pages away already.
void gdr_mappings::undo(window& one) noexcept {
  if (one.at == nullptr) return;
  if (const int code = library_.unmap(one.pinned, one.at, one.size); code != 0)
    base::log::warn("cuda", "gdr_unmap failed: %s", std::strerror(code));
  if (const int code = library_.unpin(one.pinned); code != 0)
    base::log::warn("cuda", "gdr_unpin_buffer failed: %s", std::strerror(code));
}

void gdr_mappings::say(const window& of, const std::string& why) noexcept {
  if (std::exchange(has_said_, true)) return;
  base::log::info("cuda", "the GPU copies small messages in %zu bytes of its memory: %s",
                  of.of.size, why.c_str());
}

std::unique_ptr<cpu_copy> make_cpu_copy(gpu_list& gpus, std::span<const char* const> libraries,
                                        attr_gpu_gdrcopy_t wanted) {
  auto made = std::make_unique<gdr_mappings>(gpus, libraries);
  if (made->why_not().empty()) return made;
  if (wanted == attr_gpu_gdrcopy_t::on)
    throw backend_error("cuda: gpu_gdrcopy is on, but " + made->why_not());
  base::log::info("cuda", "gdrcopy is not used, the GPU copies small messages: %s",
                  made->why_not().c_str());
  return nullptr;
}

std::string why_no_cpu_copy(std::span<const char* const> libraries) {
  return gdr_library(libraries).why_not();
}

}  // namespace lci::cuda
