#include "lci/device/receiver.hpp"

#include <gtest/gtest.h>

#include "tests/unit/device/pair.hpp"

namespace {

using namespace lci::device;
using namespace lci::test;
using lci::wqe::cqe_opcode;
using lci::wqe::opcode;
using lci::wqe::status;
using lci::wqe::syndrome;
namespace wqe = lci::wqe;

class receiver_test : public testing::Test {
 protected:
  receiver_test() {
    for (std::size_t i = 0; i < 512; ++i) p.local.data()[i] = static_cast<std::byte>(i);
  }
  ~receiver_test() override { EXPECT_TRUE(p.is_whole()); }
  answer take(std::uint32_t length) {
    const local_piece pieces[] = {{p.local.data(), length / 3},
                                  {p.local.data() + length / 3, length - length / 3}};
    return p.peer->take(opcode::send, {pieces, 2, length}, 0, pair::QPN, false);
  }
  // An entry of two places.
  void post_two(std::uint64_t first, std::uint64_t second) {
    const wqe::sge two[] = {{p.landing.address(), first, p.landing_key},
                            {p.landing.address() + 1024, second, p.landing_key}};
    ASSERT_EQ(wqe::write_recv_wqe(p.recv.ring, p.receives, two, 2), status::ok);
    wqe::post_receives(p.peer_record, ++p.receives);
  }
  wqe::completion received(status expected) {
    wqe::completion c;
    EXPECT_EQ(p.poll_receive(&c), expected);
    return c;
  }

  pair p;
};

TEST_F(receiver_test, take__pieces_and_places_that_end_elsewhere) {
  for (std::uint32_t length : {1u, 2u, 59u, 60u, 61u, 100u}) {
    post_two(60, 40);
    ASSERT_EQ(take(length).what, outcome::done);
    EXPECT_EQ(received(status::ok).byte_count, length);
    const std::uint32_t first = std::min(length, 60u);
    EXPECT_EQ(std::memcmp(p.landing.data(), p.local.data(), first), 0);
    EXPECT_EQ(std::memcmp(p.landing.data() + 1024, p.local.data() + first, length - first), 0);
  }
}

TEST_F(receiver_test, take__empty_message_and_empty_entry) {
  const wqe::sge none{0, 0, 0};
  ASSERT_EQ(wqe::write_recv_wqe(p.recv.ring, 0, &none, 1), status::ok);
  wqe::post_receives(p.peer_record, p.receives = 1);
  ASSERT_EQ(take(0).what, outcome::done);
  EXPECT_EQ(received(status::ok).byte_count, 0u);
}

TEST_F(receiver_test, take__no_entry_or_no_place_for_the_completion_changes_nothing) {
  EXPECT_EQ(take(8).what, outcome::retry);
  EXPECT_EQ(p.peer->notify(8, 1, pair::QPN, false).what, outcome::retry);
  for (int i = 0; i < 16; ++i) p.post_receive(0, 64);
  for (int i = 0; i < 16; ++i) ASSERT_EQ(take(8).what, outcome::done);
  p.post_receive(0, 64);
  EXPECT_EQ(take(8).what, outcome::retry);  // 16 completions were not given back
  received(status::ok);
  EXPECT_EQ(take(8).what, outcome::done);
}

TEST_F(receiver_test, take__too_long_or_a_bad_key_ends_it_for_good) {
  post_two(60, 40);
  EXPECT_EQ(take(101).why, syndrome::remote_invalid_request);
  const wqe::completion c = received(status::failed);
  EXPECT_EQ(c.kind, cqe_opcode::response_error);
  EXPECT_EQ(c.error, syndrome::local_length);
  EXPECT_EQ(p.landing.data()[0], std::byte{0});
  p.post_receive(0, 64);
  EXPECT_EQ(take(8).what, outcome::failed);
  EXPECT_EQ(p.peer->notify(8, 1, pair::QPN, false).why, syndrome::retry_exceeded);

  pair q;
  receiver other(q.recv, q.keys);
  const wqe::sge bad{q.landing.address(), 64, q.rkey};  // not to be written by receives
  ASSERT_EQ(wqe::write_recv_wqe(q.recv.ring, 0, &bad, 1), status::ok);
  wqe::post_receives(q.peer_record, 1);
  const local_piece piece{q.local.data(), 8};
  EXPECT_EQ(other.take(opcode::send, {&piece, 1, 8}, 0, pair::QPN, false).why,
            syndrome::remote_operation);
  wqe::completion d;
  EXPECT_EQ(q.poll_receive(&d), status::failed);
  EXPECT_EQ(d.error, syndrome::local_protection);
}

}  // namespace
