#include "backends/shm/segment.hpp"
#include "backends/shm/connect.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lci/errors.hpp"

namespace lci::shm {
namespace {

constexpr std::size_t RESERVE = std::size_t{64} << 20;

int again(const mem::arena& a) { return fcntl(a.fd(), F_DUPFD_CLOEXEC, 0); }

}  // namespace

TEST(segment, resolve__sees_what_the_owner_wrote) {
  mem::arena owner(RESERVE);
  auto* word = static_cast<std::uint64_t*>(owner.allocate(64));
  *word = 42;
  mem::arena home(RESERVE);
  segment s;
  s.map(again(owner), owner.reserved(), home);
  auto* there = s.resolve_as<std::uint64_t>(owner.offset_of(word));
  ASSERT_NE(there, nullptr);
  EXPECT_NE(there, word);
  EXPECT_EQ(*there, 42u);
}

TEST(segment, resolve__answers_nothing_outside_the_file) {
  mem::arena owner(RESERVE);
  owner.allocate(64);
  mem::arena home(RESERVE);
  segment s;
  s.map(again(owner), owner.reserved(), home);
  const std::uint64_t end = owner.committed();
  EXPECT_NE(s.resolve(end - 64, 64, 64), nullptr);
  EXPECT_EQ(s.resolve(end - 64, 65, 64), nullptr);
  EXPECT_EQ(s.resolve(end, 1, 64), nullptr);
  EXPECT_EQ(s.resolve(~std::uint64_t{63}, 128, 64), nullptr) << "offset + size overflows";
  EXPECT_EQ(s.resolve(64, ~std::size_t{0}, 64), nullptr);
  EXPECT_EQ(s.resolve(0, 64, 64), nullptr) << "0 means none";
  EXPECT_EQ(s.resolve(72, 8, 64), nullptr) << "misaligned";
}

TEST(segment, resolve__follows_the_owner_as_it_grows) {
  mem::arena owner(RESERVE);
  owner.allocate(64);
  mem::arena home(RESERVE);
  segment s;
  s.map(again(owner), owner.reserved(), home);
  const std::uint64_t end = owner.committed();
  EXPECT_EQ(s.resolve(end, 64, 64), nullptr);
  void* late = owner.allocate(end + 4096);
  EXPECT_NE(s.resolve(owner.offset_of(late), end + 4096, 64), nullptr);
}

TEST(segment, map__refuses_sizes_that_no_arena_has) {
  mem::arena owner(RESERVE), home(RESERVE);
  for (const std::uint64_t wrong :
       {std::uint64_t{0}, std::uint64_t{4097}, std::uint64_t{1} << 60}) {
    segment s;
    const lci::base::descriptor file(again(owner));
    EXPECT_THROW(s.map(file.get(), wrong, home), backend_error) << wrong;
  }
}

TEST(segment, map__refuses_a_file_that_its_owner_could_shrink) {
  const lci::base::descriptor file(memfd_create("lci-test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_TRUE(file);
  ASSERT_EQ(ftruncate(file.get(), 1 << 20), 0);
  mem::arena home(RESERVE);
  segment s;
  EXPECT_THROW(s.map(file.get(), 1 << 20, home), backend_error);
}

TEST(segment, map__makes_a_view_that_our_arena_knows_while_it_lasts) {
  mem::arena owner(RESERVE), home(RESERVE);
  const void* there = nullptr;
  {
    segment s;
    s.map(again(owner), owner.reserved(), home);
    owner.allocate(64);
    there = s.resolve(64, 64, 64);
    EXPECT_TRUE(home.packet_window().covers(there));
    EXPECT_TRUE(home.packet_window().is_view(there));
    EXPECT_FALSE(owner.packet_window().is_view(there));
  }
  EXPECT_FALSE(home.packet_window().is_view(there)) << "whatever is mapped there now is no view";
}

TEST(segment, use__our_own_arena_is_the_same_memory) {
  mem::arena owner(RESERVE);
  auto* word = static_cast<std::uint64_t*>(owner.allocate(64));
  segment s;
  s.use(owner);
  EXPECT_TRUE(s.is_own());
  EXPECT_EQ(s.resolve_as<std::uint64_t>(owner.offset_of(word)), word);
}

}  // namespace lci::shm
