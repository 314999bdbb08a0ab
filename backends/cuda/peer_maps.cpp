#include "backends/cuda/peer_maps.hpp"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "backends/cuda/pointer.hpp"
#include "lci/errors.hpp"

namespace lci::cuda {
namespace {

std::string rank_text(const mem::peer_range& what) { return "rank " + std::to_string(what.rank); }

std::string system_text(int error) {
  return std::string(std::strerror(error)) + " [" + std::to_string(error) + "]";
}

// Of descriptors or memory, here: no property of the peer's memory.
bool is_want(int error) noexcept { return error == EMFILE || error == ENFILE || error == ENOMEM; }

// The descriptor of a process that has ended can be read.
bool has_said_end(const descriptor& process) noexcept {
  pollfd one{process.get(), POLLIN, 0};
  return poll(&one, 1, 0) == 1 && (one.revents & POLLIN) != 0;
}

std::string descriptor_text(const mem::peer_range& what) {
  return "the descriptor of VMM memory of " + rank_text(what) + " cannot be fetched: ";
}

std::string record_text(const mem::peer_range& what) {
  return "the record of GPU memory of " + rank_text(what);
}

// Empty, or why the range is not what the record speaks of. No text is made of what is valid.
std::string why_invalid(const mem::peer_range& what, const share_record::bytes& bytes,
                        const std::optional<share_record>& record) {
  if (share_record::check_of(bytes) != what.check)
    return record_text(what) + " was written anew for other memory";
  if (!record) return record_text(what) + " does not parse";
  const share_ticket& ticket = record->ticket;
  const bool is_inside = what.address >= ticket.base && what.size <= ticket.size &&
                         what.address - ticket.base <= ticket.size - what.size;
  if (is_inside) return "";
  return record_text(what) + " is not about the range of " + std::to_string(what.size) +
         " bytes that was named";
}

}  // namespace

const descriptor_calls& system_descriptor_calls() noexcept {
  // Without wrappers in older C libraries.
  static const descriptor_calls calls{
      [](int pid) { return static_cast<int>(syscall(SYS_pidfd_open, pid, 0)); },
      [](int process, int number) {
        return static_cast<int>(syscall(SYS_pidfd_getfd, process, number, 0));
      }};
  return calls;
}

peer_maps::view& peer_maps::view_of(int device) {
  const std::lock_guard lock(mutex_);
  const auto index = static_cast<std::size_t>(device);
  if (device >= 0 && index < views_.size() && views_[index]) return *views_[index];
  gpu& g = gpus_.at(device);  // throws for an ordinal out of range
  if (index >= views_.size()) views_.resize(index + 1);
  views_[index] = std::make_unique<view>(g, held_);
  return *views_[index];
}

// Without mutex_ in `action`.
template <class Action>
void peer_maps::for_each_view(Action&& action) {
  std::size_t count = 0;
  const auto next = [&]() -> view* {
    const std::lock_guard lock(mutex_);
    while (count < views_.size()) {
      if (view* const one = views_[count++].get(); one != nullptr) return one;
    }
    return nullptr;
  };
  while (view* const one = next()) action(*one);
}

namespace {

std::size_t place_in_table(const mem::peer_range& what, std::size_t size) noexcept {
  return reinterpret_cast<std::uintptr_t>(what.record) / mem::SHARE_RECORD_BYTES % size;
}

mem::mapped_memory part_of(imported use, std::uint64_t base, const mem::peer_range& what,
                           bool is_on_same_gpu) noexcept {
  const abi::device_ptr at = use.at(what.address - base, what.size);
  if (at == 0) return {};
  return {reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(at)), use.detach(),
          &imported::release, is_on_same_gpu};
}

}  // namespace

imported peer_maps::find_seen(view& on, const mem::peer_range& what, seen& one) noexcept {
  {
    const std::lock_guard lock(on.known_lock);
    one = on.known[place_in_table(what, SEEN)];
  }
  const bool is_it = one.record == what.record && one.check == what.check && one.rank == what.rank;
  if (!is_it || what.address < one.base || what.size > one.size ||
      what.address - one.base > one.size - what.size)
    return {};
  return on.cache.find(what.rank, one.base, one.id);
}

void peer_maps::note_seen(view& on, const mem::peer_range& what, const share_ticket& ticket,
                          bool is_on_same_gpu) noexcept {
  const std::lock_guard lock(on.known_lock);
  on.known[place_in_table(what, SEEN)] = {what.record, what.check, what.rank,     ticket.base,
                                          ticket.size, ticket.id,  is_on_same_gpu};
}

mem::mapped_memory peer_maps::map(const mem::peer_range& what, int device, std::string& why_not) {
  why_not.clear();
  if (what.record == nullptr || reinterpret_cast<std::uintptr_t>(what.record) % 8 != 0) {
    why_not = rank_text(what) + " names no record of its GPU memory";
    return {};
  }
  try {
    view& on = view_of(device);
    seen known;
    if (imported use = find_seen(on, what, known))
      return part_of(std::move(use), known.base, what, known.is_on_same_gpu);
    const share_record::bytes bytes = share_record::read(what.record);
    const auto record = share_record::decode(bytes);
    why_not = why_invalid(what, bytes, record);
    if (!why_not.empty()) return {};
    const share_ticket& ticket = record->ticket;
    if (ticket.way == share_way::legacy_ipc && what.pid == getpid())
      return own(on, what, *record, why_not);
    imported use = on.cache.find(what.rank, ticket.base, ticket.id);
    reason why{why_not};
    if (!use) use = open(on, what, *record, why);
    if (!use)
      return why.has_owner_ended ? mem::mapped_memory::of_ended_process() : mem::mapped_memory();
    // What was mapped under this identity may be smaller than what the record says today.
    const std::size_t mapped = use.size();
    const bool is_on_same_gpu = owner_of(*record) == &on.cache.device();
    mem::mapped_memory part = part_of(std::move(use), ticket.base, what, is_on_same_gpu);
    if (part) {
      note_seen(on, what, ticket, is_on_same_gpu);
      return part;
    }
    why_not = "the memory of " + rank_text(what) + " that is mapped here has only " +
              std::to_string(mapped) + " bytes";
  } catch (const backend_error& error) {
    why_not = error.what();
  }
  return {};
}

// The record names the address; the driver says whether the memory that it meant is still there.
// No other process takes turns with us on that GPU.
mem::mapped_memory peer_maps::own(view& on, const mem::peer_range& what, const share_record& record,
                                  std::string& why_not) {
  auto* const at = reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(what.address));
  gpu& here = on.cache.device();
  const auto [error, found] = classify(&here.call(), at);
  if (error) {
    why_not = text_of(here.call(), error, "the memory of " + rank_text(what));
    return {};
  }
  if (found.kind != allocation_kind::device || found.id != record.ticket.id ||
      !found.contains(as_device(at), what.size)) {
    why_not = "the memory of " + rank_text(what) + ", which is of this process, was freed";
    return {};
  }
  why_not = here.why_no_peer_access(gpus_.at(found.ordinal));
  if (!why_not.empty()) return {};
  return {at, nullptr, nullptr};
}

imported peer_maps::open(view& on, const mem::peer_range& what, const share_record& record,
                         reason& why) {
  const share_ticket& ticket = record.ticket;
  const bool needs_descriptor = ticket.way == share_way::vmm_descriptor;
  if (needs_descriptor && what.pid <= 0) {
    why.text = descriptor_text(what) + "its process is not visible from here";
    return {};
  }
  why.text = known_refusal(on, what.rank, ticket);
  if (!why.text.empty()) return {};
  imported use;
  gpu& here = on.cache.device();
  gpu* const there = owner_of(record);
  if (there == &here) here.note_shared();
  why.text = there != nullptr ? here.why_out_of_reach(*there) : "";
  if (why.text.empty()) {
    descriptor fd;
    if (needs_descriptor) fd = fetch(what, record, why);
    // The owner closes a descriptor after it has rewritten the record. If it did so meanwhile, the
    // number may be another's; that is no property of the memory.
    if (share_record::check_of(share_record::read(what.record)) != what.check) {
      why.text = record_text(what) + " was written anew meanwhile";
      return {};
    }
    if (why.text.empty()) use = open_in(on, what.rank, ticket, std::move(fd), why);
    if (!use && !needs_descriptor) why.has_owner_ended = has_ended(what.pid);
  }
  // While no mapping may be closed one may be what the driver minds; but not with VMM memory.
  const bool is_settled = ticket.way != share_way::legacy_ipc || on.cache.may_close();
  if (!use && !why.may_pass && !why.has_owner_ended && is_settled)
    remember_refusal(on, what.rank, ticket, why.text);
  return use;
}

// As import_cache::open(). What the driver finds in the way may be mapped for another GPU of this
// process.
imported peer_maps::open_in(view& on, int rank, const share_ticket& ticket, descriptor fd,
                            reason& why) {
  imported use = on.cache.open(rank, ticket, std::move(fd), why.text, &why.may_pass);
  for (const bool all : {false, true}) {
    // Nothing is in the way of VMM memory, and its descriptor is used up.
    if (ticket.way != share_way::legacy_ipc) break;
    if (use || !why.may_pass || !on.cache.may_close()) break;
    bool is_any = false;
    for_each_view([&](view& other) {
      if (&other == &on) return;
      other.cache.make_way(rank, ticket, all);
      is_any = true;
    });
    if (!is_any) break;
    use = on.cache.open(rank, ticket, {}, why.text, &why.may_pass);
  }
  return use;
}

// Empty where nothing speaks against it: the peer's GPU may be one that this process does not see.
gpu* peer_maps::owner_of(const share_record& record) {
  const std::string_view pci(record.pci.data(), strnlen(record.pci.data(), record.pci.size()));
  for (int i = 0; i < gpus_.get_driver().gpu_count(); ++i) {
    gpu& each = gpus_.at(i);
    if (each.facts().pci == pci) return &each;
  }
  return nullptr;
}

bool peer_maps::has_atomics(const mem::peer_range& what, int device) noexcept try {
  if (what.record == nullptr) return false;
  const auto record = share_record::decode(share_record::read(what.record));
  gpu* const there = record ? owner_of(*record) : nullptr;
  return there != nullptr && gpus_.at(device).has_atomics_on(*there);
} catch (const std::exception&) {
  return false;  // it is not known
}

descriptor peer_maps::fetch(const mem::peer_range& what, const share_record& record, reason& why) {
  const descriptor process(calls_.open_process(what.pid));
  if (!process) {
    const int error = errno;
    why.may_pass = is_want(error);
    why.has_owner_ended = error == ESRCH;
    why.text = descriptor_text(what) + "pidfd_open: " + system_text(error);
    return {};
  }
  descriptor fd(calls_.fetch(process.get(), record.descriptor));
  if (!fd) {
    const int error = errno;
    why.may_pass = is_want(error);
    // A process that is ending has no descriptors any more before anybody is told of its end. Older
    // kernels say EBADF for it, as for a number that is not open.
    why.has_owner_ended = error == ESRCH || (error == EBADF && has_said_end(process));
    why.text = descriptor_text(what) + "pidfd_getfd: " + system_text(error);
    if (error == EPERM) why.text += " (kernel.yama.ptrace_scope, or another user)";
  }
  return fd;
}

bool peer_maps::has_ended(int process) const noexcept {
  const descriptor found(calls_.open_process(process));
  return found ? has_said_end(found) : errno == ESRCH;
}

std::string peer_maps::known_refusal(const view& on, int rank, const share_ticket& ticket) const {
  const std::lock_guard lock(mutex_);
  const auto known = on.refused.find({rank, ticket.base});
  return known != on.refused.end() && known->second.id == ticket.id ? known->second.why : "";
}

void peer_maps::remember_refusal(view& on, int rank, const share_ticket& ticket,
                                 const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (on.refused.size() >= REFUSALS) on.refused.clear();
  on.refused[{rank, ticket.base}] = {ticket.id, why};
}

void peer_maps::forget(int rank) noexcept {
  const std::lock_guard lock(mutex_);
  for (const auto& each : views_) {
    if (!each) continue;
    each->cache.drop_peer(rank);
    std::erase_if(each->refused, [rank](const auto& one) { return one.first.first == rank; });
  }
}

void peer_maps::tidy() noexcept {
  for_each_view([](view& each) { each.cache.tidy(); });
}

}  // namespace lci::cuda
