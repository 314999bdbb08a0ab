// Its making, and that of its lanes; real contact is in contact_test.cpp.
#include <gtest/gtest.h>

#include "lci/errors.hpp"
#include "tests/unit/shm/pair.hpp"

namespace lci::shm {

using test::pair;

// The peer has answered our call, and has looked through our lanes, before there was one.
TEST(make_lane, before_the_answer_is_read__needs_no_poll_of_its_sender) {
  pair p;
  p.a.net->connect(1);
  pair::until(
      [&] {
        const peer* zero = p.b.net->connections().find(0);
        return zero != nullptr && zero->state.load() == contact::mapped;
      },
      {&p.b});
  for (int i = 0; i < 100; ++i) p.b.poll();
  EXPECT_EQ(p.a.say(1, "hello"), errorcode_t::done);
  for (int i = 0; i < 100; ++i) p.b.poll();
  EXPECT_EQ(p.b.seen.messages.size(), 1u);
}

TEST(fabric, without_book_or_arena__is_refused) {
  EXPECT_THROW(fabric f(net::fabric_config{}), backend_error);
}

}  // namespace lci::shm
