#include "backends/shm/layout.hpp"

#include <gtest/gtest.h>

namespace lci::shm {

TEST(slot_header, pack__every_field_comes_back) {
  const slot_header h{0xdeadbeef, 0xfedc, slot_kind::put_packet, HAS_IMM | GET_DONE};
  const slot_header back = slot_header::unpack(h.pack());
  EXPECT_EQ(back.imm, 0xdeadbeefu);
  EXPECT_EQ(back.size, 0xfedc);
  EXPECT_EQ(back.kind, slot_kind::put_packet);
  EXPECT_EQ(back.flags, HAS_IMM | GET_DONE);
}

TEST(slot_header, pack__an_empty_message_is_not_a_free_slot) {
  EXPECT_NE((slot_header{0, 0, slot_kind::message, 0}.pack()), 0u);
  EXPECT_EQ((slot_header{0, 0, slot_kind::free, 0}.pack()), 0u);
}

TEST(layout, sizes__a_small_message_and_its_header_share_a_line) {
  EXPECT_EQ(sizeof(slot), 128u);
  EXPECT_EQ(offsetof(slot, data), 8u);
  EXPECT_EQ(LANE_SIZE, 16384u);
  EXPECT_EQ(sizeof(lane_directory), 256u);
  EXPECT_LE(sizeof(chunk_record), SLOT_DATA);
  EXPECT_LE(sizeof(get_record), SLOT_DATA);
}

}  // namespace lci::shm
