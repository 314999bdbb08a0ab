#include "backends/cuda/import_cache.hpp"

#include <algorithm>

#include "backends/cuda/errors.hpp"
#include "backends/cuda/vmm_mapping.hpp"
#include "lci/errors.hpp"

namespace lci::cuda {

struct imported::entry {
  import_cache* cache = nullptr;
  int peer = -1;
  std::uint64_t owner_base = 0;
  identity id;
  share_way way = share_way::none;
  abi::device_ptr base = 0;     // here
  std::size_t size = 0;         // bytes that the ticket promised
  std::size_t mapped_size = 0;  // VMM: rounded to the granularity
  std::size_t users = 0;        // `imported` alive
  std::uint64_t last_use = 0;
};

imported::imported(imported&& other) noexcept : entry_(static_cast<entry*>(other.detach())) {}

imported& imported::operator=(imported&& other) noexcept {
  if (this == &other) return *this;
  release(entry_);
  entry_ = static_cast<entry*>(other.detach());
  return *this;
}

imported::~imported() { release(entry_); }

void imported::release(void* detached) noexcept {
  auto* const used = static_cast<entry*>(detached);
  if (used != nullptr) used->cache->release(used);
}

abi::device_ptr imported::base() const noexcept { return entry_->base; }
std::size_t imported::size() const noexcept { return entry_->size; }

abi::device_ptr imported::at(std::uint64_t offset, std::size_t bytes) const noexcept {
  const bool is_inside = offset <= entry_->size && bytes <= entry_->size - offset;
  return is_inside ? entry_->base + offset : 0;
}

import_cache::import_cache(gpu& g, std::size_t limit, std::size_t unclosed,
                           const std::atomic<std::size_t>* held, vmm_access who)
    : gpu_(g), limit_(limit), unclosed_limit_(unclosed), held_(held), who_(who) {}

import_cache::~import_cache() {
  for (const auto& each : unclosed_) unmap(*each);
  for (auto& [where, each] : entries_) unmap(*each);
  for (auto& [where, each] : retired_) unmap(*each);
}

std::size_t import_cache::size() const noexcept {
  const std::lock_guard lock(mutex_);
  return entries_.size() + retired_.size();
}

imported import_cache::use_locked(entry& found) noexcept {
  ++found.users;
  found.last_use = ++clock_;
  imported use;
  use.entry_ = &found;
  return use;
}

void import_cache::release(entry* used) noexcept {
  const std::lock_guard lock(mutex_);
  if (--used->users != 0) return;
  const auto all = retired_.equal_range(key{used->peer, used->owner_base});
  const auto gone = std::find_if(all.first, all.second,
                                 [used](const auto& each) { return each.second.get() == used; });
  if (gone == all.second) return;
  std::unique_ptr<entry> owner = std::move(gone->second);
  retired_.erase(gone);
  drop_locked(std::move(owner));
}

// It is not in use. Closing a handle waits for whatever the GPU is doing, also for a stream or a
// kernel of the user that waits for us; unmapping VMM memory does not.
void import_cache::drop_locked(std::unique_ptr<entry> old) noexcept {
  if (old->way != share_way::legacy_ipc || unclosed_limit_ == 0) return unmap(*old);
  try {
    unclosed_.push_back(std::move(old));
  } catch (...) {
    return unmap(*old);
  }
  // Two, so that those of a time when it was not allowed go as well, a few at a time.
  for (int i = 0; i < 2 && unclosed_.size() > unclosed_limit_ && may_close(); ++i) {
    unmap(*unclosed_.front());
    unclosed_.erase(unclosed_.begin());
  }
}

void import_cache::tidy() noexcept {
  if (!may_close()) return;  // it would wait for what waits for us
  std::vector<std::unique_ptr<entry>> all;
  {
    const std::lock_guard lock(mutex_);
    all.swap(unclosed_);
  }
  for (const auto& each : all) unmap(*each);
}

// Takes it out of the index; unmapped now, or by its last user.
void import_cache::retire_locked(entry& old) noexcept {
  const auto found = entries_.find(key{old.peer, old.owner_base});
  if (old.users != 0) {
    retired_.insert(entries_.extract(found));  // as it is: nothing is allocated
    return;
  }
  std::unique_ptr<entry> owner = std::move(found->second);
  entries_.erase(found);
  drop_locked(std::move(owner));
}

imported import_cache::find(int peer, std::uint64_t base, const identity& id) noexcept {
  const std::lock_guard lock(mutex_);
  return find_locked(peer, base, id);
}

imported import_cache::find_locked(int peer, std::uint64_t base, const identity& id) noexcept {
  const auto found = entries_.find(key{peer, base});
  if (found == entries_.end()) return {};
  if (found->second->id == id) return use_locked(*found->second);
  retire_locked(*found->second);
  return {};
}

void import_cache::drop_unused(int peer, std::uint64_t base) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(key{peer, base});
  if (found != entries_.end() && found->second->users == 0) retire_locked(*found->second);
}

void import_cache::drop_peer(int peer) noexcept {
  const std::lock_guard lock(mutex_);
  for (;;) {
    const auto next = entries_.lower_bound(key{peer, 0});
    if (next == entries_.end() || next->first.first != peer) return;
    retire_locked(*next->second);
  }
}

// Those in use do not go; the limit may be passed by as many as are in use.
void import_cache::make_room_locked() noexcept {
  while (entries_.size() >= limit_) {
    entry* oldest = nullptr;
    for (const auto& [where, each] : entries_) {
      if (each->users == 0 && (oldest == nullptr || each->last_use < oldest->last_use))
        oldest = each.get();
    }
    if (oldest == nullptr) return;
    retire_locked(*oldest);
  }
}

// What is freed at the owner and mapped here is in the way of what the owner has at some of its
// addresses now: cuIpcOpenMemHandle refuses to map that (driver 580). Memory at the same base is no
// obstacle, and is dropped when its name is looked up. In use: goes with its last user.
void import_cache::close_overlapped_locked(int peer, const share_ticket& ticket) noexcept {
  const auto is_in_the_way = [&](const entry& old) {
    return old.way == share_way::legacy_ipc && old.peer == peer && old.owner_base != ticket.base &&
           old.owner_base < ticket.base + ticket.size && ticket.base < old.owner_base + old.size;
  };
  for (auto next = entries_.lower_bound(key{peer, 0});
       next != entries_.end() && next->first.first == peer;) {
    entry& old = *(next++)->second;
    if (is_in_the_way(old)) retire_locked(old);
  }
  if (!may_close()) return;
  std::erase_if(unclosed_, [&](const std::unique_ptr<entry>& old) {
    if (!is_in_the_way(*old)) return false;
    unmap(*old);
    return true;
  });
}

// Whatever of that peer is mapped and not used.
void import_cache::close_unused_locked(int peer) noexcept {
  for (auto next = entries_.lower_bound(key{peer, 0});
       next != entries_.end() && next->first.first == peer;) {
    entry& old = *(next++)->second;
    if (old.way == share_way::legacy_ipc && old.users == 0) retire_locked(old);
  }
  for (const auto& each : unclosed_) unmap(*each);
  unclosed_.clear();
}

void import_cache::make_way(int peer, const share_ticket& ticket, bool all) noexcept {
  const std::lock_guard lock(mutex_);
  close_overlapped_locked(peer, ticket);
  if (all && may_close()) close_unused_locked(peer);
}

failure import_cache::map_locked(const share_ticket& ticket, const descriptor& fd, entry& to) {
  const context_scope scope(gpu_.call(), gpu_.context());
  failure error{scope.entered(), "cuCtxPushCurrent"};
  if (error) return error;
  if (ticket.way != share_way::legacy_ipc) return map_vmm(ticket, fd, to);
  close_overlapped_locked(to.peer, ticket);
  error = map_legacy(ticket, to);
  if (error.code != abi::result::already_mapped || !may_close()) return error;
  // Drivers may see more in the way than the ranges that we know.
  close_unused_locked(to.peer);
  return map_legacy(ticket, to);
}

imported import_cache::open(int peer, const share_ticket& ticket, descriptor fd,
                            std::string& why_not, bool* may_pass) {
  why_not.clear();
  const auto note = [may_pass](bool passes) {
    if (may_pass != nullptr) *may_pass = passes;
  };
  note(false);
  const std::string what = "memory of rank " + std::to_string(peer) + ", " +
                           std::to_string(ticket.size) + " bytes, for GPU " +
                           std::to_string(gpu_.facts().ordinal);
  const std::lock_guard lock(mutex_);
  if (imported known = find_locked(peer, ticket.base, ticket.id)) return known;
  if (unclosed_limit_ != 0 && unclosed_.size() >= PATIENCE * unclosed_limit_ && !may_close()) {
    why_not =
        what + ": " + std::to_string(unclosed_.size()) +
        " mappings that are over have to be closed first, and streams or kernels wait for lci";
    note(true);
    return {};
  }
  make_room_locked();
  // Its place in the index first: once it is mapped there may be no memory for one.
  std::map<key, std::unique_ptr<entry>> place;
  entry& made = *place.emplace(key{peer, ticket.base}, std::make_unique<entry>()).first->second;
  made.cache = this;
  made.peer = peer;
  made.owner_base = ticket.base;
  made.id = ticket.id;
  made.way = ticket.way;
  made.size = ticket.size;
  failure error{abi::result::invalid_value, "the import"};
  try {
    error = map_locked(ticket, fd, made);
  } catch (const backend_error& thrown) {
    why_not = thrown.what();
    return {};
  }
  if (error) {
    why_not = text_of(gpu_.call(), error, what);
    // What is in the way is used, or may not be closed now.
    const bool is_in_the_way = error.code == abi::result::already_mapped;
    if (is_in_the_way)
      why_not += "; an earlier mapping of freed memory of that rank is still in use";
    note(is_in_the_way || error.kind() == fault::no_memory);
    return {};
  }
  entries_.merge(place);
  return use_locked(made);
}

failure import_cache::map_legacy(const share_ticket& ticket, entry& to) noexcept {
  return {
      gpu_.call().ipc_open_mem_handle(&to.base, ticket.handle, abi::IPC_LAZY_ENABLE_PEER_ACCESS),
      "cuIpcOpenMemHandle"};
}

failure import_cache::map_vmm(const share_ticket& ticket, const descriptor& fd,
                              entry& to) noexcept {
  const abi::functions& call = gpu_.call();
  // A descriptor that was fetched is the one of the two that needs no right of this process.
  const bool by_fabric = ticket.way == share_way::vmm_fabric && !fd;
  const auto as = by_fabric ? abi::handle_type::fabric : abi::handle_type::posix_file_descriptor;
  if (!(by_fabric ? gpu_.facts().fabric_handles : gpu_.facts().vmm_descriptors))
    return {abi::result::not_supported, "cuMemImportFromShareableHandle"};
  abi::allocation_prop prop;
  std::size_t unit = 0;
  failure error = describe_shareable(call, gpu_.facts().ordinal, as, prop, unit);
  if (error) return error;
  // A size from a peer: refused rather than rounded beyond what addresses hold.
  if (unit == 0 || ticket.size > ~std::size_t{0} - unit)
    return {abi::result::invalid_value, "cuMemImportFromShareableHandle"};
  to.mapped_size = (ticket.size + unit - 1) / unit * unit;
  abi::allocation_handle handle = 0;
  abi::ipc_mem_handle of_fabric = ticket.handle;
  void* const os_handle = by_fabric ? static_cast<void*>(&of_fabric)
                                    : reinterpret_cast<void*>(static_cast<std::intptr_t>(fd.get()));
  error = {call.mem_import_from_shareable_handle(&handle, os_handle, as),
           "cuMemImportFromShareableHandle"};
  if (error) return error;
  error = map_handle(call, handle, gpu_.facts().ordinal, to.mapped_size, who_, to.base);
  // The mapping keeps the memory; the handle has served.
  log_teardown(call, call.mem_release(handle), "cuMemRelease");
  return error;
}

void import_cache::unmap(entry& old) noexcept {
  const abi::functions& call = gpu_.call();
  // The context exists: it was needed for the mapping. It may have ended, and the mapping with it.
  const context_scope scope(call, gpu_.context());
  if (scope.entered() != abi::result::success) return;
  if (old.way == share_way::legacy_ipc) {
    log_teardown(call, call.ipc_close_mem_handle(old.base), "cuIpcCloseMemHandle");
    return;
  }
  unmap_handle(call, old.base, old.mapped_size);
}

}  // namespace lci::cuda
