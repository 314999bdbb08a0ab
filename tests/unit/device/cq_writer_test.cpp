#include "lci/device/cq_writer.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace {

using lci::device::cq_writer;
namespace wqe = lci::wqe;

// What the card writes is what a poller reads, over many rounds and in both sizes.
TEST(cq_writer, write__is_read_back_and_stops_when_full) {
  for (const std::uint32_t size : {wqe::CQE_SIZE, wqe::LARGE_CQE_SIZE}) {
    std::vector<std::uint32_t> memory(4 * size / 4);
    std::uint32_t record[2] = {0, 0};
    const wqe::completion_queue cq{memory.data(), 4, size, record};
    wqe::make_unused(cq);
    cq_writer writer(cq);
    std::uint64_t read = 0;
    for (std::uint32_t i = 0; i < 1000; ++i) {
      wqe::completion c;
      c.kind = i % 5 == 0 ? wqe::cqe_opcode::request_error : wqe::cqe_opcode::resp_send_imm;
      c.solicited = i % 2 == 0;
      c.qpn = i * 7919 & wqe::MAX_QPN;
      c.wqe_counter = static_cast<std::uint16_t>(i * 131);
      c.send_opcode = static_cast<std::uint8_t>(i);
      c.source_qp = i;
      if (wqe::is_error(c.kind)) {
        c.error = wqe::syndrome::remote_access;
        c.vendor_error = static_cast<std::uint8_t>(i);
      } else {
        c.byte_count = i * 3;
        c.imm = i * 5;
      }
      ASSERT_FALSE(writer.is_full());
      writer.write(c);
      if (i < 3) continue;  // three are always there
      wqe::completion found;
      ASSERT_TRUE(writer.is_full());
      ASSERT_NE(wqe::poll(cq, read, &found), wqe::status::nothing);
      wqe::give_back(cq, ++read);
      EXPECT_EQ(found.wqe_counter, static_cast<std::uint16_t>((read - 1) * 131));
      EXPECT_EQ(found.qpn, (read - 1) * 7919 & wqe::MAX_QPN);
      EXPECT_EQ(wqe::is_error(found.kind), (read - 1) % 5 == 0);
      EXPECT_EQ(found.solicited, (read - 1) % 2 == 0);
      if (!wqe::is_error(found.kind)) {
        EXPECT_EQ(found.imm, (read - 1) * 5);
      } else {
        EXPECT_EQ(found.error, wqe::syndrome::remote_access);
      }
    }
    EXPECT_EQ(writer.produced(), 1000u);
  }
}

}  // namespace
