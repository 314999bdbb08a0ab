// Every row of the two tables of staged transfers, as stories; what they do to slots and messages
// is in gpu_test and gpu_hostile_test.
#include "lci/proto/gpu/staged_states.hpp"

#include <gtest/gtest.h>

#include "tests/unit/proto/table_walk.hpp"

using namespace lci::proto::gpu;  // NOLINT: a test reads better without the prefix

TEST(staged_send_table, every_row__is_as_the_stories_say) {
  using in = staged_send_state;
  using on = staged_send_event;
  using then = staged_action;
  lci::test::table_walk<STAGED_SEND> all;
  // A message, which waits for slots, ends with its last piece.
  all.expect(in::starting, {{on::quiet, in::starting, then::nothing},
                            {on::begin, in::filling, then::begin},
                            {on::quiet, in::filling, then::nothing},
                            {on::credit, in::filling, then::copy},
                            {on::last, in::finished, then::finish}});
  // A put ends with its last piece and an ack, in either order.
  all.expect(in::starting, {{on::begin_put, in::filling_put, then::begin},
                            {on::credit, in::filling_put, then::copy},
                            {on::quiet, in::filling_put, then::nothing},
                            {on::last, in::filled, then::nothing},
                            {on::quiet, in::filled, then::nothing},
                            {on::last, in::filled, then::nothing},
                            {on::ack, in::finished, then::finish}});
  all.expect(in::filling_put,
             {{on::ack, in::filling, then::nothing}, {on::last, in::finished, then::finish}});
  // A failure is reported once, and waits for what still copies.
  for (const in at : {in::starting, in::filling, in::filling_put, in::filled})
    for (const on end : {on::quiet, on::last})
      all.expect(at, {{on::fail, in::failing, then::report},
                      {on::fail, in::failing, then::nothing},
                      {on::begin, in::failing, then::nothing},
                      {on::begin_put, in::failing, then::nothing},
                      {on::ack, in::failing, then::nothing},
                      {end, in::failed, then::give_up}});
  // What is not due is dropped.
  all.expect(in::starting, {{on::credit, in::starting, then::drop},
                            {on::ack, in::starting, then::drop},
                            {on::last, in::starting, then::nothing}});
  all.expect(in::filling, {{on::ack, in::filling, then::drop}});
  all.expect(in::filled, {{on::credit, in::filled, then::drop}});
  all.expect(in::failing, {{on::credit, in::failing, then::drop}});
  // It begins once.
  for (const in at : {in::filling, in::filling_put, in::filled})
    all.expect(at, {{on::begin, at, then::nothing}, {on::begin_put, at, then::nothing}});
  all.expect_whole();
}

TEST(staged_recv_table, every_row__is_as_the_stories_say) {
  using in = staged_recv_state;
  using on = staged_recv_event;
  using then = staged_action;
  lci::test::table_walk<STAGED_RECV> all;
  all.expect(in::starting, {{on::quiet, in::starting, then::nothing},
                            {on::last, in::starting, then::nothing},
                            {on::piece, in::starting, then::drop},
                            {on::lend, in::emptying, then::begin},
                            {on::lend, in::emptying, then::nothing},
                            {on::piece, in::emptying, then::copy},
                            {on::quiet, in::emptying, then::nothing},
                            {on::last, in::finished, then::finish}});
  // A failure is reported once, and waits for what still copies or may still be written.
  for (const in at : {in::starting, in::emptying})
    for (const on first : {on::fail, on::sender_over})
      for (const on end : {on::quiet, on::last})
        all.expect(at, {{first, in::failing, then::report},
                        {on::fail, in::failing, then::nothing},
                        {on::lend, in::failing, then::nothing},
                        {on::piece, in::failing, then::nothing},
                        {on::sender_over, in::failing, then::nothing},
                        {end, in::failed, then::give_up}});
  all.expect_whole();
}
