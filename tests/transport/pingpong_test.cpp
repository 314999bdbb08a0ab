// The ping-pong that pages of transports show: bind and connect, registered memory, a write with
// notification there and one back.
#include <thread>

#include "both_ends.hpp"

namespace transport_test {
namespace {

TEST(pingpong, one_thread) {
  both_ends e;
  e.connect();
  std::vector<std::uint8_t> here = pattern(8192, 1), there(8192);
  lci::memory source(here.data(), here.size()), target(there.data(), there.size());
  const lci::transfer sent = e.a.write(source.view(), target.remote(), true, 7);
  ASSERT_TRUE(e.run_both(sent));
  sent.get();
  const lci::notification note = e.note_of(e.b);
  EXPECT_EQ(note.tag, 7u);
  EXPECT_EQ(note.count, 1u);
  EXPECT_EQ(there, here);
}

TEST(pingpong, two_threads_that_wait) {
  both_ends e;
  e.connect();
  constexpr int ROUNDS = 1000;
  std::vector<std::uint8_t> left = pattern(64, 1), right(64);
  lci::memory at_a(left.data(), left.size()), at_b(right.data(), right.size());
  const lci::remote_buffer of_a = at_a.remote(), of_b = at_b.remote();
  std::thread other([&] {
    for (int i = 0; i < ROUNDS; ++i) {
      e.b.wait_for_write();
      ++right[0];
      e.b.write(at_b.view(), of_a, true).get();
    }
  });
  const std::uint8_t first = left[0];
  for (int i = 0; i < ROUNDS; ++i) {
    e.a.write(at_a.view(), of_b, true).get();
    e.a.wait_for_write();
  }
  other.join();
  EXPECT_EQ(left[0], static_cast<std::uint8_t>(first + ROUNDS));
}

}  // namespace
}  // namespace transport_test
