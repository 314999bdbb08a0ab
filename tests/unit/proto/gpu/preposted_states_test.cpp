// Every row of the table of pre-posted receives, as stories; what they do to records, words and
// messages is in preposted_receives_test.
#include "lci/proto/gpu/preposted_states.hpp"

#include <gtest/gtest.h>

#include "tests/unit/proto/table_walk.hpp"

using namespace lci::proto::gpu;  // NOLINT: a test reads better without the prefix

TEST(preposted_table, every_row__is_as_the_stories_say) {
  using in = preposted_state;
  using on = preposted_event;
  using then = preposted_action;
  lci::test::table_walk<PREPOSTED> all;
  // Nobody claims it.
  all.expect(in::open, {{on::over, in::open, then::drop}, {on::taken_back, in::free, then::free}});
  // The claim is heard, and fetches the record.
  all.expect(in::open, {{on::claim, in::claimed, then::begin},
                        {on::claim, in::claimed, then::drop},
                        {on::taken_back, in::claimed, then::nothing},
                        {on::home, in::claimed_home, then::nothing},
                        {on::home, in::claimed_home, then::nothing},
                        {on::claim, in::claimed_home, then::drop},
                        {on::taken_back, in::claimed_home, then::nothing},
                        {on::over, in::free, then::signal_and_free}});
  // A message has taken the record out before the claim is heard.
  all.expect(in::open, {{on::home, in::lost, then::nothing},
                        {on::home, in::lost, then::nothing},
                        {on::taken_back, in::lost, then::nothing},
                        {on::over, in::lost, then::drop},
                        {on::claim, in::claimed_home, then::begin}});
  // The record comes home last.
  all.expect(in::claimed, {{on::over, in::ended, then::signal},
                           {on::over, in::ended, then::drop},
                           {on::claim, in::ended, then::drop},
                           {on::taken_back, in::ended, then::nothing},
                           {on::home, in::free, then::free}});
  all.expect_whole();
}
