#include "backends/cuda/share_records.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>

namespace lci::cuda {
namespace {

// The ticket 104, descriptor number 4, zero 4, bus id 16.
constexpr std::size_t NUMBER_AT = share_ticket::BYTES, ZERO_AT = NUMBER_AT + 4, PCI_AT = 112;
static_assert(PCI_AT + sizeof(share_record::pci_text) == mem::SHARE_RECORD_BYTES);

constexpr std::size_t WORDS = mem::SHARE_RECORD_BYTES / sizeof(std::uint64_t);
using word_array = std::array<std::uint64_t, WORDS>;

word_array words_of(const share_record::bytes& what) noexcept {
  word_array words;
  std::memcpy(words.data(), what.data(), what.size());
  return words;
}

}  // namespace

share_record::bytes share_record::encode() const noexcept {
  bytes out{};
  const auto first = ticket.encode();
  std::memcpy(out.data(), first.data(), first.size());
  std::memcpy(out.data() + NUMBER_AT, &descriptor, sizeof(descriptor));
  std::memcpy(out.data() + PCI_AT, pci.data(), pci.size());
  return out;
}

std::optional<share_record> share_record::decode(const bytes& from) noexcept {
  const auto ticket = share_ticket::decode(std::span(from).first(share_ticket::BYTES));
  if (!ticket) return std::nullopt;
  share_record record;
  record.ticket = *ticket;
  std::memcpy(&record.descriptor, from.data() + NUMBER_AT, sizeof(record.descriptor));
  std::memcpy(record.pci.data(), from.data() + PCI_AT, record.pci.size());
  std::uint32_t zero = 0;
  std::memcpy(&zero, from.data() + ZERO_AT, sizeof(zero));
  const bool needs_one = ticket->way == share_way::vmm_descriptor;
  if (zero != 0 || record.descriptor < -1 || needs_one != (record.descriptor >= 0))
    return std::nullopt;
  return record;
}

std::uint32_t share_record::check_of(const bytes& what) noexcept {
  std::uint64_t sum = 0;
  for (const std::uint64_t word : words_of(what)) {
    sum = (sum ^ word) * 0x9e3779b97f4a7c15;  // odd, so that no bit of a word is lost
    sum ^= sum >> 32;
  }
  const auto folded = static_cast<std::uint32_t>(sum);
  return folded == 0 ? 1 : folded;
}

void share_record::write(std::byte* shared, const bytes& what) noexcept {
  const word_array words = words_of(what);
  auto* const to = reinterpret_cast<std::uint64_t*>(shared);
  // The thread that is told the check is told it later; a peer that reads meanwhile finds that it
  // does not fit.
  for (std::size_t i = 0; i < WORDS; ++i)
    std::atomic_ref(to[i]).store(words[i], std::memory_order_relaxed);
}

share_record::bytes share_record::read(const std::byte* shared) noexcept {
  // The peer may write while we read: each word once, and only the copy is looked at.
  auto* const from = reinterpret_cast<std::uint64_t*>(const_cast<std::byte*>(shared));
  word_array words;
  for (std::size_t i = 0; i < WORDS; ++i)
    words[i] = std::atomic_ref(from[i]).load(std::memory_order_relaxed);
  bytes out;
  std::memcpy(out.data(), words.data(), out.size());
  return out;
}

share_records::share_records(gpu_list& gpus, pointer_cache& pointers, mem::arena& place,
                             std::size_t limit, std::size_t descriptor_limit)
    : gpus_(gpus),
      pointers_(pointers),
      arena_(place),
      limit_(limit),
      descriptor_limit_(descriptor_limit) {}

share_records::~share_records() {
  while (!entries_.empty()) drop_locked(entries_.begin());
}

std::size_t share_records::size() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

mem::share_place share_records::place_of(const entry& known) const noexcept {
  return {arena_.offset_of(known.shared), known.check};
}

mem::share_place share_records::share(const void* at, std::size_t size, std::string& why_not) {
  why_not.clear();
  const classified found = pointers_.find(at);
  if (found.error) {
    why_not = text_of(gpus_.get_driver().call(), found.error, "the pointer");
    return {};
  }
  const allocation& what = found.what;
  const std::lock_guard lock(mutex_);
  const auto known = entries_.find(what.base);
  if (known != entries_.end() && known->second.id == what.id && known->second.size == what.size &&
      what.contains(as_device(at), size)) {
    known->second.last_use = ++clock_;
    return place_of(known->second);
  }
  try {
    exported out = export_range(gpus_, what, as_device(at), size);
    if (out.why_not.empty()) return publish_locked(what, std::move(out));
    why_not = std::move(out.why_not);
  } catch (const std::exception& error) {
    why_not = std::string("no room to tell peers about GPU memory: ") + error.what();
  }
  return {};
}

void share_records::hold(const mem::share_place& place, int change) noexcept {
  const std::lock_guard lock(mutex_);
  for (auto& [base, each] : entries_) {
    if (each.check != place.check || arena_.offset_of(each.shared) != place.record) continue;
    if (change > 0 || each.holds != 0) each.holds += static_cast<std::size_t>(change);
    return;
  }
}

mem::share_place share_records::publish_locked(const allocation& what, exported out) {
  share_record record;
  record.ticket = out.ticket;
  record.descriptor = out.fd.get();
  const std::string& pci = gpus_.at(what.ordinal).facts().pci;
  pci.copy(record.pci.data(), record.pci.size());
  entry& to = room_locked(what.base, static_cast<bool>(out.fd));
  const share_record::bytes bytes = record.encode();
  to.id = what.id;
  to.size = what.size;
  to.check = share_record::check_of(bytes);
  to.last_use = ++clock_;
  to.holds = 0;  // those were of what was here before
  share_record::write(to.shared, bytes);
  to.fd = std::move(out.fd);  // closes the one before, whose number no peer finds any more
  return place_of(to);
}

// The record to write: the one of that base, the least recently used of too many (one that is held
// only if all are), or a fresh one.
share_records::entry& share_records::room_locked(abi::device_ptr base, bool with_descriptor) {
  if (with_descriptor) close_stale_locked();
  const auto known = entries_.find(base);
  if (known != entries_.end()) return known->second;
  auto old = entries_.end();
  if (with_descriptor && descriptors_locked() >= descriptor_limit_) old = oldest_locked(true);
  if (old == entries_.end() && entries_.size() >= limit_) old = oldest_locked(false);
  if (old != entries_.end()) {
    auto node = entries_.extract(old);
    node.key() = base;
    return entries_.insert(std::move(node)).position->second;
  }
  auto* const shared = static_cast<std::byte*>(arena_.allocate(mem::SHARE_RECORD_BYTES, 64));
  entry& made = entries_[base];
  made.shared = shared;
  return made;
}

share_records::map::iterator share_records::oldest_locked(bool with_descriptor) noexcept {
  const auto is_older = [](const entry& a, const entry& b) {
    const bool is_held = a.holds != 0;
    return is_held != (b.holds != 0) ? !is_held : a.last_use < b.last_use;
  };
  auto oldest = entries_.end();
  for (auto each = entries_.begin(); each != entries_.end(); ++each) {
    if (with_descriptor && !each->second.fd) continue;
    if (oldest == entries_.end() || is_older(each->second, oldest->second)) oldest = each;
  }
  return oldest;
}

std::size_t share_records::descriptors_locked() const noexcept {
  return static_cast<std::size_t>(std::count_if(
      entries_.begin(), entries_.end(), [](const auto& each) { return bool(each.second.fd); }));
}

// What the user has freed is still held by our descriptor.
void share_records::close_stale_locked() noexcept {
  for (auto each = entries_.begin(); each != entries_.end();) {
    const auto next = std::next(each);
    if (each->second.fd) {
      const auto* const base = reinterpret_cast<const void*>(each->first);
      const classified now = pointers_.find(base);
      if (!now.error && now.what.id != each->second.id) drop_locked(each);
    }
    each = next;
  }
}

void share_records::drop_locked(map::iterator gone) noexcept {
  share_record::write(gone->second.shared, {});
  arena_.free(gone->second.shared, mem::SHARE_RECORD_BYTES);
  entries_.erase(gone);  // and closes the descriptor
}

}  // namespace lci::cuda
