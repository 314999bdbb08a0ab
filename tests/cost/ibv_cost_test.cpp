// What does the verbs backend cost, alone: one small message through the backend contract, both
// sides? On the fake library, whose own instructions are left out; a real one adds its driver's.
#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>

#include "tests/contract/group.hpp"
#include "tests/cost/net_pair.hpp"
#include "tests/support/fake_ibv/fake_ibv.hpp"
#include "tests/support/step_counter.hpp"

namespace lci::test {
namespace {

constexpr int BATCH = 32, BATCHES = 20;
enum section_id { POST, POLL, OWN_POLL, IDLE_POLL };

fake_ibv& library() {
  static fake_ibv* const one = load_fake_ibv(LCI_FAKE_IBV);
  if (one == nullptr) throw std::runtime_error("there is no " LCI_FAKE_IBV);
  return *one;
}

// Two ranks that are connected and have exchanged messages.
struct warm_pair {
  warm_pair()
      : ranks((library(), 2), 1,
              [](int, const net::fabric_config& c) { return open_named("ibv", c); }),
        to(ranks.at(0).devices[0]->make_endpoint()) {
    for (int i = 0; i < 2000; ++i) {
      ranks.post([&] { return send(); });
      poll(1);
      poll(0);
    }
  }
  errorcode_t send() { return to->send_inline(1, 5, nullptr, 0, &word, sizeof word); }
  std::size_t poll(int rank) { return ranks.at(rank).devices[0]->poll(sink, BATCH); }

  group ranks;
  std::unique_ptr<net::endpoint> to;
  null_sink sink;
  std::uint64_t word = 1;
};

// Cards read completions field by field, or copy them.
struct kind_of_step {
  int batch;
  bool is_extended;
};
constexpr bool HAS_EXTENDED_CQ = LCI_HAS_EXTENDED_CQ;
void use_card(bool is_extended) {
  library().reset();
  setenv("LCI_IBV_EXTENDED_CQ", is_extended ? "1" : "0", 1);
}

class ibv_cost : public testing::TestWithParam<kind_of_step> {
 protected:
  void SetUp() override {
    if (const std::string why = step_counter_missing(); !why.empty()) GTEST_SKIP() << why;
  }
  // `batch` posts, then one poll at each side, and one that finds nothing.
  static step_report step_messages(int batch) {
    return count_steps(
        [=] {
          warm_pair pair;
          if (!step_freeze_clock()) abort();
          for (int n = 0; n < BATCHES; ++n) {
            for (int i = 0; i < batch; ++i) {
              step_begin(POST);
              const errorcode_t answer = pair.send();
              step_end();
              if (answer != errorcode_t::done) abort();
            }
            const std::size_t before = pair.sink.seen;
            step_begin(POLL);
            pair.poll(1);
            step_end();
            if (pair.sink.seen != before + sizeof pair.word * static_cast<unsigned>(batch)) abort();
            step_begin(OWN_POLL);
            pair.poll(0);
            step_end();
            step_begin(IDLE_POLL);
            pair.poll(1);
            step_end();
          }
          step_freeze_clock(false);
        },
        library_around(&library()));
  }
};

struct sums {
  std::uint64_t instructions = 0, locked = 0, calls = 0, system_calls = 0, sections = 0;
};
sums sum_of(const step_report& report, int id) {
  sums out;
  for (const step_section& s : report.sections) {
    if (s.id != id) continue;
    out.instructions += s.instructions;
    out.locked += s.locked;
    out.system_calls += s.system_calls;
    out.calls += s.calls_left_out;
    ++out.sections;
  }
  return out;
}

TEST_P(ibv_cost, small_message__both_sides_together) {
  const auto [batch, is_extended] = GetParam();
  if (is_extended && !HAS_EXTENDED_CQ) GTEST_SKIP() << "experimental, not built";
  use_card(is_extended);
  const step_report report = step_messages(batch);
  ASSERT_EQ(report.failure, "");
  const double messages = batch * BATCHES;
  double all = 0;
  const char* const names[] = {"post", "poll with messages", "poll at the sender", "idle poll"};
  for (const int id : {POST, POLL, OWN_POLL, IDLE_POLL}) {
    const sums s = sum_of(report, id);
    const double each = static_cast<double>(s.instructions) / messages;
    std::printf("batches of %d, %s: %.1f instructions, %.2f locked, %.2f verbs calls a message\n",
                batch, names[id], each, static_cast<double>(s.locked) / messages,
                static_cast<double>(s.calls) / messages);
    if (id != IDLE_POLL) all += each;
    EXPECT_EQ(s.system_calls, 0u) << names[id];
    EXPECT_EQ(s.locked, 0u) << names[id];
  }
  std::printf("batches of %d: %.1f instructions a message, both sides together\n", batch, all);
  // A tenth above what gcc 12 needs (docs/decisions/0017-way-of-a-message-over-verbs.md).
  EXPECT_LE(all, batch == 1 ? (is_extended ? 660 : 530) : (is_extended ? 250 : 215));
  const sums posts = sum_of(report, POST);
  EXPECT_EQ(posts.calls, posts.sections) << "a message is one work request";
}
INSTANTIATE_TEST_SUITE_P(batches, ibv_cost,
                         testing::Values(kind_of_step{1, false}, kind_of_step{BATCH, false},
                                         kind_of_step{1, true}, kind_of_step{BATCH, true}),
                         [](const auto& kind) {
                           return std::string(kind.param.is_extended ? "extended_" : "plain_") +
                                  std::to_string(kind.param.batch);
                         });

class ibv_calls : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(cards, ibv_calls, testing::Values(false, true),
                         [](const auto& card) { return card.param ? "extended" : "plain"; });

TEST_P(ibv_calls, small_message__one_work_request_and_a_share_of_a_poll) {
  if (GetParam() && !HAS_EXTENDED_CQ) GTEST_SKIP() << "experimental, not built";
  use_card(GetParam());
  warm_pair pair;
  library().forget_counts();
  constexpr unsigned ROUNDS = 100;
  for (unsigned n = 0; n < ROUNDS; ++n) {
    for (int i = 0; i < BATCH; ++i) ASSERT_EQ(pair.send(), errorcode_t::done);
    pair.poll(1);
    pair.poll(0);
  }
  EXPECT_EQ(library().count("post_send"), ROUNDS * BATCH);
  // A batch that is full is followed by no second look; the connector's own queue is looked at once
  // in a while.
  EXPECT_LE(library().count("poll_cq") + library().count("start_poll"), 3 * ROUNDS + ROUNDS / 8);
  // A receive for each message, a batch at a time.
  EXPECT_NEAR(library().count("post_srq_recv"), ROUNDS * BATCH, BATCH);
  EXPECT_LE(library().count("doorbell"), ROUNDS * BATCH + ROUNDS + ROUNDS / 8);
  for (const char* slow : {"ibv_reg_mr", "ibv_reg_mr_iova2", "ibv_modify_qp", "ibv_create_qp"})
    EXPECT_EQ(library().count(slow), 0u) << slow;
}

}  // namespace
}  // namespace lci::test
