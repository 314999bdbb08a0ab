// The short way of a small put: who may take it, and who is sent the long way with nothing done.
#include <gtest/gtest.h>

#include <vector>

#include "backends/shm/endpoint.hpp"
#include "tests/support/in_thread.hpp"
#include "tests/unit/shm/pair.hpp"

namespace lci::shm {
namespace {

class put_inline : public testing::Test {
 protected:
  void SetUp() override {
    p_.meet();
    key_ = p_.b.expose(memory_.data(), memory_.size());
  }
  errorcode_t put(net::small_put what) {
    what.rank = 1;
    what.data = text_.data();
    return p_.a.out->put_inline(what);
  }
  net::small_put small(std::size_t size = 8, std::uint64_t offset = 0) const {
    return {.remote = key_, .offset = offset, .size = size};
  }
  std::string arrived(std::size_t size, std::size_t offset = 0) {
    p_.b.poll();
    return memory_.substr(offset, size);
  }

  test::pair p_;
  const std::string text_ = test::pattern(4096, 9);
  std::string memory_ = std::string(4096, '.');
  net::remote_key key_;
};

TEST_F(put_inline, alone_in_its_lane__is_done_and_arrives) {
  EXPECT_EQ(put(small(8, 100)), errorcode_t::done);
  EXPECT_EQ(arrived(8, 100), text_.substr(0, 8));
  EXPECT_EQ(put(small(MAX_SLOT_PUT)), errorcode_t::done);
  EXPECT_EQ(arrived(MAX_SLOT_PUT), text_.substr(0, MAX_SLOT_PUT));
}

TEST_F(put_inline, with_an_immediate__that_comes_after_it) {
  net::small_put what = small();
  what.has_imm = true;
  what.imm = 5;
  EXPECT_EQ(put(what), errorcode_t::done);
  EXPECT_EQ(arrived(8), text_.substr(0, 8));
  EXPECT_EQ(p_.b.seen.immediates, std::vector<std::uint32_t>{5});
}

TEST_F(put_inline, then_a_message__finds_the_data) {
  p_.begin_stream(p_.a);
  EXPECT_EQ(put(small()), errorcode_t::done);
  EXPECT_EQ(p_.a.say(1, "look"), errorcode_t::done);
  p_.b.seen.answer = [&](const net::arrival&) {
    EXPECT_EQ(memory_.substr(0, 8), text_.substr(0, 8));
    return net::verdict::taken;
  };
  p_.b.poll();
  EXPECT_EQ(p_.b.seen.messages.size(), 1u);
}

TEST_F(put_inline, too_large_for_a_slot__is_refused) {
  EXPECT_EQ(put(small(MAX_SLOT_PUT + 1)), errorcode_t::retry);
}

TEST_F(put_inline, into_a_full_lane__is_refused_until_there_is_room) {
  while (p_.a.say(1, "x") == errorcode_t::done) {
  }
  EXPECT_EQ(put(small()), errorcode_t::retry);
  p_.until([&] { return p_.b.poll() == 0; }, {&p_.b});
  EXPECT_EQ(put(small()), errorcode_t::done);
}

// Lanes know no order between them.
TEST_F(put_inline, beside_another_lane__is_refused) {
  lci::test::in_thread([&] { EXPECT_EQ(p_.a.say(1, "from another thread"), errorcode_t::done); });
  EXPECT_EQ(put(small()), errorcode_t::retry);
}

TEST_F(put_inline, of_a_thread_without_a_lane__is_refused) {
  lci::test::in_thread([&] { EXPECT_EQ(put(small()), errorcode_t::retry); });
}

TEST_F(put_inline, to_memory_of_a_gpu__is_refused) {
  const mem::region_name device =
      p_.b.regions.insert({memory_.data(), memory_.size(), mem::mem_kind::device, {}, false});
  key_ = {device.slot, device.generation};
  EXPECT_EQ(put(small()), errorcode_t::retry);
}

TEST_F(put_inline, to_memory_that_is_registered_no_more__is_refused) {
  EXPECT_TRUE(p_.b.regions.erase({key_.slot, key_.generation}));
  EXPECT_EQ(put(small()), errorcode_t::retry);
}

TEST_F(put_inline, to_oneself__is_there_at_once) {
  ASSERT_EQ(p_.a.say(0, "hello"), errorcode_t::done);
  p_.until([&] { return !p_.a.seen.messages.empty(); }, {&p_.a});
  std::string mine(100, '.');
  net::small_put what{.remote = p_.a.expose(mine.data(), mine.size()), .offset = 50, .size = 8};
  what.rank = 0;
  what.data = text_.data();
  EXPECT_EQ(p_.a.out->put_inline(what), errorcode_t::done);
  EXPECT_EQ(mine.substr(50, 8), text_.substr(0, 8));
  EXPECT_EQ(mine.substr(58), std::string(42, '.'));
  what.has_imm = true;  // which needs a place among the messages
  EXPECT_EQ(p_.a.out->put_inline(what), errorcode_t::retry);
  what.has_imm = false;
  what.offset = 93;
  EXPECT_EQ(p_.a.out->put_inline(what), errorcode_t::retry);
}

TEST_F(put_inline, to_a_peer_that_has_left__is_refused) {
  p_.b.close();
  p_.until([&] { return !p_.a.seen.gone.empty(); }, {&p_.a});
  EXPECT_EQ(put(small()), errorcode_t::retry);
}

}  // namespace
}  // namespace lci::shm
