#include "lci/wqe/completion_queue.hpp"

#include <gtest/gtest.h>

#include "lci/wqe/progress.hpp"
#include "tests/unit/wqe/golden.hpp"

namespace {

using namespace lci::test;
using namespace lci::wqe;

TEST(completion_queue, check__sizes) {
  const json& rejected = vectors("reject", 12).back();
  ASSERT_EQ(text(rejected.at("id")), "rej-cqe-size");
  EXPECT_EQ(check(completion_queue{nullptr, 4, rejected.at("cqe_size"), nullptr}),
            status::bad_cqe_size);
  EXPECT_EQ(check(completion_queue{nullptr, 4, 64, nullptr}), status::ok);
  EXPECT_EQ(check(completion_queue{nullptr, 4, 128, nullptr}), status::ok);
  EXPECT_EQ(check(completion_queue{nullptr, 6, 64, nullptr}), status::bad_ring);
  EXPECT_EQ(check(completion_queue{nullptr, 0, 64, nullptr}), status::bad_ring);
}

// A card that writes entries as its hardware would.
void complete(const completion_queue& cq, std::uint64_t pi, cqe_opcode kind,
              std::uint16_t counter) {
  words_of(cq, pi)[CQE_OWNER] =
      be32(std::uint32_t{counter} << 16 | static_cast<std::uint32_t>(kind) << 4 |
           expected_owner(pi, cq.count));
}

TEST(completion_queue, poll__rounds_and_both_sizes) {
  for (std::uint32_t size : {CQE_SIZE, LARGE_CQE_SIZE}) {
    memory ring(4 * size, 0);
    std::uint32_t record[2];
    const completion_queue cq{ring.data(), 4, size, record};
    make_unused(cq);
    completion c;
    for (std::uint64_t ci = 0; ci < 20; ++ci) {
      EXPECT_EQ(poll(cq, ci, &c), status::nothing);
      complete(cq, ci, cqe_opcode::request, static_cast<std::uint16_t>(ci));
      ASSERT_EQ(poll(cq, ci, &c), status::ok);
      EXPECT_EQ(c.wqe_counter, ci);
    }
  }
}

// Without make_unused() a ring of zeros looks finished: the reason for it.
TEST(completion_queue, make_unused__zeros_would_look_finished) {
  memory ring(4 * CQE_SIZE, 0);
  const completion_queue cq{ring.data(), 4, CQE_SIZE, nullptr};
  completion c;
  EXPECT_EQ(poll(cq, 0, &c), status::ok);
  make_unused(cq);
  for (std::uint64_t ci = 0; ci < 8; ++ci) EXPECT_EQ(poll(cq, ci, &c), status::nothing);
}

// Nor does the counter of an entry that nobody has written.
TEST(completion_queue, make_unused__a_collapsed_queue_has_no_progress) {
  memory ring(CQE_SIZE, 0);
  const completion_queue cq{ring.data(), 1, CQE_SIZE, nullptr};
  make_unused(cq);
  completion c;
  EXPECT_EQ(poll_collapsed(cq, &c), status::nothing);
  const std::uint16_t counter = counter_of(be32(words_of(cq, 0)[CQE_OWNER]));
  EXPECT_EQ(collapsed_progress(0, 1, counter, 1), 0u);
  EXPECT_EQ(collapsed_progress(0, MAX_RING_BLOCKS, counter, 1), 0u);
}

TEST(completion_queue, poll_collapsed__the_last_one_counts) {
  memory ring(CQE_SIZE, 0xff);
  const completion_queue cq{ring.data(), 1, CQE_SIZE, nullptr};
  completion c;
  EXPECT_EQ(poll_collapsed(cq, &c), status::nothing);
  std::uint64_t done = 0;
  for (std::uint64_t posted : {3u, 70u, 40000u, 100000u}) {
    complete(cq, 0, cqe_opcode::request, static_cast<std::uint16_t>(posted - 1));
    ASSERT_EQ(poll_collapsed(cq, &c), status::ok);
    done = collapsed_progress(done, posted, c.wqe_counter, 1);
    EXPECT_EQ(done, posted);
  }
  complete(cq, 0, cqe_opcode::request_error, 7);
  EXPECT_EQ(poll_collapsed(cq, &c), status::failed);
}

}  // namespace
