#include "lci/proto/who_waits.hpp"

#include <mutex>

#include "lci/proto/channel.hpp"
#include "lci/proto/core.hpp"
#include "lci/proto/matcher.hpp"

namespace lci::proto {

namespace {

namespace report_of = base::report;
using report_of::kind;
using report_of::record;
using report_of::sheet;

std::uint64_t name_of(const void* object) noexcept {
  return reinterpret_cast<std::uintptr_t>(object);
}

struct engine_look {
  sheet& to;
  std::uint32_t engine;
};

// Under the engine's lock, so what is filed stays.
void see(void* with, const match::engine::filed_entry& one) {
  auto& [to, engine] = *static_cast<engine_look*>(with);
  const bool is_message = one.type == matching_entry_type_t::send;
  record* const r = to.add(is_message ? kind::message : kind::receive);
  if (r == nullptr) return;
  r->engine = engine;
  r->rank = one.rank;
  r->tag = one.tag;
  r->how = static_cast<std::uint8_t>(one.policy);
  r->size = one.size;
  r->age_ms = to.age_of(one.stamp);
  if (!is_message) {
    r->object = name_of(static_cast<const receive*>(one.value)->user.comp);
  } else if (static_cast<const message*>(one.value)->what == message::form::rts) {
    r->flags = report_of::RENDEZVOUS;
  }
}

// The state of that name, copied by take() with no lock: kept only if the name is still its own.
template <class Table, class Take>
void look_at(const Table& table, sheet& to, kind what, Take&& take) noexcept {
  if (table.size() == 0) return;
  const std::uint32_t slots = table.slots();
  for (std::uint32_t i = 0; i < slots; ++i) {
    const wire::name name = table.name_at(i);
    const auto* const side = table.find(name);
    if (side == nullptr) continue;
    record copy{};
    take(*side, copy);
    if (table.find(name) != side) continue;
    record* const r = to.add(what);
    if (r == nullptr) return;
    copy.what = what;
    copy.age_ms = -1;
    *r = copy;
  }
}

template <class Plan>
void take_plan(const Plan& plan, record& out) noexcept {
  out.tag = plan.user.status.tag;
  out.size = plan.user.status.size;
  out.object = name_of(plan.user.comp);
}

}  // namespace

void channel::refuse(int rank, errorcode_t why) noexcept {
  const auto reason =
      static_cast<std::size_t>(why) - static_cast<std::size_t>(errorcode_t::retry_min);
  if (reason >= REASONS) return;
  refusal_count& of = refusals_[reason];
  // statistics only
  of.times.store(of.times.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  of.rank.store(rank, std::memory_order_relaxed);
}

void channel::report(sheet& to) noexcept {
  if (record* const r = to.add(kind::progress)) r->number = rounds_.load(std::memory_order_relaxed);
  if (record* const r = to.add(kind::device)) {
    r->number = static_cast<std::uint64_t>(open.sum());
    r->size = static_cast<std::uint64_t>(open_receives.sum());
  }
  if (record* const r = to.add(kind::packets)) {
    r->number = pool.outstanding();
    r->size = pool.limit();
  }
  look_at(rendezvous.sends, to, kind::send, [](const send_side& side, record& out) {
    out.rank = side.rank.load(std::memory_order_relaxed);
    out.how = side.state == send_state::rts_sent ? 0 : 1;
    take_plan(side.plan, out);
  });
  look_at(rendezvous.recvs, to, kind::incoming, [](const recv_side& side, record& out) {
    out.rank = side.rank.load(std::memory_order_relaxed);
    take_plan(side.plan, out);
  });
  for (std::size_t i = 0; i < REASONS; ++i) {
    const std::uint64_t times = refusals_[i].times.load(std::memory_order_relaxed);
    if (times == 0) continue;
    record* const r = to.add(kind::refusals);
    if (r == nullptr) return;
    r->how = static_cast<std::uint8_t>(i + static_cast<std::size_t>(errorcode_t::retry_min));
    r->number = times;
    r->rank = refusals_[i].rank.load(std::memory_order_relaxed);
  }
  const std::unique_lock lock(ports_lock_, std::try_to_lock);
  bool is_whole = lock.owns_lock();
  for (std::size_t i = 0; lock.owns_lock() && i < ports_.size(); ++i) {
    is_whole &= ports_[i]->log.try_look([&](int rank, std::uint64_t entries) {
      record* const r = to.add(kind::backlog);
      if (r == nullptr) return;
      r->rank = rank;
      r->number = entries;
    });
  }
  if (!is_whole) to.add(kind::busy, "a backlog");
}

void report(core& of, sheet& to) noexcept {
  // First: engines may fill the sheet, and what is not in it would be taken for a rank that makes
  // no progress.
  if (!of.try_each_channel([&](channel& one) { one.report(to); })) to.add(kind::busy, "devices");
  const bool has_engines = of.rcomps.try_each_engine([&](matcher& match) {
    engine_look with{to, match.first_rcomp};
    if (match.engine().look_at(&see, &with) != 0) to.add(kind::busy, "a matching engine");
  });
  if (!has_engines) to.add(kind::busy, "the matching engines");
}

}  // namespace lci::proto
