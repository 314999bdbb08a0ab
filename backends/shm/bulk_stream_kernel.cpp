// How an operation is issued by the kernel's copy: alone, in turns, or shared with the target,
// which is asked to read parts out of the buffer from its end while the poller writes from the
// start, or all of a short one; and which of the ways a peer gets. Threads: the one that is inside
// the device's `polling`. Always true: what answers false has changed nothing that the next call
// does not go on from; a part that one side may not copy is copied by another way, from the start
// if need be.
#include <algorithm>
#include <cstring>
#include <utility>

#include "backends/shm/bulk_stream.hpp"
#include "backends/shm/connections.hpp"
#include "backends/shm/single_copy.hpp"
#include "lci/base/log.hpp"
#include "lci/base/platform.hpp"

namespace lci::shm {
namespace {

// Whole pages: the kernel handles each of them on its own.
constexpr std::size_t PAGE = 4096;
// Parts that the target has before it. One more than it works on, so that it need not wait.
constexpr std::size_t MOST_READS = 2;

std::size_t share_of(std::size_t size) noexcept {
  if (size <= bulk_stream::SHARED_FROM) return size;
  return std::clamp(size / 4, bulk_stream::LEAST_SHARE, bulk_stream::MOST_SHARE) & ~(PAGE - 1);
}

// Thousandths of a GB/s.
unsigned speed(std::uint32_t ticks_per_kib) noexcept {
  if (ticks_per_kib == 0) return 0;
  return static_cast<unsigned>(base::ticks_per_ms() * 1024 / ticks_per_kib / 1000);
}

LCI_COLD void tell(int rank, const way_chooser::figures& f) noexcept {
  base::log::debug(
      "shm",
      "rank %d: %s of up to %zu KiB are copied by %s; MB/s by pipeline %u, by kernel %u, "
      "by both %u",
      rank, f.is_get ? "gets" : "puts", f.size / 1024, name_of(f.best), speed(f.ticks_per_kib[0]),
      speed(f.ticks_per_kib[1]), speed(f.ticks_per_kib[2]));
}

}  // namespace

void bulk_stream::choose(flow& f, stream& s) noexcept {
  if (!s.is_chosen) return;
  way_chooser::way_set allowed = way_chooser::only(copy_way::pipeline);
  if (f.who->single_copy.load(std::memory_order_relaxed)) {
    allowed |= way_chooser::only(copy_way::kernel);
    if (f.may_share && s.what != kind::get && s.size > READ_FROM)
      allowed |= way_chooser::only(copy_way::both);
  }
  const bool is_get = s.what == kind::get;
  // What waits for puts in lanes is not copied by its poster.
  const way_chooser::skips may{.pipeline = s.may.pipeline,
                               .kernel = s.may.kernel && s.before.used == 0};
  const way_chooser::choice got = f.ways.pick(s.size, is_get, allowed, may);
  s.way = got.way;
  s.waits_for_others = got.is_change;
  if (s.what == kind::put && s.way == copy_way::both && s.size <= SHARED_FROM) {
    // It has no immediate that would be told sooner.
    s.way = copy_way::kernel;
    s.is_chosen = false;
  }
  const std::size_t number = way_chooser::class_of(s.size);
  if (got.unmeasured != 0) {
    auto& left = got.way == copy_way::kernel ? f.who->unmeasured.by_kernel[is_get][number]
                                             : f.who->unmeasured.by_lane[number];
    left.store(got.unmeasured, std::memory_order_relaxed);
  } else if (got.is_change && number < way_chooser::AT_ONCE) {
    // Left over from a way that was the best.
    f.who->unmeasured.by_kernel[is_get][number].store(0, std::memory_order_relaxed);
  }
  s.started_ticks = base::cpu_ticks();
}

// Two ways at once would be measured as one.
bool bulk_stream::is_alone(flow& f) noexcept {
  retire(f);
  if (!f.in_flight.empty()) return false;
  end_issued(f);
  return true;
}

// A stream has the peer for itself from the end of the one before. What lies between them counts
// too, up to the time of the copy: the poster's own copies keep it from preparing the next message,
// others do not.
void bulk_stream::measure(flow& f, const stream& s) noexcept {
  if (s.size <= way_chooser::FROM) return;
  const std::uint64_t now = base::cpu_ticks();
  const std::uint64_t before = std::exchange(f.end_ticks, now);
  if (!s.is_chosen || s.why != nullptr) return;
  const std::uint64_t copy = now - std::max(s.started_ticks, before);
  const std::uint64_t gap = s.started_ticks > before ? s.started_ticks - before : 0;
  f.ways.note(s.size, s.what == kind::get, s.way, copy + std::min(gap, copy));
  if (f.ways.has_news()) [[unlikely]]
    tell(s.rank, f.ways.take_news());
}

bool bulk_stream::issue_by_kernel(flow& f, stream& s) noexcept {
  while (s.issued < s.end && !s.is_to_repeat) {
    if (s.way == copy_way::both) ask_to_read(f, s);
    if (s.issued == s.end) break;
    if (f.turn == 0) return false;
    const std::size_t most = s.way == copy_way::both ? share_of(s.size) : KERNEL_TURN;
    const std::size_t part = std::min({s.end - s.issued, most, f.turn});
    put_record where = s.there;
    where.offset += s.issued;
    const copied c = copy_whole(*f.who, s.what == kind::get, where, s.buffer + s.issued, part);
    f.turn -= part;
    // Memory of a device, say, is copied by processors and not by the kernel.
    const bool may_be_otherwise = c == copied::refused || (c == copied::failed && s.was_chosen);
    if (may_be_otherwise && peers_.config().shm_pipelined_copy) {
      s.is_to_repeat = s.avoids_kernel = true;
    } else if (c != copied::done) {
      s.why = reason_of(c);
      s.end = s.issued;
    } else {
      s.issued += part;
      retire(f);
    }
  }
  return has_copied(f, s);
}

// What the target reads is waited for: a part that it refuses has to be copied after all.
bool bulk_stream::has_copied(flow& f, stream& s) noexcept {
  if (s.out != 0) {
    retire(f);
    if (s.out != 0) return false;
  }
  if (s.why != nullptr) return true;
  if (s.is_to_repeat) {
    s.is_to_repeat = s.has_imm_there = false;
    s.is_chosen = false;
    s.issued = 0;
    s.end = s.size;
    const bool by_kernel = !s.avoids_kernel && f.who->single_copy.load(std::memory_order_relaxed);
    s.way = by_kernel ? copy_way::kernel : copy_way::pipeline;
    return issue(f, s);
  }
  if (s.what == kind::put_imm && !s.has_imm_there && !issue_imm(s)) return false;
  measure(f, s);
  return true;
}

bool bulk_stream::issue_imm(const stream& s) noexcept {
  tx_lane* lane = nullptr;
  if (out_.acquire_poller(s.rank, lane) != errorcode_t::done) return false;
  lane->publish({s.imm, 0, slot_kind::immediate, 0});
  return true;
}

// What there is no memory or slot for the poller copies itself.
void bulk_stream::ask_to_read(flow& f, stream& s) noexcept {
  const std::size_t part = share_of(s.size);
  const bool is_all = part == s.size;
  const std::size_t own = is_all ? 0 : part;  // at least
  while (s.issued < s.end && s.out < MOST_READS * part && s.end - s.issued >= part + own) {
    tx_lane* lane = nullptr;
    if (out_.acquire_poller(s.rank, lane) != errorcode_t::done) return;
    const mem::packet* const p = send_off(f, {nullptr, part, &s, true});
    if (p == nullptr) return;
    s.end -= part;
    const read_record r{{s.there.region_slot, s.there.region_generation, s.there.offset + s.end},
                        peers_.arena().offset_of(p),
                        reinterpret_cast<std::uintptr_t>(s.buffer + s.end),
                        static_cast<std::uint32_t>(part),
                        0};
    std::memcpy(lane->next().data, &r, sizeof(r));
    s.has_imm_there = is_all && s.what == kind::put_imm;
    lane->publish(
        {s.imm, sizeof(r), slot_kind::read_request, s.has_imm_there ? HAS_IMM : std::uint8_t{0}});
  }
}

}  // namespace lci::shm
