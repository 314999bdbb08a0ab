#include "lci/wqe/recv_wqe.hpp"

#include <gtest/gtest.h>

#include "lci/wqe/doorbell.hpp"
#include "tests/unit/wqe/golden.hpp"

namespace {

using namespace lci::test;
using namespace lci::wqe;

TEST(recv_wqe, write__10_golden_vectors) {
  int compared = 0;
  for (const json& v : vectors("recv", 10)) {
    SCOPED_TRACE(v.at("id"));
    const std::uint32_t count = v.at("rq_wqe_cnt"), stride = v.at("stride");
    const std::uint64_t index = number(v.at("index"));
    const std::vector<sge> entries = entries_of(v.at("sge"));
    // A new ring is zeros, which the vectors show behind the end marker, where nobody reads or
    // writes.
    memory ring(std::size_t{count} * stride, 0), expected(std::size_t{count} * stride, 0);
    const json& expect = v.at("expect");
    expected.put(expect.at("offset"), bytes_of(expect.at("wqe")));
    ASSERT_EQ(write_recv_wqe({ring.data(), count, stride}, index, entries.data(),
                             static_cast<std::uint32_t>(entries.size())),
              status::ok);
    EXPECT_EQ(ring.get(0, ring.size()), expected.get(0, expected.size()));
    EXPECT_EQ(index + 1, number(expect.at("next_index")));
    std::uint32_t record[2] = {0, 0};
    post_receives(record, index + 1);
    EXPECT_EQ(in_memory(record), text(expect.at("dbrec")));
    ++compared;
  }
  EXPECT_EQ(compared, 10);
}

TEST(recv_wqe, write__an_entry_used_before_ends_with_the_marker) {
  memory ring(64);
  const sge one{1, 8, 1};
  EXPECT_EQ(write_recv_wqe({ring.data(), 1, 64}, 7, &one, 1), status::ok);
  EXPECT_EQ(ring.get(16, 16), bytes_of("00000000000001000000000000000000"));
  EXPECT_EQ(ring.get(32, 32), bytes(32, 0xee));
}

TEST(recv_wqe, write__refusals_write_nothing) {
  memory ring(256);
  const sge entries[] = {{1, 8, 1}, {2, 8, 2}, {3, 0, 3}, {4, std::uint64_t{1} << 31, 4}};
  const auto answer = [&](std::uint32_t count, std::uint32_t stride, std::uint32_t used,
                          const sge* from) {
    return write_recv_wqe({ring.data(), count, stride}, 0, from, used);
  };
  EXPECT_EQ(answer(3, 16, 1, entries), status::bad_ring);
  EXPECT_EQ(answer(0, 16, 1, entries), status::bad_ring);
  EXPECT_EQ(answer(65536, 16, 1, entries), status::bad_ring);
  EXPECT_EQ(answer(4, 8, 1, entries), status::bad_ring);
  EXPECT_EQ(answer(4, 48, 1, entries), status::bad_ring);
  EXPECT_EQ(answer(4, 16, 2, entries), status::bad_entry_count);
  EXPECT_EQ(answer(4, 16, 1, entries + 3), status::bad_length);
  EXPECT_EQ(ring.get(0, 256), bytes(256, 0xee));
  EXPECT_EQ(answer(4, 16, 2, entries + 1), status::ok);  // the empty one takes no place
}

}  // namespace
