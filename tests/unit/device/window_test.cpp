// Requests of one queue beside each other: whatever the world delays, reorders, refuses or loses,
// the program sees what a queue that does one after the other would show.
#include "lci/device/window.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/support/sanitized.hpp"
#include "tests/unit/device/pair.hpp"

namespace {

using namespace lci::device;
using namespace lci::test;
using lci::wqe::opcode;
using lci::wqe::status;
using lci::wqe::syndrome;
namespace wqe = lci::wqe;

// Plain memory behind a network that takes its time. Checks what the seam promises.
class shuffled_world final : public world {
 public:
  struct faults {
    std::uint32_t delay = 8;       // an operation is done after 0..n looks at any
    std::uint32_t refuse_one = 0;  // in so many it answers retry
    std::uint64_t fail_at = 0;     // the operation of that number fails; 0: none
    bool fails_at_once = false;    // and says so when it begins
  };
  shuffled_world(memory_world& below, std::uint32_t most, const faults& wanted, std::uint32_t seed)
      : below_(below), wanted_(wanted), open_(most), random_(seed) {}

  std::uint32_t most_beside() const noexcept override {
    return static_cast<std::uint32_t>(open_.size());
  }
  answer put_beside(std::uint32_t number, const local_data& from,
                    remote_place to) noexcept override {
    return start(number, true, from, to);
  }
  answer get_beside(std::uint32_t number, remote_place from,
                    const local_data& to) noexcept override {
    return start(number, false, to, from);
  }
  answer poll_beside(std::uint32_t number) noexcept override {
    // All are carried out in any order, whichever is asked for.
    for (int i = 0; i < 3; ++i) carry_out(draw(static_cast<std::uint32_t>(open_.size()) - 1));
    carry_out(number);
    operation& one = open_[number];
    if (one.is_open) return {outcome::posted, syndrome::none};
    broken += count == 0;
    --count;
    return one.end;
  }
  answer put(opcode op, const local_data& from, remote_place to, std::uint32_t imm,
             bool solicited) noexcept override {
    return alone([&] { return below_.put(op, from, to, imm, solicited); });
  }
  answer get(remote_place from, const local_data& to) noexcept override {
    return alone([&] { return below_.get(from, to); });
  }
  answer send(opcode, const local_data&, std::uint32_t, bool) noexcept override {
    return failed(syndrome::local_qp_operation);
  }
  answer atomic(opcode op, const wqe::atomic_operands& with, remote_place at,
                std::byte* old) noexcept override {
    return alone([&] { return below_.atomic(op, with, at, old); });
  }
  answer flush() noexcept override {
    return alone([] { return answer{}; });
  }

  std::uint64_t signals = ~std::uint64_t{0};  // puts from here on come behind all before them
  std::uint32_t count = 0, most_seen = 0;     // under way beside each other
  std::uint32_t broken = 0;                   // promises of the seam

 private:
  struct operation {
    bool is_open = false, is_put = false;
    local_data what{};
    remote_place place{};
    std::uint32_t looks = 0;
    answer end;
  };
  std::uint32_t draw(std::uint32_t most) {
    return std::uniform_int_distribution<std::uint32_t>(0, most)(random_);
  }
  bool refuses() { return wanted_.refuse_one != 0 && draw(wanted_.refuse_one - 1) == 0; }
  template <class Call>
  answer alone(Call&& call) {
    broken += count != 0;
    if (refuses()) return {outcome::retry, syndrome::none};
    if (++number_ == wanted_.fail_at) return failed(syndrome::remote_operation);
    return call();
  }
  answer start(std::uint32_t number, bool is_put, const local_data& what, remote_place place) {
    if (refuses()) return {outcome::retry, syndrome::none};
    operation& one = open_.at(number);
    broken += one.is_open || what.count != 1 || (is_put && place.address >= signals);
    for (const operation& other : open_) broken += other.is_open && other.is_put != is_put;
    one = {true, is_put, what, place, draw(wanted_.delay), {}};
    if (++number_ == wanted_.fail_at) one.end = failed(syndrome::remote_operation);
    if (one.end.what == outcome::failed && wanted_.fails_at_once) {
      one.is_open = false;
      return one.end;
    }
    if (draw(3) == 0 && one.looks == 0) {
      carry_out(number);
      return one.end;
    }
    ++count;
    most_seen = std::max(most_seen, count);
    return {outcome::posted, syndrome::none};
  }
  void carry_out(std::uint32_t number) {
    operation& one = open_[number];
    if (!one.is_open || one.looks-- != 0) return;
    one.is_open = false;
    if (one.end.what == outcome::failed) return;
    one.end = one.is_put ? below_.put(opcode::rdma_write, one.what, one.place, 0, false)
                         : below_.get(one.place, one.what);
  }

  memory_world& below_;
  const faults wanted_;
  std::vector<operation> open_;
  std::mt19937 random_;
  std::uint64_t number_ = 0;
};

struct shuffled_pair : pair {
  shuffled_pair(std::uint32_t blocks, std::uint32_t most, const shuffled_world::faults& wanted,
                std::uint32_t seed)
      : pair(blocks), shuffled(*beyond, most, wanted, seed) {
    shuffled.signals = remote.address() + SIGNALS;
    card = std::make_unique<card_queue>(options, keys, shuffled);
  }
  static constexpr std::uint32_t SIGNALS = 3400;
  shuffled_world shuffled;
};

// What the queue would do one after the other, beside what it does.
class model {
 public:
  model(shuffled_pair& p, std::uint32_t seed)
      : p_(p), random_(seed), local_(p.local.size()), remote_(p.remote.size()) {
    for (std::size_t i = 0; i < local_.size(); ++i)
      p.local.data()[i] = local_[i] = static_cast<std::byte>(i * 31 + seed);
  }
  std::uint32_t draw(std::uint32_t low, std::uint32_t high) {
    return std::uniform_int_distribution<std::uint32_t>(low, high)(random_);
  }
  // Sources are the first half of the own memory, what is read lands in the second: nothing is
  // written while a request that is under way reads it. False: there is no room now.
  bool post_one() {
    wqe::send_request r;
    const std::uint32_t kind = draw(0, 9);
    const std::uint32_t length = kind == 0 ? 8 : draw(1, 300), at = draw(0, 1000);
    std::uint32_t to = draw(0, 3000);
    r.signaled = draw(0, 4) == 0;
    const bool is_get = kind == 7 || kind == 8;
    if (kind == 9) {
      r.op = opcode::nop;
    } else if (is_get) {
      r.op = opcode::rdma_read;
    } else {
      r.op = opcode::rdma_write;
    }
    // Gets beside each other land at places of their own.
    const std::uint32_t landing = 2048 + (gets_ % 6) * 300;
    gets_ += is_get;
    const wqe::sge piece = p_.entry(is_get ? landing : at, length);
    if (kind != 9) {
      r.entries = &piece;
      r.entry_count = 1;
    }
    // Puts that may overlap each other have no order: each of a run has places of its own.
    if (!is_get) to = (puts_++ % 10) * 300;
    if (kind == 0) {
      r.fence = draw(0, 1) == 0 ? wqe::fence_mode::small : wqe::fence_mode::full;
      to = shuffled_pair::SIGNALS + draw(0, 7) * 8;
    }
    r.raddr = p_.remote.address() + to;
    r.rkey = p_.rkey;
    std::uint64_t end = 0;
    if (p_.queue.state->reserved - p_.queue.state->done + 8 > p_.queue.ring.blocks) return false;
    if (wqe::post(p_.queue, r, &end) != status::ok) return false;
    if (kind == 9) return true;
    if (is_get)
      std::copy_n(remote_.begin() + to, length, local_.begin() + landing);
    else
      std::copy_n(local_.begin() + at, length, remote_.begin() + to);
    return true;
  }
  bool is_same() const {
    return std::equal(remote_.begin(), remote_.end(), p_.remote.data()) &&
           std::equal(local_.begin(), local_.end(), p_.local.data());
  }

 private:
  shuffled_pair& p_;
  std::mt19937 random_;
  std::vector<std::byte> local_, remote_;
  std::uint32_t gets_ = 0, puts_ = 0;
};

constexpr int SEEDS = IS_SANITIZED ? 20 : 200;

TEST(window, random_requests__end_as_one_after_the_other) {
  std::uint32_t most_seen = 0;
  for (std::uint32_t seed = 1; seed <= SEEDS; ++seed) {
    shuffled_pair p(64, seed % 3 == 0 ? 4 : 64, {8, seed % 2 == 0 ? 5u : 0u, 0}, seed);
    model all(p, seed);
    for (int i = 0; i < 400; ++i) {
      all.post_one();
      if (all.draw(0, 3) == 0) p.card->progress_st();
      // Six gets, or ten puts, of which places differ.
      if (i % 6 == 5) {
        while (p.card->next() != p.queue.state->reserved) p.card->progress_st();
        wqe::drain(p.queue);
      }
    }
    while (p.card->next() != p.queue.state->reserved) p.card->progress_st();
    wqe::drain(p.queue);
    ASSERT_TRUE(all.is_same()) << "seed " << seed;
    ASSERT_EQ(p.shuffled.broken, 0u) << "seed " << seed;
    ASSERT_EQ(p.shuffled.count, 0u);
    ASSERT_TRUE(p.is_whole());
    ASSERT_FALSE(p.card->has_failed());
    most_seen = std::max(most_seen, p.shuffled.most_seen);
  }
  EXPECT_GT(most_seen, 3u);
}

// Puts, and a signal behind them: when it is there, they are.
TEST(window, signal__comes_behind_all_puts_before_it) {
  shuffled_pair p(64, 64, {20, 0, 0}, 5);
  std::memset(p.local.data(), 42, 1024);
  wqe::send_request put = request_for(opcode::rdma_write);
  put.signaled = false;
  const std::uint64_t one = 1;
  for (std::uint64_t i = 0; i < 10; ++i) {
    ASSERT_EQ(p.post(put, i * 100, 100, i * 100), status::ok);
  }
  wqe::send_request signal = put;
  signal.fence = wqe::fence_mode::small;
  signal.inline_data = &one;
  signal.inline_length = sizeof(one);
  signal.raddr = p.remote.address() + shuffled_pair::SIGNALS;
  signal.rkey = p.rkey;
  ASSERT_EQ(wqe::post(p.queue, signal, &p.end), status::ok);
  p.card->progress_st();
  EXPECT_GT(p.shuffled.most_seen, 2u);
  while (p.remote.data()[shuffled_pair::SIGNALS] == std::byte{0}) p.card->progress_st();
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(p.remote.data()[i], std::byte{42}) << i;
  EXPECT_EQ(p.shuffled.broken, 0u);
}

// One fails among others: completions come in order, and all behind it are flushed.
TEST(window, error__ends_those_behind_it_as_flushed_and_in_order) {
  for (std::uint32_t seed = 1; seed <= SEEDS; ++seed) {
    const std::uint64_t fails = 1 + seed % 20;
    shuffled_pair p(64, 64, {12, 0, fails, seed % 2 == 0}, seed);
    wqe::send_request get = request_for(opcode::rdma_read);
    for (std::uint64_t i = 0; i < 20; ++i) {
      ASSERT_EQ(p.post(get, 2048 + i * 64, 64, i * 64), status::ok);
    }
    while (p.card->next() != 20) p.card->progress_st();
    EXPECT_TRUE(p.card->has_failed());
    EXPECT_EQ(p.card->error(), syndrome::remote_operation);
    for (std::uint64_t i = 0; i < 20; ++i) {
      wqe::completion c;
      p.poll(&c);
      ASSERT_EQ(c.wqe_counter, i) << "seed " << seed;
      ASSERT_EQ(c.error, i + 1 < fails    ? syndrome::none
                         : i + 1 == fails ? syndrome::remote_operation
                                          : syndrome::flushed);
    }
    EXPECT_EQ(p.shuffled.broken, 0u);
    EXPECT_EQ(p.shuffled.count, 0u) << "seed " << seed;
  }
}

// The same of values, of which only those that fail are completed.
TEST(window, error__of_a_value_ends_those_behind_it_as_flushed_and_in_order) {
  for (std::uint32_t seed = 1; seed <= SEEDS; ++seed) {
    const std::uint64_t fails = 1 + seed % 20;
    shuffled_pair p(64, 64, {12, 0, fails, seed % 2 == 0}, seed);
    wqe::send_request value = request_for(opcode::rdma_write);
    value.signaled = false;
    for (std::uint64_t i = 0; i < 20; ++i) {
      ASSERT_EQ(p.post(value, i * 8, 8, i * 8), status::ok);
    }
    while (p.card->next() != 20) p.card->progress_st();
    EXPECT_EQ(p.card->error(), syndrome::remote_operation);
    for (std::uint64_t i = fails - 1; i < 20; ++i) {
      wqe::completion c;
      ASSERT_EQ(p.poll(&c), status::failed);
      ASSERT_EQ(c.wqe_counter, i) << "seed " << seed;
      ASSERT_EQ(c.error, i + 1 == fails ? syndrome::remote_operation : syndrome::flushed);
    }
    EXPECT_EQ(p.shuffled.broken, 0u);
    EXPECT_EQ(p.shuffled.count, 0u) << "seed " << seed;
  }
}

// As many places as the completion queue has left, and no more, are under way.
TEST(window, completions__are_never_more_than_there_is_room_for) {
  shuffled_pair p(16, 64, {30, 0, 0}, 9);
  wqe::send_request get = request_for(opcode::rdma_read);
  std::uint64_t posted = 0, seen = 0;
  wqe::written_wqe written;
  for (int i = 0; i < 3000; ++i) {
    // As posters do, but the completions stay where they are.
    if (posted - p.card->next() < 16 && posted - seen < 24) {
      const wqe::sge one = p.entry(2048, 64);
      get.entries = &one;
      get.entry_count = 1;
      get.raddr = p.remote.address();
      get.rkey = p.rkey;
      get.qpn = pair::QPN;
      ASSERT_EQ(wqe::write_send_wqe(p.queue.ring, posted, get, {}, &written), status::ok);
      ++posted;
      wqe::word_at<std::uint64_t>(&p.target).store(posted, std::memory_order_release);
    }
    p.card->progress_st();
    ASSERT_LE(p.shuffled.count + (p.card->next() - seen), 16u);
    if (i % 40 > 30) {
      wqe::completion c;
      if (p.poll(&c) == status::ok) {
        ASSERT_EQ(c.wqe_counter, seen & 0xffff);
        ++seen;
      }
    }
  }
  EXPECT_GT(seen, 100u);
}

}  // namespace
