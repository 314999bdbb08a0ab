// A send queue and the card in software that serves it, from the post to the completion.
#include "lci/device/card_queue.hpp"

#include <gtest/gtest.h>

#include <functional>

#include "tests/unit/device/pair.hpp"

namespace {

using namespace lci::device;
using namespace lci::test;
using lci::wqe::cqe_opcode;
using lci::wqe::opcode;
using lci::wqe::send_request;
using lci::wqe::status;
using lci::wqe::syndrome;
namespace wqe = lci::wqe;

class card_queue_test : public testing::Test {
 protected:
  ~card_queue_test() override { EXPECT_TRUE(p->is_whole()); }
  void make(std::uint32_t blocks, wqe::doorbell_form form = wqe::doorbell_form::mailbox,
            std::uint64_t first = 0) {
    p = std::make_unique<pair>(blocks, form, first);
  }
  // One completion, of a request that is done.
  wqe::completion completed(status expected = status::ok) {
    wqe::completion c;
    EXPECT_EQ(p->poll(&c), expected);
    return c;
  }
  void fill_local() {
    for (std::size_t i = 0; i < p->local.size(); ++i)
      p->local.data()[i] = static_cast<std::byte>(i * 7 + 1);
  }

  std::unique_ptr<pair> p = std::make_unique<pair>();
};

TEST_F(card_queue_test, progress__nothing_was_rung_for) {
  EXPECT_EQ(p->card->progress_st(), 0u);
  wqe::completion c;
  EXPECT_EQ(p->poll(&c), status::nothing);
}

TEST_F(card_queue_test, progress__write_and_read_of_every_size) {
  fill_local();
  for (std::uint64_t size : {1u, 3u, 4u, 8u, 9u, 64u, 1000u, 2000u}) {
    std::memset(p->remote.data(), 0, p->remote.size());
    ASSERT_EQ(p->post(request_for(opcode::rdma_write), 8, size, 16), status::ok);
    ASSERT_EQ(p->post(request_for(opcode::rdma_read), 2048, size, 16), status::ok);
    EXPECT_EQ(p->card->progress_st(), 2u);
    EXPECT_EQ(std::memcmp(p->remote.data() + 16, p->local.data() + 8, size), 0);
    EXPECT_EQ(std::memcmp(p->local.data() + 2048, p->local.data() + 8, size), 0);
    EXPECT_EQ(p->remote.data()[15], std::byte{0});
    EXPECT_EQ(p->remote.data()[16 + size], std::byte{0});
    const wqe::completion first = completed(), second = completed();
    EXPECT_EQ(first.send_opcode, 0x08);
    EXPECT_EQ(second.send_opcode, 0x10);
    EXPECT_EQ(second.byte_count, size);
    EXPECT_EQ(second.qpn, pair::QPN);
    fill_local();
  }
}

TEST_F(card_queue_test, progress__record_and_mailbox_across_the_wrap) {
  for (auto form : {wqe::doorbell_form::eight_bytes, wqe::doorbell_form::synthesized,
                    wqe::doorbell_form::mailbox}) {
    make(4, form, 0xfffe);
    for (int i = 0; i < 20; ++i) {
      ASSERT_EQ(p->post(request_for(opcode::nop), 0, 0), status::ok);
      ASSERT_EQ(p->card->progress_st(), 1u);
      ASSERT_EQ(wqe::wait_until_done(p->queue, p->end), status::ok);
    }
    EXPECT_EQ(p->card->next(), 0xfffeu + 20);
  }
}

TEST_F(card_queue_test, progress__gather_of_several_pieces_and_inline) {
  fill_local();
  const wqe::sge three[] = {p->entry(0, 5), p->entry(100, 0), p->entry(200, 70)};
  send_request r = request_for(opcode::rdma_write);
  r.entries = three;
  r.entry_count = 3;
  r.raddr = p->remote.address();
  r.rkey = p->rkey;
  ASSERT_EQ(wqe::post(p->queue, r, &p->end), status::ok);
  const std::uint64_t value = 0x1122334455667788;
  send_request in = request_for(opcode::rdma_write);
  in.inline_data = &value;
  in.inline_length = 8;
  in.raddr = p->remote.address() + 512;
  in.rkey = p->rkey;
  ASSERT_EQ(wqe::post(p->queue, in, &p->end), status::ok);
  EXPECT_EQ(p->card->progress_st(), 2u);
  EXPECT_EQ(std::memcmp(p->remote.data(), p->local.data(), 5), 0);
  EXPECT_EQ(std::memcmp(p->remote.data() + 5, p->local.data() + 200, 70), 0);
  EXPECT_EQ(std::memcmp(p->remote.data() + 512, &value, 8), 0);
}

TEST_F(card_queue_test, progress__sends_and_immediate_data_wait_for_receives) {
  fill_local();
  send_request with_imm = request_for(opcode::send_imm);
  with_imm.imm = 0x11223344;
  with_imm.solicited = true;
  ASSERT_EQ(p->post(with_imm, 0, 100), status::ok);
  EXPECT_EQ(p->card->progress_st(), 0u);  // nobody takes it yet, and nothing is lost
  p->post_receive(0, 128);
  EXPECT_EQ(p->card->progress_st(), 1u);
  wqe::completion c;
  ASSERT_EQ(p->poll_receive(&c), status::ok);
  EXPECT_EQ(c.kind, cqe_opcode::resp_send_imm);
  EXPECT_EQ(c.imm, 0x11223344u);
  EXPECT_EQ(c.byte_count, 100u);
  EXPECT_EQ(c.source_qp, pair::QPN);
  EXPECT_EQ(c.qpn, pair::PEER);
  EXPECT_TRUE(c.solicited);
  EXPECT_EQ(std::memcmp(p->landing.data(), p->local.data(), 100), 0);
  p->post_receive(256, 8);
  send_request notify = request_for(opcode::rdma_write_imm);
  notify.imm = 7;
  ASSERT_EQ(p->post(notify, 0, 64, 0), status::ok);
  EXPECT_EQ(p->card->progress_st(), 1u);
  ASSERT_EQ(p->poll_receive(&c), status::ok);
  EXPECT_EQ(c.kind, cqe_opcode::resp_write_imm);
  EXPECT_EQ(c.wqe_counter, 1);
  EXPECT_EQ(c.byte_count, 64u);
  EXPECT_EQ(std::memcmp(p->remote.data(), p->local.data(), 64), 0);
}

TEST_F(card_queue_test, progress__send_with_invalidate_takes_the_key_back) {
  p->post_receive(0, 64);
  send_request r = request_for(opcode::send_inval);
  r.imm = p->rkey;
  ASSERT_EQ(p->post(r, 0, 8), status::ok);
  ASSERT_EQ(p->post(request_for(opcode::rdma_write), 0, 8), status::ok);
  EXPECT_EQ(p->card->progress_st(), 2u);
  completed();
  EXPECT_EQ(completed(status::failed).error, syndrome::remote_access);
  wqe::completion c;
  ASSERT_EQ(p->poll_receive(&c), status::ok);
  EXPECT_EQ(c.kind, cqe_opcode::resp_send_inv);
  EXPECT_EQ(c.imm, p->rkey);
}

TEST_F(card_queue_test, progress__write_imm_to_a_receiver_that_failed_ends) {
  p->post_receive(0, 4);
  p->post_receive(0, 64);
  const local_piece long_one{p->local.data(), 8};
  EXPECT_EQ(p->peer->take(opcode::send, {&long_one, 1, 8}, 0, pair::QPN, false).what,
            outcome::failed);
  p->local.data()[0] = std::byte{7};
  ASSERT_EQ(p->post(request_for(opcode::rdma_write_imm), 0, 8), status::ok);
  EXPECT_EQ(p->card->progress_st(), 1u);
  EXPECT_EQ(completed(status::failed).error, syndrome::retry_exceeded);
  EXPECT_EQ(p->remote.data()[0], std::byte{0});
}

// What is wrong, and what the card says of it; then everything behind it is flushed.
TEST_F(card_queue_test, progress__errors_have_their_syndrome_and_flush_the_rest) {
  struct wrong {
    const char* what;
    std::function<void(send_request&, wqe::sge&)> spoil;
    syndrome expected;
  };
  const wrong all[] = {
      {"local key", [](auto&, auto& e) { e.lkey ^= 1; }, syndrome::local_protection},
      {"local bounds", [](auto&, auto& e) { e.laddr += 4096 - 7; }, syndrome::local_protection},
      {"remote key", [](auto& r, auto&) { r.rkey ^= 0x100; }, syndrome::remote_access},
      {"remote bounds", [](auto& r, auto&) { r.raddr -= 1; }, syndrome::remote_access},
      {"no access", [this](auto& r, auto&) { r.rkey = p->landing_key; }, syndrome::remote_access},
      {"read into what is not to be written",
       [this](auto& r, auto& e) {
         r.op = opcode::rdma_read;
         e.lkey = p->rkey;
         e.laddr = p->remote.address();
       },
       syndrome::local_protection},
      {"no receive for so much",
       [this](auto& r, auto&) {
         r.op = opcode::send;
         p->post_receive(0, 4);
       },
       syndrome::remote_invalid_request}};
  int checked = 0;
  for (const wrong& w : all) {
    SCOPED_TRACE(w.what);
    make(64);
    wqe::sge e = p->entry(0, 8);
    send_request r = request_for(opcode::rdma_write);
    r.raddr = p->remote.address();
    r.rkey = p->rkey;
    r.signaled = false;  // an error comes all the same
    w.spoil(r, e);
    r.entries = &e;
    r.entry_count = 1;
    ASSERT_EQ(wqe::post(p->queue, r, &p->end), status::ok);
    for (int i = 0; i < 3; ++i)
      ASSERT_EQ(p->post(request_for(opcode::rdma_write), 0, 8), status::ok);
    EXPECT_EQ(p->card->progress_st(), 4u);
    EXPECT_EQ(completed(status::failed).error, w.expected);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(completed(status::failed).error, syndrome::flushed);
    for (std::size_t i = 0; i < p->remote.size(); ++i) ASSERT_EQ(p->remote.data()[i], std::byte{0});
    EXPECT_TRUE(p->card->has_failed());
    ++checked;
  }
  EXPECT_EQ(checked, 7);
}

TEST_F(card_queue_test, progress__a_full_completion_queue_stops_the_card) {
  make(4);
  for (int i = 0; i < 4; ++i) ASSERT_EQ(p->post(request_for(opcode::nop), 0, 0), status::ok);
  EXPECT_EQ(p->card->progress_st(), 4u);
  // The blocks are free, as far as the poster knows; the completions were not given back.
  p->state.done = 4;
  ASSERT_EQ(p->post(request_for(opcode::rdma_write), 0, 8), status::ok);
  EXPECT_EQ(p->card->progress_st(), 0u);
  completed();
  EXPECT_EQ(p->card->progress_st(), 1u);
}

// Whatever is written there, a call ends: a ring is all that can have been posted.
TEST_F(card_queue_test, progress__a_mailbox_is_believed_for_a_ring_at_most) {
  p->options.ring.blocks = 4;  // of a ring that is shorter than its completion queue
  card_queue card(p->options, p->keys, *p->beyond);
  p->target = ~std::uint64_t{0};
  EXPECT_EQ(card.progress_st(), 4u);
  EXPECT_EQ(card.next(), 4u);
  p->target = 0;
  EXPECT_EQ(card.progress_st(), 0u);
}

// A world that is slow: nothing behind the request begins before it is done.
class slow_world final : public world {
 public:
  answer put(opcode, const local_data& from, remote_place, std::uint32_t, bool) noexcept override {
    ++puts;
    given = from.pieces[0].at;
    return {outcome::posted, {}};
  }
  answer get(remote_place, const local_data&) noexcept override { return {}; }
  answer send(opcode, const local_data&, std::uint32_t, bool) noexcept override { return {}; }
  answer atomic(opcode, const wqe::atomic_operands&, remote_place, std::byte*) noexcept override {
    return {};
  }
  answer poll() noexcept override { return next; }
  int puts = 0;
  const std::byte* given = nullptr;  // of the last put
  answer next{outcome::posted, {}};
};

TEST_F(card_queue_test, progress__what_is_posted_ends_before_the_next_begins) {
  slow_world slow;
  card_queue card(p->options, p->keys, slow);
  for (int i = 0; i < 2; ++i) ASSERT_EQ(p->post(request_for(opcode::rdma_write), 0, 8), status::ok);
  EXPECT_EQ(card.progress_st(), 0u);
  EXPECT_EQ(card.progress_st(), 0u);
  EXPECT_EQ(slow.puts, 1);
  slow.next = {};
  EXPECT_EQ(card.progress_st(), 1u);  // and the second is posted
  EXPECT_EQ(slow.puts, 2);
  slow.next = failed(syndrome::retry_exceeded);
  EXPECT_EQ(card.progress_st(), 1u);
  completed();
  EXPECT_EQ(completed(status::failed).error, syndrome::retry_exceeded);
}

// The world has given the request up, but a network may still read its inline bytes.
TEST_F(card_queue_test, progress__behind_an_error_the_inline_bytes_given_stay) {
  slow_world slow;
  card_queue card(p->options, p->keys, slow);
  const std::uint64_t values[] = {0x1111111111111111, 0x2222222222222222};
  for (const std::uint64_t& value : values) {
    send_request r = request_for(opcode::rdma_write);
    r.inline_data = &value;
    r.inline_length = sizeof(value);
    r.raddr = p->remote.address();
    r.rkey = p->rkey;
    ASSERT_EQ(wqe::post(p->queue, r, &p->end), status::ok);
  }
  EXPECT_EQ(card.progress_st(), 0u);
  ASSERT_NE(slow.given, nullptr);
  slow.next = failed(syndrome::flushed);
  EXPECT_EQ(card.progress_st(), 2u);
  EXPECT_EQ(slow.puts, 1);
  EXPECT_EQ(std::memcmp(slow.given, &values[0], sizeof(values[0])), 0);
  for (std::uint16_t i = 0; i < 2; ++i) {
    const wqe::completion c = completed(status::failed);
    EXPECT_EQ(c.error, syndrome::flushed);
    EXPECT_EQ(c.send_opcode, 0x08);
    EXPECT_EQ(c.wqe_counter, i);
  }
}

TEST_F(card_queue_test, progress__read_index_frees_a_poster_without_completions) {
  std::uint64_t read = 0;
  p->options.read_index = &read;
  card_queue card(p->options, p->keys, *p->beyond);
  send_request r = request_for(opcode::rdma_write);
  r.signaled = false;
  ASSERT_EQ(p->post(r, 0, 8), status::ok);
  EXPECT_EQ(card.progress_st(), 1u);
  EXPECT_EQ(read, 1u);
  wqe::completion c;
  EXPECT_EQ(p->poll(&c), status::nothing);
}

}  // namespace
