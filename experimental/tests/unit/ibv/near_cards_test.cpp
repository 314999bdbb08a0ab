#include "experimental/ibv/multi_rail/near_cards.hpp"

#include <gtest/gtest.h>

#include "tests/unit/ibv/domains.hpp"

namespace lci::ibv {
namespace {

const net::topology& two_sockets() {
  static const net::topology machine("/no/such/folder",
                                     LCI_SOURCE_DIR "/tests/unit/net/two_sockets.xml");
  return machine;
}
constexpr const char* AT_FIRST_SOCKET = "0000:03:00.0";
constexpr const char* AT_SECOND_SOCKET = "0000:81:00.0";
constexpr const char* GPU_AT_FIRST_SOCKET = "0000:04:00.0";

// GPU 0 is at the first socket; nobody knows where the others are. An address is a GPU's number.
int asked = 0;
extern const mem::memory_domain GPUS_OF_NEAR_CARDS;
mem::memory_place find_gpu(const void* address) noexcept {
  mem::memory_place out;
  out.kind = mem::mem_kind::device;
  out.device = static_cast<int>(reinterpret_cast<std::uintptr_t>(address));
  out.domain = &GPUS_OF_NEAR_CARDS;
  return out;
}
std::string pci_of_gpu(int device) {
  ++asked;
  return device == 0 ? GPU_AT_FIRST_SOCKET : "";
}
const mem::memory_domain GPUS_OF_NEAR_CARDS{"fake",  "",      nullptr, &find_gpu,  nullptr,
                                            nullptr, nullptr, nullptr, nullptr,    nullptr,
                                            nullptr, nullptr, nullptr, &pci_of_gpu};
const void* memory_of(std::uintptr_t gpu) { return reinterpret_cast<const void*>(gpu); }

struct near_cards_test : testing::Test {
  near_cards_test() { test::domains() = {&GPUS_OF_NEAR_CARDS, 1}; }
  ~near_cards_test() override { test::domains() = {}; }
};

TEST_F(near_cards_test, one_card__is_near_to_everything) {
  EXPECT_EQ(near_cards().to(memory_of(0)), near_cards::ALL);
}

TEST_F(near_cards_test, unknown_place__all_are_near) {
  const near_cards cards(two_sockets(), {AT_FIRST_SOCKET, AT_SECOND_SOCKET});
  EXPECT_EQ(cards.to(memory_of(1)), near_cards::ALL) << "a GPU that tells no address";
  test::domains() = {};
  EXPECT_EQ(cards.to(memory_of(0)), near_cards::ALL) << "memory of nobody";
  const near_cards unplaced(two_sockets(), {"", ""});
  EXPECT_EQ(unplaced.to_pci(GPU_AT_FIRST_SOCKET), 0b11u);
}

#if LCI_HAVE_HWLOC
TEST_F(near_cards_test, the_nearest__all_of_them__asked_once_for_each_gpu) {
  const near_cards cards(two_sockets(), {AT_SECOND_SOCKET, AT_FIRST_SOCKET, AT_SECOND_SOCKET});
  asked = 0;
  EXPECT_EQ(cards.to(memory_of(0)), 0b010u);
  EXPECT_EQ(cards.to(memory_of(0)), 0b010u);
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(cards.to_pci(AT_SECOND_SOCKET), 0b101u);
  const near_cards far(two_sockets(), {AT_SECOND_SOCKET, AT_SECOND_SOCKET});
  EXPECT_EQ(far.to(memory_of(0)), 0b11u) << "somebody has to carry it";
}
#endif

}  // namespace
}  // namespace lci::ibv
