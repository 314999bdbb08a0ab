#include "lci/wqe/c_face.h"

#include <gtest/gtest.h>

#include <map>

#include "lci/wqe/c_face_calls.hpp"
#include "tests/unit/wqe/golden.hpp"

namespace {

using namespace lci::test;
using namespace lci::wqe;

lci_send_wqe_params_t params_of(const send_input& in, void* ring) {
  const send_request r = request_of(in);
  lci_send_wqe_params_t p{};
  p.ring = ring;
  p.wqe_cnt = in.ring_blocks;
  p.index = in.index;
  p.qpn = r.qpn;
  p.opcode = static_cast<std::uint32_t>(r.op);
  p.fence = static_cast<std::uint32_t>(r.fence);
  p.signaled = r.signaled;
  p.solicited = r.solicited;
  p.imm = r.imm;
  if (r.entry_count != 0) {
    p.laddr = r.entries[0].laddr;
    p.length = r.entries[0].length;
    p.lkey = r.entries[0].lkey;
  }
  p.raddr = r.raddr;
  p.rkey = r.rkey;
  p.inline_data = r.inline_data;
  p.inline_length = r.inline_length;
  p.max_inline = MOST_INLINE;
  p.atomic_size = r.atomic.size;
  p.swap_add = r.atomic.swap_add;
  p.compare = r.atomic.compare;
  p.swap_mask = r.atomic.swap_mask;
  p.compare_mask = r.atomic.compare_mask;
  return p;
}

// Those vectors that a structure with one entry can say, within the limit of a message.
TEST(c_face, send__the_golden_vectors_with_one_entry) {
  int compared = 0, left_out = 0;
  for (const json& v : vectors("send", 123)) {
    SCOPED_TRACE(v.at("id"));
    const send_input in = input_of(v);
    if (in.request.entry_count > 1 || in.entries[0].length > DEFAULT_MAX_MESSAGE) {
      ++left_out;
      continue;
    }
    memory ring(std::size_t{in.ring_blocks} * BLOCK_SIZE), expected(ring.size());
    for (const json& piece : v.at("expect").at("ring"))
      expected.put(piece.at("offset"), bytes_of(piece.at("bytes")));
    EXPECT_EQ(lci_send_wqe(params_of(in, ring.data())), number(v.at("expect").at("num_bb")));
    EXPECT_EQ(std::memcmp(ring.data(), expected.data(), ring.size()), 0);
    ++compared;
  }
  EXPECT_EQ(compared + left_out, 123);
  EXPECT_GT(compared, 100);
}

TEST(c_face, send__refuses_as_the_encoder_does) {
  memory ring(64 * BLOCK_SIZE);
  lci_send_wqe_params_t p{};
  p.ring = ring.data();
  p.wqe_cnt = 64;
  p.opcode = LCI_WQE_RDMA_WRITE;
  p.length = std::uint64_t{1} << 32;
  EXPECT_EQ(lci_send_wqe(p), LCI_WQE_BAD_LENGTH);
  p.length = 64;
  p.opcode = 0x108;  // would be a write if it were cut to a byte
  EXPECT_EQ(lci_send_wqe(p), LCI_WQE_BAD_OPCODE);
  p.opcode = LCI_WQE_RDMA_WRITE;
  p.qpn = 1u << 24;
  EXPECT_EQ(lci_send_wqe(p), LCI_WQE_BAD_QPN);
  p.qpn = 0;
  p.length = 0;
  p.inline_length = 29;
  EXPECT_EQ(lci_send_wqe(p), LCI_WQE_INLINE_TOO_LONG);
  for (std::uint32_t fence : {0x120u, 0xa0u, 0x08u}) {  // the first would be small, cut to a byte
    p.fence = fence;
    EXPECT_EQ(lci_send_wqe(p), LCI_WQE_BAD_FENCE);
  }
  p.wqe_cnt = 3;
  EXPECT_EQ(lci_send_wqe(p), LCI_WQE_BAD_RING);
  EXPECT_EQ(ring.get(0, ring.size()), bytes(ring.size(), 0xee));
  EXPECT_STREQ(lci_wqe_text(LCI_WQE_BAD_QPN), text_of(status::bad_qpn));
  EXPECT_STREQ(lci_wqe_text(4096), "success");
}

TEST(c_face, recv__the_golden_vectors_with_one_entry) {
  int compared = 0;
  for (const json& v : vectors("recv", 10)) {
    SCOPED_TRACE(v.at("id"));
    const std::vector<sge> entries = entries_of(v.at("sge"));
    if (entries.size() > 1) continue;
    lci_recv_wqe_params_t p{};
    p.wqe_cnt = v.at("rq_wqe_cnt");
    p.stride = v.at("stride");
    p.index = number(v.at("index"));
    if (!entries.empty()) {
      p.laddr = entries[0].laddr;
      p.length = entries[0].length;
      p.lkey = entries[0].lkey;
    }
    memory ring(std::size_t{p.wqe_cnt} * p.stride, 0), expected(ring.size(), 0);
    p.ring = ring.data();
    expected.put(v.at("expect").at("offset"), bytes_of(v.at("expect").at("wqe")));
    EXPECT_EQ(lci_recv_wqe(p), 1);
    EXPECT_EQ(ring.get(0, ring.size()), expected.get(0, expected.size()));
    std::uint32_t record[2] = {0, 0};
    lci_db_ring_params_t bell{};
    bell.dbrec = record;
    bell.is_receive = 1;
    bell.next_index = p.index + 1;
    EXPECT_EQ(lci_db_ring(bell), 0);
    EXPECT_EQ(in_memory(record), text(v.at("expect").at("dbrec")));
    ++compared;
  }
  EXPECT_EQ(compared, 8);
}

TEST(c_face, ring__record_and_both_forms_of_eight_bytes) {
  int compared = 0;
  for (const json& v : vectors("send", 123)) {
    SCOPED_TRACE(v.at("id"));
    const send_input in = input_of(v);
    const json& expect = v.at("expect");
    memory ring(std::size_t{in.ring_blocks} * BLOCK_SIZE);
    written_wqe out;
    ASSERT_EQ(
        write_send_wqe({ring.data(), in.ring_blocks}, in.index, request_of(in), in.limits, &out),
        status::ok);
    std::uint32_t record[2] = {0, 0};
    std::uint64_t target = 0;
    lci_db_ring_params_t p{};
    p.dbrec = record;
    p.target = &target;
    p.ring = ring.data();
    p.wqe_cnt = in.ring_blocks;
    p.last_index = in.index;
    p.next_index = out.next_index;
    EXPECT_EQ(lci_db_ring(p), 0);
    EXPECT_EQ(in_memory(record), text(expect.at("dbrec")));
    EXPECT_EQ(in_memory(target), text(expect.at("doorbell")));
    p.form = LCI_DOORBELL_SYNTHESIZED;
    EXPECT_EQ(lci_db_ring(p), 0);
    EXPECT_EQ(in_memory(target), text(expect.at("doorbell_synth")));
    p.form = LCI_DOORBELL_MAILBOX + 1;
    EXPECT_EQ(lci_db_ring(p), LCI_WQE_BAD_DOORBELL_FORM);
    p.wqe_cnt = 3;
    EXPECT_EQ(lci_db_ring(p), LCI_WQE_BAD_RING);
    ++compared;
  }
  EXPECT_EQ(compared, 123);
}

TEST(c_face, poll__the_50_golden_vectors) {
  int compared = 0;
  for (const json& v : vectors("cqe", 50)) {
    SCOPED_TRACE(v.at("id"));
    const json& expect = v.at("expect");
    lci_cqe_poll_params_t p{};
    p.cqe_size = v.at("cqe_size");
    p.cqe_cnt = v.at("cqe_cnt");
    p.consumer_index = number(v.at("ci"));
    memory ring(std::size_t{p.cqe_size} * p.cqe_cnt, 0xff);
    ring.put(expect.at("slot").get<std::size_t>() * p.cqe_size, bytes_of(v.at("cqe")));
    std::uint32_t record[2] = {0x77, 0};
    lci_cqe_t cqe{};
    p.cq = ring.data();
    p.dbrec = record;
    p.cqe = &cqe;
    const std::int64_t answer = lci_cqe_poll(p);
    ++compared;
    if (!expect.at("valid")) {
      EXPECT_EQ(answer, LCI_WQE_NOTHING);
      EXPECT_EQ(record[0], 0x77u);
      continue;
    }
    EXPECT_EQ(in_memory(record[0]), text(expect.at("cq_dbrec")));
    EXPECT_EQ(cqe.qpn, number(expect.at("qpn")));
    EXPECT_EQ(cqe.wqe_counter, number(expect.at("wqe_counter")));
    if (expect.contains("syndrome")) {
      EXPECT_EQ(answer, LCI_WQE_FAILED);
      EXPECT_EQ(cqe.syndrome, number(expect.at("syndrome")));
    } else {
      EXPECT_EQ(answer, static_cast<std::int64_t>(number(expect.at("byte_cnt"))));
    }
    p.cqe_size = 32;
    EXPECT_EQ(lci_cqe_poll(p), LCI_WQE_BAD_CQE_SIZE);
  }
  EXPECT_EQ(compared, 50);
}

}  // namespace
