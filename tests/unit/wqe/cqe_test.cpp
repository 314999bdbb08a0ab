#include "lci/wqe/cqe.hpp"

#include <gtest/gtest.h>

#include "lci/wqe/completion_queue.hpp"
#include "tests/unit/wqe/golden.hpp"

namespace {

using namespace lci::test;
using namespace lci::wqe;

void expect_fields(const completion& c, const json& expect) {
  EXPECT_EQ(static_cast<unsigned>(c.kind), number(expect.at("opcode")));
  EXPECT_EQ(c.format, number(expect.at("format")));
  EXPECT_EQ(c.solicited, expect.at("solicited").get<bool>());
  EXPECT_EQ(c.qpn, number(expect.at("qpn")));
  EXPECT_EQ(c.wqe_counter, number(expect.at("wqe_counter")));
  EXPECT_EQ(c.srqn, number(expect.at("srqn_uidx")));
  // An entry of a request names no immediate, one of a receive no operation: what is not in the
  // vector is not compared.
  const auto expect_if_named = [&](const char* name, std::uint64_t found) {
    EXPECT_EQ(found, number_or(expect, name, found)) << name;
  };
  expect_if_named("send_opcode", c.send_opcode);
  expect_if_named("byte_cnt", c.byte_count);
  expect_if_named("imm", c.imm);
  expect_if_named("src_qp", c.source_qp);
  EXPECT_EQ(is_error(c.kind), expect.contains("syndrome"));
  if (!expect.contains("syndrome")) return;
  EXPECT_EQ(static_cast<unsigned>(c.error), number(expect.at("syndrome")));
  EXPECT_EQ(c.vendor_error, number(expect.at("vendor_err")));
  EXPECT_EQ(static_cast<unsigned>(wc_status_of(c.error)), number(expect.at("wc_status")));
}

// Through a ring in memory, so the place of each entry is tested as well.
TEST(cqe, decode__50_golden_vectors) {
  int valid = 0, invalid = 0;
  for (const json& v : vectors("cqe", 50)) {
    SCOPED_TRACE(v.at("id"));
    const json& expect = v.at("expect");
    const std::uint32_t size = v.at("cqe_size"), count = v.at("cqe_cnt");
    const std::uint64_t ci = number(v.at("ci"));
    memory ring(std::size_t{size} * count, 0);
    std::uint32_t record[2] = {0, 0};
    const completion_queue cq{ring.data(), count, size, record};
    make_unused(cq);
    ring.put(expect.at("slot").get<std::size_t>() * size, bytes_of(v.at("cqe")));
    const memory before = ring;
    completion c;
    const status s = poll(cq, ci, &c);
    EXPECT_EQ(s != status::nothing, expect.at("valid").get<bool>());
    EXPECT_EQ(expected_owner(ci, count), number(expect.at("expected_owner")));
    const std::uint32_t owner = be32(words_of(cq, ci)[CQE_OWNER]);
    EXPECT_EQ(owner_of(owner), number(expect.at("owner")));
    EXPECT_EQ(static_cast<unsigned>(kind_of(owner)), number(expect.at("opcode")));
    EXPECT_EQ(std::memcmp(ring.data(), memory(before).data(), ring.size()), 0);
    if (s == status::nothing) {
      ++invalid;
      continue;
    }
    EXPECT_EQ(s == status::failed, expect.contains("syndrome"));
    expect_fields(c, expect);
    EXPECT_EQ(ci + 1, number(expect.at("next_ci")));
    give_back(cq, ci + 1);
    EXPECT_EQ(in_memory(record[CONSUMER_RECORD]), text(expect.at("cq_dbrec")));
    ++valid;
  }
  EXPECT_EQ(valid + invalid, 50);
  EXPECT_GT(invalid, 2);
  EXPECT_GT(valid, 40);
}

TEST(cqe, arm__3_golden_vectors) {
  int compared = 0;
  for (const json& v : vectors("cq_arm", 3)) {
    SCOPED_TRACE(v.at("id"));
    const json& expect = v.at("expect");
    const arm_request a = arm(v.at("arm_sn"), v.at("solicited_only"), number(v.at("ci")),
                              static_cast<std::uint32_t>(number(v.at("cqn"))));
    EXPECT_EQ(ARM_UAR_OFFSET, number(expect.at("uar_offset")));
    EXPECT_EQ(in_memory(a.record), text(expect.at("arm_dbrec")));
    EXPECT_EQ(in_memory(a.doorbell), text(expect.at("doorbell")));
    ++compared;
  }
  EXPECT_EQ(compared, 3);
}

TEST(cqe, text__every_syndrome_has_its_own) {
  int general = 0;
  for (int code = 0; code < 256; ++code) {
    const auto what = static_cast<syndrome>(code);
    const bool is_general = std::string(text_of(what)) == "general error";
    EXPECT_EQ(is_general, wc_status_of(what) == 21) << code;
    general += is_general;
  }
  EXPECT_EQ(general, 256 - 14);
}

}  // namespace
