// The network's own calls: messages of every size arrive whole in the receives that were posted for
// them, and in the order in which they were sent. On a device of their own, since these calls and
// progress do not go together.
#include <algorithm>
#include <iterator>
#include <vector>

#include "world.hpp"

namespace interface_test {
namespace {

// Around the longest message of every network, and far beyond.
constexpr std::size_t RAW_SIZES[] = {0,      8,      8000,   8192,   8255,   8256,    8257,
                                     20'000, 65'535, 65'536, 65'537, 65'560, 100'000, 1 << 20};
constexpr std::size_t RAW_MOST = 1 << 20;

class raw : public testing::Test {
 protected:
  ~raw() override {
    meet();
    lci::free_device(&device_);
  }
  // A barrier with polls: what others wait for may still have to leave, or to be answered.
  void meet() {
    const owned_comp all_are_here(lci::alloc_counter());
    lci::barrier_x().device(world().device).comp(all_are_here)();
    while (lci::counter_get(all_are_here) == 0) note(poll());
  }
  std::vector<lci::net_status_t> poll() {
    lci::net_status_t out[8];
    const std::size_t n = lci::net_poll_cq_x(8, out).device(device_)();
    progress();
    return {out, out + n};
  }
  // Until there are so many entries, sorted by kind.
  void poll_for(std::size_t sends, std::size_t receives) {
    while (sent_.size() < sends || received_.size() < receives) note(poll());
  }
  void note(const std::vector<lci::net_status_t>& entries) {
    for (const lci::net_status_t& one : entries) {
      if (one.opcode == lci::net_opcode_t::SEND)
        sent_.push_back(one);
      else if (one.opcode == lci::net_opcode_t::READ)
        read_.push_back(one);
      else
        received_.push_back(one);
    }
  }
  template <class Op>
  void insist_on(Op&& op) {
    while (op.device(device_)().is_retry()) note(poll());
  }

  const int to_ = world().next(), from_ = world().previous();
  lci::device_t device_ = lci::alloc_device();
  std::vector<lci::net_status_t> sent_, received_, read_;
};

TEST_F(raw, send__of_every_size_arrives_whole) {
  std::vector<char> in(RAW_MOST + 1);
  for (const std::size_t size : RAW_SIZES) {
    SCOPED_TRACE(size);
    std::vector<char> out = pattern(size, static_cast<std::uint64_t>(world().rank));
    std::fill(in.begin(), in.end(), 'x');
    int mark = 0;
    lci::net_post_recv_x(in.data(), RAW_MOST, lci::MR_HOST).device(device_).user_context (&mark)();
    insist_on(
        lci::net_post_send_x(to_, out.data(), size, lci::MR_HOST).imm_data(5).user_context(&mark));
    poll_for(1, 1);
    EXPECT_EQ(sent_[0].rank, to_);
    EXPECT_EQ(sent_[0].user_context, &mark);
    EXPECT_EQ(received_[0].opcode, lci::net_opcode_t::RECV);
    EXPECT_EQ(received_[0].rank, from_);
    EXPECT_EQ(received_[0].user_context, &mark);
    EXPECT_EQ(received_[0].length, size);
    EXPECT_EQ(received_[0].imm_data, 5u);
    EXPECT_EQ(difference(in.data(), size, static_cast<std::uint64_t>(from_)), "");
    EXPECT_EQ(in[size], 'x');
    sent_.clear();
    received_.clear();
    meet();
  }
}

TEST_F(raw, send__of_any_size_stays_behind_the_one_before) {
  constexpr std::size_t SIZES[] = {300'000, 8, 100'000, 9000, 64};
  std::vector<std::vector<char>> in(std::size(SIZES), std::vector<char>(300'000));
  std::vector<std::vector<char>> out;
  for (std::vector<char>& one : in)
    lci::net_post_recv_x(one.data(), one.size(), lci::MR_HOST).device(device_)();
  for (const std::size_t size : SIZES) out.push_back(pattern(size, size));
  for (std::vector<char>& one : out) {
    if (one.size() == 8)
      insist_on(lci::net_post_sends_x(to_, one.data(), one.size()));
    else
      insist_on(lci::net_post_send_x(to_, one.data(), one.size(), lci::MR_HOST));
  }
  poll_for(std::size(SIZES), std::size(SIZES));
  for (std::size_t i = 0; i < std::size(SIZES); ++i) {
    EXPECT_EQ(received_[i].length, SIZES[i]);
    EXPECT_EQ(difference(in[i].data(), SIZES[i], SIZES[i]), "");
  }
}

TEST_F(raw, send__too_long_for_its_receive_is_an_error_there) {
  std::vector<char> in(100'000, 'x'), out(200'000, 'y');
  lci::net_post_recv_x(in.data(), in.size(), lci::MR_HOST).device(device_)();
  insist_on(lci::net_post_send_x(to_, out.data(), out.size(), lci::MR_HOST));
  poll_for(1, 1);
  EXPECT_EQ(received_[0].opcode, lci::net_opcode_t::ERROR);
  EXPECT_EQ(std::count(in.begin(), in.end(), 'x'), 100'000);
}

TEST_F(raw, get__behind_a_long_send) {
  window there(64);
  there.bytes()[3] = static_cast<char>(world().rank + 1);
  std::vector<char> in(200'000), out(100'000);
  barrier();
  for (int i = 0; i < 8; ++i) {
    lci::net_post_recv_x(in.data(), in.size(), lci::MR_HOST).device(device_)();
    insist_on(lci::net_post_send_x(to_, out.data(), out.size(), lci::MR_HOST));
    poll_for(1, 1);
    char byte = 0;
    insist_on(lci::net_post_get_x(to_, &byte, 1, lci::MR_HOST, 3, there.rmr(to_)));
    while (read_.empty()) note(poll());
    EXPECT_EQ(byte, static_cast<char>(to_ + 1));
    sent_.clear();
    received_.clear();
    read_.clear();
  }
  meet();
}

}  // namespace
}  // namespace interface_test
