// A short put and the signal behind it, for a world that does both at once.
#include <gtest/gtest.h>

#include "lci/device/card_queue.hpp"
#include "tests/unit/device/pair.hpp"

namespace {

using namespace lci::device;
using namespace lci::test;
using lci::wqe::opcode;
using lci::wqe::send_request;
using lci::wqe::status;
using lci::wqe::syndrome;
namespace wqe = lci::wqe;

// What is asked of it goes to plain memory, in the order asked.
class joining_world final : public world {
 public:
  joining_world(key_table& keys) : keys_(keys), memory_(keys, nullptr, 1) {}
  answer put(opcode op, const local_data& from, remote_place to, std::uint32_t imm,
             bool solicited) noexcept override {
    ++puts;
    return memory_.put(op, from, to, imm, solicited);
  }
  answer put_signal(const local_data& from, remote_place to, remote_place word,
                    std::uint64_t value) noexcept override {
    ++joined;
    if (next.what == outcome::retry || next.what == outcome::failed) return next;
    std::memcpy(keys_.resolve(to.key, to.address, from.length, REMOTE_WRITE), from.pieces[0].at,
                from.length);
    std::memcpy(keys_.resolve(word.key, word.address, 8, REMOTE_WRITE), &value, sizeof(value));
    return next;
  }
  answer poll() noexcept override { return polled; }
  std::uint32_t most_beside() const noexcept override { return most; }
  answer put_beside(std::uint32_t, const local_data&, remote_place) noexcept override {
    ++beside;
    return said_beside;
  }
  answer poll_beside(std::uint32_t) noexcept override { return polled_beside; }
  answer get(remote_place, const local_data&) noexcept override { return {}; }
  answer send(opcode, const local_data&, std::uint32_t, bool) noexcept override { return {}; }
  answer atomic(opcode, const wqe::atomic_operands&, remote_place, std::byte*) noexcept override {
    return {};
  }
  int puts = 0, joined = 0, beside = 0;
  std::uint32_t most = 0;
  answer next, polled, said_beside, polled_beside;

 private:
  key_table& keys_;
  memory_world memory_;
};

class card_queue_signals : public testing::Test {
 protected:
  card_queue_signals() {
    p.options.joins_signals = true;
    p.card = std::make_unique<card_queue>(p.options, p.keys, w);
  }
  ~card_queue_signals() override { EXPECT_TRUE(p.is_whole()); }
  void put(const void* bytes, std::uint32_t size, std::uint64_t at, bool signaled = false,
           wqe::fence_mode fence = wqe::fence_mode::none) {
    send_request r;
    r.op = opcode::rdma_write;
    r.signaled = signaled;
    r.fence = fence;
    r.inline_data = bytes;
    r.inline_length = size;
    r.raddr = p.remote.address() + at;
    r.rkey = p.rkey;
    ASSERT_EQ(wqe::post(p.queue, r, &p.end), status::ok);
  }
  void put_and_signal(bool signaled = false) {
    put("0123456789ab", 12, 100);
    put(&value, sizeof(value), 200, signaled, wqe::fence_mode::small);
  }
  std::uint64_t word() {
    std::uint64_t out = 0;
    std::memcpy(&out, p.remote.data() + 200, sizeof(out));
    return out;
  }

  const std::uint64_t value = 4711;
  pair p;
  joining_world w{p.keys};
};

TEST_F(card_queue_signals, progress__both_at_once_and_both_are_over) {
  for (int i = 1; i <= 100; ++i) {
    put_and_signal(true);
    p.card->progress_st();
    EXPECT_EQ(w.joined, i);
    ASSERT_EQ(wqe::wait_until_done(p.queue, p.end), status::ok);
    EXPECT_EQ(p.card->next(), p.end);
  }
  EXPECT_EQ(w.puts, 0);
  EXPECT_EQ(std::memcmp(p.remote.data() + 100, "0123456789ab", 12), 0);
  EXPECT_EQ(word(), 4711u);
}

TEST_F(card_queue_signals, progress__a_world_that_cannot_now_gets_one_after_the_other) {
  w.next.what = outcome::retry;
  put_and_signal();
  EXPECT_EQ(p.card->progress_st(), 2u);
  EXPECT_EQ(w.joined, 1);
  EXPECT_EQ(w.puts, 2);
  EXPECT_EQ(word(), 4711u);
}

TEST_F(card_queue_signals, progress__under_way_until_the_world_says_so) {
  w.next.what = w.polled.what = outcome::posted;
  put_and_signal(true);
  put("x", 1, 300);
  p.card->progress_st();
  p.card->progress_st();
  EXPECT_EQ(p.card->next(), 0u);
  EXPECT_EQ(w.puts, 0) << "the third waits";
  w.polled.what = outcome::done;
  p.card->progress_st();
  EXPECT_EQ(w.puts, 1);
  EXPECT_EQ(p.card->next(), p.end);
}

TEST_F(card_queue_signals, progress__an_error_is_that_of_the_put_and_the_signal_is_flushed) {
  w.next = failed(syndrome::remote_access);
  put_and_signal(true);
  p.card->progress_st();
  EXPECT_EQ(p.card->error(), syndrome::remote_access);
  wqe::completion c;
  EXPECT_EQ(p.poll(&c), status::failed);
  EXPECT_EQ(c.error, syndrome::remote_access);
  EXPECT_EQ(c.wqe_counter, 0u);
  EXPECT_EQ(p.poll(&c), status::failed);
  EXPECT_EQ(c.error, syndrome::flushed);
  EXPECT_EQ(word(), 0u);
}

TEST_F(card_queue_signals, progress__what_is_no_such_pair) {
  constexpr wqe::fence_mode FENCE = wqe::fence_mode::small;
  put("abc", 3, 0, true);  // asks for a completion of its own
  put(&value, 8, 200);
  put("abc", 3, 0);
  put("abc", 3, 8, false, FENCE);  // not a word
  put("abc", 3, 0);
  put(&value, 8, 200);  // no signal
  ASSERT_EQ(p.post(request_for(opcode::nop), 0, 0), status::ok);
  p.card->progress_st();
  EXPECT_EQ(w.joined, 0);
  put("abc", 3, 0);  // nothing behind it
  p.card->progress_st();
  EXPECT_EQ(w.joined, 0);
  EXPECT_EQ(w.puts, 7);
}

// Behind values that are under way there is nothing to join.
TEST_F(card_queue_signals, progress__not_while_others_are_under_way) {
  w.most = 4;
  p.card = std::make_unique<card_queue>(p.options, p.keys, w);
  w.said_beside.what = w.polled_beside.what = outcome::posted;
  put("v", 1, 0);
  put_and_signal();
  p.card->progress_st();
  EXPECT_EQ(w.beside, 2);
  EXPECT_EQ(w.joined, 0);
  EXPECT_EQ(w.puts, 0) << "the signal waits";
  w.polled_beside.what = outcome::done;
  p.card->progress_st();
  EXPECT_EQ(w.puts, 1);
  EXPECT_EQ(word(), 4711u);
  put_and_signal();
  p.card->progress_st();
  EXPECT_EQ(w.joined, 1) << "with nothing before it both go at once, not one beside others";
  EXPECT_EQ(w.beside, 2);
  EXPECT_EQ(p.card->next(), p.end);
}

}  // namespace
