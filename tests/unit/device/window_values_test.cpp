// Values beside each other, and what comes behind them, over a world that ends them backwards.
#include <gtest/gtest.h>

#include <algorithm>

#include "lci/device/window.hpp"
#include "tests/unit/device/pair.hpp"

namespace {

using namespace lci::device;
using namespace lci::test;
using lci::wqe::opcode;
using lci::wqe::status;
using lci::wqe::syndrome;
namespace wqe = lci::wqe;

// Carries out what is beside each other from the last one to the first.
class backward_world final : public world {
 public:
  backward_world(memory_world& below, std::uint32_t most) : below_(below), open_(most) {}
  std::uint32_t most_beside() const noexcept override {
    return static_cast<std::uint32_t>(open_.size());
  }
  answer put_beside(std::uint32_t number, const local_data& from,
                    remote_place to) noexcept override {
    open_[number] = {from, to};
    order_.push_back(number);
    most_seen = std::max(most_seen, order_.size());
    ++beside;
    return {outcome::posted, syndrome::none};
  }
  answer poll_beside(std::uint32_t number) noexcept override {
    if (holds) return {outcome::posted, syndrome::none};
    if (!order_.empty()) {
      const operation& last = open_[order_.back()];
      EXPECT_EQ(below_.put(opcode::rdma_write, last.what, last.place, 0, false).what,
                outcome::done);
      order_.pop_back();
    }
    const bool waits = std::count(order_.begin(), order_.end(), number) != 0;
    return waits ? answer{outcome::posted, syndrome::none} : answer{};
  }
  answer put(opcode op, const local_data& from, remote_place to, std::uint32_t imm,
             bool solicited) noexcept override {
    early += order_.size();
    ++alone;
    return below_.put(op, from, to, imm, solicited);
  }
  answer get(remote_place, const local_data&) noexcept override { return {}; }
  answer send(opcode, const local_data&, std::uint32_t, bool) noexcept override { return {}; }
  answer atomic(opcode, const wqe::atomic_operands&, remote_place, std::byte*) noexcept override {
    return {};
  }

  bool holds = true;  // none ends
  std::size_t most_seen = 0, beside = 0, alone = 0;
  std::size_t early = 0;  // puts before one that came alone, and not carried out then

 private:
  struct operation {
    local_data what;
    remote_place place;
  };
  memory_world& below_;
  std::vector<operation> open_;
  std::vector<std::uint32_t> order_;
};

class window_values : public testing::Test {
 protected:
  window_values() { p.card = std::make_unique<card_queue>(p.options, p.keys, w); }
  void put(std::uint64_t value, std::uint64_t at, wqe::fence_mode fence, bool signaled = false) {
    wqe::send_request r = request_for(opcode::rdma_write);
    r.signaled = signaled;
    r.fence = fence;
    r.inline_data = &value;
    r.inline_length = sizeof(value);
    r.raddr = p.remote.address() + at;
    r.rkey = p.rkey;
    wqe::written_wqe written;
    r.qpn = pair::QPN;
    ASSERT_EQ(wqe::write_send_wqe(p.queue.ring, posted_, r, {}, &written), status::ok);
    wqe::word_at<std::uint64_t>(&p.target).store(++posted_, std::memory_order_release);
  }
  std::uint64_t word(std::uint64_t at) {
    std::uint64_t out = 0;
    std::memcpy(&out, p.remote.data() + at, sizeof(out));
    return out;
  }
  static constexpr std::uint64_t VALUES = 64, SIGNAL = 2048;
  std::uint64_t posted_ = 0;
  pair p{256};
  backward_world w{*p.beyond, VALUES};
};

TEST_F(window_values, all_beside_each_other_and_the_signal_behind_all_of_them) {
  for (std::uint64_t i = 0; i < VALUES; ++i) put(i + 1, 8 * i, wqe::fence_mode::none);
  put(1, SIGNAL, wqe::fence_mode::small);
  put(2, SIGNAL + 8, wqe::fence_mode::none);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(p.card->progress_st(), 0u);
  EXPECT_EQ(w.most_seen, VALUES);
  EXPECT_EQ(w.alone, 0u);
  w.holds = false;
  while (p.card->next() != posted_) {
    p.card->progress_st();
    if (word(SIGNAL) == 0) continue;
    for (std::uint64_t i = 0; i < VALUES; ++i) ASSERT_EQ(word(8 * i), i + 1);
  }
  EXPECT_EQ(w.early, 0u);
  EXPECT_EQ(w.alone, 1u) << "the signal";
  EXPECT_EQ(w.beside, VALUES + 1) << "the one behind it too";
  EXPECT_EQ(word(SIGNAL + 8), 2u);
}

// Each fence of the format, also those that lci does not write.
TEST_F(window_values, any_fence_waits_and_none_does_not) {
  w.holds = false;
  const std::uint8_t fences[] = {0, 0x20, 0x40, 0x60, 0x80};
  for (const std::uint8_t fence : fences) {
    const std::size_t before = w.alone;
    put(1, 0, wqe::fence_mode::none);
    put(2, 8, wqe::fence_mode::none);
    // As a program may write it.
    octoword_at(p.queue.ring, posted_ - 1, 0)->word[2] = wqe::be32(std::uint32_t{fence});
    while (p.card->next() != posted_) p.card->progress_st();
    EXPECT_EQ(w.alone - before, fence == 0 ? 0u : 1u) << int{fence};
  }
  EXPECT_EQ(w.early, 0u);
}

// One that asks for a completion says with it that all before it is there.
TEST_F(window_values, one_that_asks_for_a_completion_waits) {
  w.holds = false;
  put(1, 0, wqe::fence_mode::none);
  put(2, 8, wqe::fence_mode::none, true);
  while (p.card->next() != posted_) p.card->progress_st();
  EXPECT_EQ(w.alone, 1u);
  EXPECT_EQ(w.early, 0u);
}

}  // namespace
