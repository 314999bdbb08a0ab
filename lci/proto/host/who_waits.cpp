#include "lci/proto/host/who_waits.hpp"

#include <mutex>

#include "lci/base/rough_clock.hpp"
#include "lci/proto/engine/core.hpp"
#include "lci/proto/host/matcher.hpp"

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
  r->age_ms = to.age_of(base::the_rough_clock.latest(one.stamp));
  if (!is_message) {
    r->object = name_of(static_cast<const receive*>(one.value)->user.comp);
  } else if (static_cast<const message*>(one.value)->what == message::form::rts) {
    r->flags = report_of::RENDEZVOUS;
  }
}

std::uint16_t flag_of(net::peer_state state) noexcept {
  switch (state) {
    case net::peer_state::unknown:
      return report_of::NOT_CONNECTED;
    case net::peer_state::connecting:
      return report_of::CONNECTING;
    case net::peer_state::ready:
      return report_of::CONNECTED;
    default:
      return 0;
  }
}

// Calls were entered before, and may belong to any runtime.
void add_peer_states(const core& of, sheet& to, const record* first) noexcept {
  for (record& r : to) {
    const bool is_own = &r >= first || r.what == kind::call;
    if (is_own && r.rank >= 0 && r.rank < of.n && r.rank != of.me)
      r.flags = static_cast<std::uint16_t>(r.flags | flag_of(of.peers.state(r.rank)));
  }
}

}  // namespace

void report(core& of, sheet& to) noexcept {
  const record* const first = to.end();
  // First: engines may fill the sheet, and what is not in it would be taken for a rank that makes
  // no progress.
  if (!of.try_each_member([&](member& one) { one.report(to); })) to.add(kind::busy, "devices");
  const bool has_engines = of.rcomps.try_each_engine([&](match_target& one) {
    engine_look with{to, one.first_rcomp};
    if (matcher::of(one).engine().look_at(&see, &with) != 0)
      to.add(kind::busy, "a matching engine");
  });
  if (!has_engines) to.add(kind::busy, "the matching engines");
  add_peer_states(of, to, first);
}

}  // namespace lci::proto
