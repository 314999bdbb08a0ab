#include "lci/wqe/send_wqe.hpp"

#include <gtest/gtest.h>

#include <map>

#include "lci/wqe/doorbell.hpp"
#include "tests/unit/wqe/golden.hpp"

namespace {

using namespace lci::test;
using namespace lci::wqe;

constexpr unsigned char OLD = 0xee;

// The ring after one vector, compared byte by byte: what is not in a piece is as it was.
void expect_ring(memory& ring, const json& pieces) {
  memory expected(ring.size(), OLD);
  for (const json& piece : pieces) expected.put(piece.at("offset"), bytes_of(piece.at("bytes")));
  EXPECT_TRUE(std::memcmp(ring.data(), expected.data(), ring.size()) == 0);
}

written_wqe write(memory& ring, const send_input& in) {
  written_wqe out;
  const status s =
      write_send_wqe({ring.data(), in.ring_blocks}, in.index, request_of(in), in.limits, &out);
  EXPECT_EQ(s, status::ok) << text_of(s);
  return out;
}

TEST(send_wqe, write__123_golden_vectors) {
  int compared = 0;
  for (const json& v : vectors("send", 123)) {
    SCOPED_TRACE(v.at("id"));
    const send_input in = input_of(v);
    const json& expect = v.at("expect");
    memory ring(std::size_t{in.ring_blocks} * BLOCK_SIZE, OLD);
    const written_wqe out = write(ring, in);
    expect_ring(ring, expect.at("ring"));
    EXPECT_EQ(out.octowords, number(expect.at("ds")));
    EXPECT_EQ(out.blocks, number(expect.at("num_bb")));
    EXPECT_EQ(out.next_index, number(expect.at("next_index")));
    EXPECT_EQ(in.index & (in.ring_blocks - 1), number(expect.at("slot")));
    EXPECT_EQ(in_memory(out.doorbell), text(expect.at("doorbell")));
    EXPECT_EQ(in_memory(synthesized_doorbell(out.next_index, in.request.qpn)),
              text(expect.at("doorbell_synth")));
    EXPECT_EQ("00000000" + in_memory(work_record(out.next_index)), text(expect.at("dbrec")));
    ++compared;
  }
  EXPECT_EQ(compared, 123);
}

TEST(send_wqe, write__3_golden_batches) {
  std::map<std::string, json> by_name;
  for (const json& v : vectors("send", 123)) by_name[v.at("id")] = v;
  int compared = 0;
  for (const json& v : vectors("batch", 3)) {
    SCOPED_TRACE(v.at("id"));
    const std::uint32_t blocks = v.at("wqe_cnt");
    memory ring(std::size_t{blocks} * BLOCK_SIZE, OLD);
    written_wqe last;
    last.next_index = number(v.at("first_index"));
    for (const json& post : v.at("posts")) {
      send_input in = input_of(by_name.at(post.at("send_like")));
      in.request.signaled = post.at("signaled");
      in.index = last.next_index;
      in.ring_blocks = blocks;
      EXPECT_EQ(in.index, number(post.at("index")));
      last = write(ring, in);
      const bytes expected = bytes_of(post.at("wqe"));
      bytes found;
      for (std::uint32_t k = 0; k < last.octowords; ++k) {
        const auto* at =
            reinterpret_cast<unsigned char*>(octoword_at({ring.data(), blocks}, in.index, k));
        found.insert(found.end(), at, at + OCTOWORD_SIZE);
      }
      EXPECT_EQ(found, expected);
    }
    const json& expect = v.at("expect");
    EXPECT_EQ(last.next_index, number(expect.at("next_index")));
    EXPECT_EQ(in_memory(last.doorbell), text(expect.at("doorbell")));
    EXPECT_EQ("00000000" + in_memory(work_record(last.next_index)), text(expect.at("dbrec")));
    ++compared;
  }
  EXPECT_EQ(compared, 3);
}

// A comparison that could not fail would prove nothing: one bit, in turn, of each byte.
TEST(send_wqe, write__a_changed_byte_is_seen) {
  const json& v = vectors("send", 123).at(0);
  const bytes right = bytes_of(v.at("expect").at("wqe"));
  memory ring(64 * BLOCK_SIZE, OLD);
  write(ring, input_of(v));
  int seen = 0;
  for (std::size_t i = 0; i < right.size(); ++i) {
    bytes wrong = right;
    wrong[i] ^= 1u << (i % 8);
    seen += ring.get(0, right.size()) != wrong;
  }
  EXPECT_EQ(seen, 48);
}

class send_wqe_check : public testing::Test {
 protected:
  send_wqe_check() {
    request.qpn = 0x123;
    request.raddr = 0x7f1000002000;
    request.entries = entries.data();
    request.entry_count = 1;
    request.inline_data = payload;
  }
  // Refused, with nothing written and `out` as it was.
  void expect_refused(opcode op, status why, std::uint32_t ring_blocks = 64) {
    request.op = op;
    memory ring(64 * BLOCK_SIZE, OLD);
    const memory before = ring;
    written_wqe out;
    out.octowords = 77;
    EXPECT_EQ(write_send_wqe({ring.data(), ring_blocks}, 5, request, limits, &out), why);
    EXPECT_EQ(std::memcmp(ring.data(), memory(before).data(), ring.size()), 0);
    EXPECT_EQ(out.octowords, 77u);
    ++refused;
  }
  void set_inline(std::uint32_t length) {
    request.entry_count = 0;
    request.inline_length = length;
  }

  std::vector<sge> entries{63, sge{0x1000, 64, 1}};
  unsigned char payload[MOST_INLINE] = {};
  send_request request;
  send_limits limits;
  int refused = 0;
};

// Those of the golden rejections that are for a send; recv and completions have the other.
TEST_F(send_wqe_check, refuses__11_golden_rejections) {
  for (const json& v : vectors("reject", 12)) {
    const std::string id = v.at("id");
    SCOPED_TRACE(id);
    const send_request before = request;
    const send_limits old_limits = limits;
    const opcode op = v.contains("op") ? opcode_named(v.at("op")) : opcode::rdma_write;
    entries[0].length = number_or(v, "length", is_atomic(op) ? 8 : 64);
    request.qpn = static_cast<std::uint32_t>(number_or(v, "qpn", 0x123));
    request.raddr = number_or(v, "raddr", request.raddr);
    request.entry_count = static_cast<std::uint32_t>(number_or(v, "sge_count", 1));
    if (v.contains("inline_length")) set_inline(v.at("inline_length"));
    limits.max_inline = static_cast<std::uint32_t>(number_or(v, "max_inline", MOST_INLINE));
    request.inline_is_gpu_memory = v.contains("source");
    if (id == "rej-cqe-size") continue;  // completion_queue_test.cpp
    expect_refused(op, why_rejected(id), static_cast<std::uint32_t>(number_or(v, "wqe_cnt", 64)));
    request = before;
    limits = old_limits;
    entries[0].length = 64;
  }
  EXPECT_EQ(refused, 11);
}

TEST_F(send_wqe_check, refuses__what_the_golden_ones_leave_out) {
  expect_refused(static_cast<opcode>(0x25), status::bad_opcode);
  expect_refused(opcode::nop, status::bad_entry_count);
  expect_refused(opcode::send, status::bad_ring, 0);
  expect_refused(opcode::send, status::bad_ring, 65536);
  request.fence = static_cast<fence_mode>(0x60);
  expect_refused(opcode::send, status::bad_fence);
  request.fence = fence_mode::none;
  request.entry_count = 2;
  entries[0].length = entries[1].length = 1u << 29;
  entries[1].length += 1;  // each is short enough, both are not
  expect_refused(opcode::rdma_write, status::bad_length);
  entries[0].length = entries[1].length = 8;
  expect_refused(opcode::atomic_fa, status::bad_entry_count);
  request.entry_count = 1;
  request.inline_length = 8;  // and entries
  expect_refused(opcode::send, status::bad_entry_count);
  request.inline_length = 0;
  request.atomic.size = 4;
  entries[0].length = 4;
  expect_refused(opcode::atomic_cs, status::bad_atomic_length);
  request.raddr = 2;
  expect_refused(opcode::atomic_masked_fa, status::misaligned_atomic);
  request.raddr = 0;
  entries[0].length = 8;
  expect_refused(opcode::atomic_masked_fa, status::bad_atomic_length);
  for (opcode op : {opcode::nop, opcode::atomic_cs, opcode::dump, opcode::atomic_masked_cs}) {
    set_inline(8);
    expect_refused(op, status::inline_without_meaning);
  }
  EXPECT_EQ(refused, 15);
}

TEST_F(send_wqe_check, takes__what_is_just_right) {
  const auto is_taken = [&](opcode op, std::uint32_t blocks) {
    request.op = op;
    return check(send_ring{nullptr, blocks}, request, limits) == status::ok;
  };
  request.entry_count = 62;
  EXPECT_TRUE(is_taken(opcode::send, 16));  // 63 octowords
  EXPECT_FALSE(is_taken(opcode::send, 8));
  request.entry_count = 1;
  entries[0].length = limits.max_message;
  EXPECT_TRUE(is_taken(opcode::rdma_write, 1));
  EXPECT_TRUE(is_taken(opcode::rdma_write, MAX_RING_BLOCKS));
  request.qpn = MAX_QPN;
  set_inline(limits.max_inline);
  EXPECT_TRUE(is_taken(opcode::rdma_write, 1));
}

// The published mistakes: ours differs from each, and is what is right.
TEST(send_wqe, write__known_mistakes_are_not_made) {
  const json& all = vectors("known_wrong", 5);
  int looked_at = 0;
  for (const json& v : all) {
    const std::string id = v.at("id");
    SCOPED_TRACE(id);
    if (id == "unmasked-index") {
      const octoword o = control_segment(0, number(v.at("index")), opcode::rdma_write, 0, 3, 0, 0);
      EXPECT_EQ(in_memory(o.word[0]), text(v.at("right_dword0")));
      EXPECT_NE(in_memory(o.word[0]), text(v.at("wrong_dword0")));
    } else if (id == "24-bit-send-record") {
      const std::uint64_t next = number(v.at("index")) + v.at("num_bb").get<std::uint64_t>();
      EXPECT_EQ(in_memory(work_record(next)), text(v.at("right_dbrec_send")));
      EXPECT_NE(in_memory(work_record(next)), text(v.at("wrong_dbrec_send")));
    } else if (id == "remote-segment-in-send") {
      const sge one{0x1000, 64, 1};
      send_request r;
      r.op = opcode::send;
      r.entries = &one;
      r.entry_count = 1;
      EXPECT_EQ(octowords_of(r), number(v.at("right_ds")));
      EXPECT_NE(octowords_of(r), number(v.at("wrong_ds")));
    } else if (id == "send-inval-cqe-as-error") {
      EXPECT_FALSE(is_error(static_cast<cqe_opcode>(number(v.at("cqe_opcode")))));
      EXPECT_TRUE(is_error(cqe_opcode::request_error));
    } else if (id == "byte-count-offset-in-128B-cqe") {
      std::uint32_t entry[LARGE_CQE_SIZE / 4];
      const completion_queue cq{entry, 1, LARGE_CQE_SIZE, nullptr};
      const auto offset = (words_of(cq, 0) + CQE_BYTES - entry) * 4;
      EXPECT_EQ(offset, number(v.at("right_offset")));
      EXPECT_NE(offset, number(v.at("wrong_offset")));
    } else {
      ADD_FAILURE() << "unknown";
      continue;
    }
    ++looked_at;
  }
  EXPECT_EQ(looked_at, 5);
}

}  // namespace
