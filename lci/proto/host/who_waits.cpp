#include "lci/proto/host/who_waits.hpp"

#include <mutex>

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
  r->age_ms = to.age_of(one.stamp);
  if (!is_message) {
    r->object = name_of(static_cast<const receive*>(one.value)->user.comp);
  } else if (static_cast<const message*>(one.value)->what == message::form::rts) {
    r->flags = report_of::RENDEZVOUS;
  }
}

}  // namespace

void report(core& of, sheet& to) noexcept {
  // First: engines may fill the sheet, and what is not in it would be taken for a rank that makes
  // no progress.
  if (!of.try_each_member([&](member& one) { one.report(to); })) to.add(kind::busy, "devices");
  const bool has_engines = of.rcomps.try_each_engine([&](match_target& one) {
    engine_look with{to, one.first_rcomp};
    if (matcher::of(one).engine().look_at(&see, &with) != 0)
      to.add(kind::busy, "a matching engine");
  });
  if (!has_engines) to.add(kind::busy, "the matching engines");
}

}  // namespace lci::proto
