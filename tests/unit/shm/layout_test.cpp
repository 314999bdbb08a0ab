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

TEST(slot_header, pack__an_empty_message_is_not_what_nobody_has_written) {
  EXPECT_NE((slot_header{0, 0, slot_kind::message, 0}.pack()), 0u);
  EXPECT_EQ((slot_header{0, 0, slot_kind::none, 0}.pack()), 0u);
}

TEST(layout, sizes__a_small_message_and_its_header_share_a_line) {
  EXPECT_EQ(sizeof(slot), 128u);
  EXPECT_EQ(offsetof(slot, data), 8u);
  EXPECT_EQ(LANE_SIZE, 16384u);
  EXPECT_EQ(sizeof(lane_directory), 256u + 32 * 64) << "a count has a line of its own";
  EXPECT_LE(sizeof(chunk_record), SLOT_DATA);
  EXPECT_LE(sizeof(get_record), SLOT_DATA);
}

TEST(layout, lap_bit__is_set_in_the_first_lap_and_in_every_second_one) {
  EXPECT_EQ(lap_bit(first_position(0)), LAP_BIT);
  EXPECT_EQ(lap_bit(first_position(127)), LAP_BIT);
  EXPECT_EQ(lap_bit(first_position(128)), 0u);
  EXPECT_EQ(lap_bit(first_position(256)), LAP_BIT);
  EXPECT_EQ(lap_bit(~0u), LAP_BIT);
  EXPECT_EQ(lap_bit(~0u + 1), 0u) << "laps alternate past the end of the range";
}

}  // namespace lci::shm
