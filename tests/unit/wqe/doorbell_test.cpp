#include "lci/wqe/doorbell.hpp"

#include <gtest/gtest.h>

#include "tests/unit/wqe/golden.hpp"

namespace {

using namespace lci::test;
using namespace lci::wqe;

class doorbell_test : public testing::Test {
 protected:
  // A request of `entries` entries, the last of those that are rung for.
  ring_request write(std::uint64_t index, std::uint32_t entries, bool single) {
    const sge pieces[6] = {{1, 8, 1}, {2, 8, 2}, {3, 8, 3}, {4, 8, 4}, {5, 8, 5}, {6, 8, 6}};
    send_request r;
    r.op = entries == 0 ? opcode::nop : opcode::rdma_write;
    r.qpn = 0x123;
    r.entries = pieces;
    r.entry_count = entries;
    EXPECT_EQ(write_send_wqe(ring, index, r, {}, &written), status::ok);
    return {written.next_index, index, single};
  }
  void rung(const ring_request& what) { ring_doorbell(bell, ring, what, offset); }
  bytes at_register(std::size_t at, std::size_t size) { return target.get(at, size); }
  bytes of_ring(std::uint64_t index, std::uint32_t octowords) {
    bytes out;
    for (std::uint32_t k = 0; k < octowords; ++k) {
      const auto* at = reinterpret_cast<unsigned char*>(octoword_at(ring, index, k));
      out.insert(out.end(), at, at + OCTOWORD_SIZE);
    }
    return out;
  }

  memory blocks{4 * BLOCK_SIZE}, target{512};
  send_ring ring{blocks.data(), 4};
  std::uint32_t record[2] = {0, 0};
  doorbell bell{doorbell_form::eight_bytes, record, target.data(), 0};
  written_wqe written;
  std::uint32_t offset = 0;
};

TEST_F(doorbell_test, eight_bytes__are_those_of_the_last_request) {
  rung(write(0xffff, 1, true));
  EXPECT_EQ(in_memory(record), "0000000000000000");
  EXPECT_EQ(at_register(0, 8), bytes_of("00ffff0800012303"));
  EXPECT_EQ(at_register(8, 504), bytes(504, 0xee));
  EXPECT_EQ(offset, 0u);
}

TEST_F(doorbell_test, synthesized__next_index_and_queue) {
  bell.form = doorbell_form::synthesized;
  rung(write(1, 3, true));
  EXPECT_EQ(in_memory(record), "0000000000000003");
  EXPECT_EQ(at_register(0, 8), bytes_of("0000030000012300"));
}

TEST_F(doorbell_test, blueflame__copies_one_request_and_takes_the_other_half) {
  bell.form = doorbell_form::blueflame;
  bell.buffer_size = 256;
  rung(write(3, 3, true));  // 5 octowords, which pass the end of the ring
  EXPECT_EQ(at_register(0, 128), of_ring(3, 8));
  EXPECT_EQ(at_register(128, 384), bytes(384, 0xee));
  EXPECT_EQ(offset, 256u);
  rung(write(5, 1, true));
  EXPECT_EQ(at_register(256, 64), of_ring(5, 4));
  EXPECT_EQ(offset, 0u);
}

// Once the record is stored another thread may have the blocks. Here the record is in the request's
// own padding, so a copy that is made too late shows it.
TEST_F(doorbell_test, blueflame__what_is_copied_was_read_before_the_record_was_stored) {
  bell.form = doorbell_form::blueflame;
  bell.buffer_size = 256;
  const ring_request what = write(0, 1, true);
  bell.record = octoword_at(ring, 0, 3)->word;
  const bytes before = of_ring(0, 4);
  rung(what);
  EXPECT_EQ(at_register(0, 64), before);
  EXPECT_NE(of_ring(0, 4), before);
}

// Each condition of the copy, alone, leads to the eight bytes.
TEST_F(doorbell_test, blueflame__eight_bytes_for_all_else) {
  bell.form = doorbell_form::blueflame;
  bell.buffer_size = 256;
  const auto is_short = [&](const ring_request& what) {
    const std::uint32_t half = offset;
    rung(what);
    bytes first = of_ring(what.last, 1);
    first.resize(8);
    return at_register(half, 8) == first && at_register(half + 8, 56) == bytes(56, 0xee);
  };
  EXPECT_TRUE(is_short(write(0, 1, false)));  // not the only one
  EXPECT_TRUE(is_short(write(1, 0, true)));   // one octoword
  EXPECT_EQ(offset, 0u);                      // both took their half
  bell.buffer_size = 64;
  EXPECT_TRUE(is_short(write(2, 5, true)));  // longer than the half
  offset = 0;
  bell.buffer_size = 0;
  EXPECT_TRUE(is_short(write(2, 1, true)));  // no such register
  EXPECT_EQ(offset, 0u);
}

TEST_F(doorbell_test, mailbox__only_grows_and_keeps_64_bits) {
  std::uint64_t mailbox = 0;
  bell.form = doorbell_form::mailbox;
  bell.target = &mailbox;
  rung(write(0x12345fffe, 1, true));
  EXPECT_EQ(mailbox, 0x12345ffffu);
  rung({0x12345fff0, 0x12345ffef, true});  // late
  EXPECT_EQ(mailbox, 0x12345ffffu);
  EXPECT_EQ(in_memory(record), "0000000000000000");
  EXPECT_EQ(target.get(0, 8), bytes(8, 0xee));
}

TEST_F(doorbell_test, post_receives__the_record_alone) {
  post_receives(record, 0x12346);
  EXPECT_EQ(in_memory(record), "0000234600000000");
}

}  // namespace
