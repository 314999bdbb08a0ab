// Receives that are offered to their senders, in random programs: every message finds one receive,
// and where the network keeps order, the right one.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <random>
#include <vector>

#include "tests/unit/proto/preposted_world.hpp"

using namespace lci::test;  // NOLINT: a test reads better without the prefix
using lci::mem::mem_kind;

namespace {

struct program {
  const char* name;
  bool is_ordered;
  gpu_options options;
};

std::vector<program> programs() {
  std::vector<program> all;
  const auto add = [&](const char* name, bool ordered, auto&& change) {
    program p{name, ordered, {}};
    p.options.sim.maps_arenas = true;
    change(p.options);
    all.push_back(p);
  };
  add("plain", true, [](gpu_options&) {});
  add("slow_copies", true, [](gpu_options& o) { o.gpu.max_delay = 30; });
  add("refusing", true, [](gpu_options& o) {
    o.sim.refuse_one_in = 3;
    o.sim.depth = 4;
  });
  add("no_flags", true, [](gpu_options& o) { o.gpu.refuses_flags = true; });
  add("no_mapping_of_memory", true, [](gpu_options& o) { o.gpu.refuses_map = true; });
  add("card", true, [](gpu_options& o) {
    o.sim = card_options();
    o.sim.maps_arenas = true;
  });
  add("unordered", false, [](gpu_options& o) {
    o.sim.caps.ordered = false;
    o.sim.reorder_one_in = 3;
    o.sim.max_delay_polls = 5;
    o.sim.late = true;
  });
  return all;
}

class offer_programs : public preposted_receives, public testing::WithParamInterface<program> {
 protected:
  offer_programs() : preposted_receives(GetParam().options) {}
};

}  // namespace

INSTANTIATE_TEST_SUITE_P(sim, offer_programs, testing::ValuesIn(programs()),
                         [](const auto& of) { return of.param.name; });

// Host and GPU memory at both ends, few tags, receives before and after their messages. Each
// message arrives once and whole, and where the network keeps order, in the order of its tag.
TEST_P(offer_programs, every_message_finds_its_receive) {
  struct key {
    std::vector<std::unique_ptr<end>> sends, receives;
  };
  std::mt19937 rng(5);
  const auto draw = [&rng](unsigned n) { return static_cast<unsigned>(rng() % n); };
  const auto draw_kind = [&] { return draw(4) == 0 ? mem_kind::host : mem_kind::device; };
  for (int round = 0; round < 30; ++round) {
    std::array<key, 3> keys;
    for (int op = 0; op < 120; ++op) {
      const unsigned tag = draw(3);
      key& at = keys[tag];
      if (draw(2) == 0 && at.receives.size() < at.sends.size() + 40) {
        at.receives.push_back(receive(draw_kind(), tag));
      } else if (at.sends.size() < at.receives.size() + 3) {
        const auto seed = static_cast<unsigned>(at.sends.size());
        at.sends.push_back(send(draw_kind(), tag, seed, 200 + 150 * seed));
      }
      for (unsigned i = draw(6); i > 0; --i) w.step_one(static_cast<int>(draw(2)));
    }
    for (unsigned tag = 0; tag < 3; ++tag) {
      key& at = keys[tag];
      while (at.receives.size() < at.sends.size()) at.receives.push_back(receive(draw_kind(), tag));
      while (at.sends.size() < at.receives.size()) {
        const auto seed = static_cast<unsigned>(at.sends.size());
        at.sends.push_back(send(draw_kind(), tag, seed, 200 + 150 * seed));
      }
    }
    w.step(300);
    for (const key& at : keys) {
      std::vector<bool> found(at.sends.size());
      for (std::size_t i = 0; i < at.receives.size(); ++i) {
        const end& r = *at.receives[i];
        ASSERT_EQ(r.told.seen.size(), 1u) << "receive " << i;
        const std::size_t which = (r.told.seen[0].size - 200) / 150;
        ASSERT_LT(which, found.size());
        EXPECT_FALSE(found[which]) << "message " << which << " came twice";
        found[which] = true;
        EXPECT_TRUE(holds(r, static_cast<unsigned>(which), 200 + 150 * which));
        EXPECT_TRUE(r.buffer.is_guarded());
        if (GetParam().is_ordered) {
          EXPECT_EQ(which, i) << "round " << round;
        }
      }
    }
    if (HasFailure()) return;
    expect_clean();
  }
  if (!GetParam().options.gpu.refuses_map) {
    EXPECT_GT(claims, 10u);
  }
}
