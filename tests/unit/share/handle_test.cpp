#include "lci/share/handle.hpp"

#include <cstring>
#include <random>

#include "tests/unit/share/owner_process.hpp"

namespace lci::share {
namespace {

handle good() {
  handle h;
  h.pid = 1;
  h.start_time = 5;
  h.page_fd = 3;
  h.memory_fd = 4;
  h.serial = 1;
  h.memory_size = 8192;
  h.offset = 4096;
  h.size = 4096;
  return h;
}

buffer_fault refused(const handle& h) {
  return fault_of([&] { handle::decode(h.encode()); });
}

TEST(handle_test, encode__decode_gives_it_back) {
  handle h = good();
  h.tag = {1, 2, 3};
  const std::string bytes = h.encode();
  EXPECT_EQ(bytes.size(), handle::BYTES);
  const handle back = handle::decode(bytes);
  EXPECT_EQ(back.encode(), bytes);
  EXPECT_EQ(back.offset, 4096u);
  EXPECT_EQ(back.tag, h.tag);
}

TEST(handle_test, decode__other_lengths_are_malformed) {
  const std::string bytes = good().encode();
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_EQ(fault_of([&] { handle::decode(bytes.substr(0, length)); }), buffer_fault::malformed);
  }
  EXPECT_EQ(fault_of([&] { handle::decode(bytes + "x"); }), buffer_fault::malformed);
}

TEST(handle_test, decode__each_changed_byte_is_malformed) {
  const std::string bytes = good().encode();
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    for (const char change : {'\x01', '\x80'}) {
      std::string bad = bytes;
      bad[i] = static_cast<char>(bad[i] ^ change);
      EXPECT_EQ(fault_of([&] { handle::decode(bad); }), buffer_fault::malformed) << i;
    }
  }
}

TEST(handle_test, decode__fields_that_cannot_be_are_malformed) {
  const auto changed = [](auto&& change) {
    handle h = good();
    change(h);
    return refused(h);
  };
  EXPECT_EQ(changed([](handle& h) { h.size = 0; }), buffer_fault::malformed);
  EXPECT_EQ(changed([](handle& h) { h.size = 4097; }), buffer_fault::malformed);
  EXPECT_EQ(changed([](handle& h) { h.offset = ~std::uint64_t{0}; }), buffer_fault::malformed);
  EXPECT_EQ(changed([](handle& h) { h.memory_size = ~std::uint64_t{0}; }), buffer_fault::malformed);
  EXPECT_EQ(changed([](handle& h) { h.pid = 0; }), buffer_fault::malformed);
  EXPECT_EQ(changed([](handle& h) { h.pid = 0x80000000; }), buffer_fault::malformed);
  EXPECT_EQ(changed([](handle& h) { h.start_time = 0; }), buffer_fault::malformed);
  EXPECT_EQ(changed([](handle& h) { h.serial = 0; }), buffer_fault::malformed);
  EXPECT_EQ(changed([](handle& h) { h.page_fd = -1; }), buffer_fault::malformed);
  EXPECT_EQ(changed([](handle& h) { h.memory_fd = -1; }), buffer_fault::malformed);
  EXPECT_EQ(changed([](handle& h) { h.memory_fd = -2; }), buffer_fault::malformed);
  EXPECT_EQ(changed([](handle& h) { h.way = static_cast<handle_way>(0); }),
            buffer_fault::malformed);
  EXPECT_EQ(changed([](handle& h) { h.way = static_cast<handle_way>(3); }),
            buffer_fault::malformed);
  EXPECT_EQ(changed([](handle& h) { h.magic[7] = '2'; }), buffer_fault::malformed);
}

TEST(handle_test, start_time_of__tells_processes_apart_and_sees_their_end) {
  const process_identity me = this_process();
  EXPECT_EQ(me.start_time, start_time_of(getpid()));
  EXPECT_NE(me.start_time, 0u);
  EXPECT_NE(me.process_space, 0u);
  EXPECT_NE(me.boot, decltype(me.boot){});
  owner_process child([](talk t) { t.hear(); });
  EXPECT_GE(start_time_of(child.pid()), me.start_time);
  const pid_t was = child.pid();
  child.leave_zombie();
  EXPECT_EQ(start_time_of(was), 0u);
  child.kill();
  EXPECT_EQ(start_time_of(was), 0u);
}

TEST(handle_test, this_process__without_free_descriptors_is_no_room) {
  owner_process child([](talk) {
    const process_identity before = this_process();
    {
      const full_descriptors full(0);
      EXPECT_EQ(fault_of([] { this_process(); }), buffer_fault::no_room);
      EXPECT_EQ(fault_of([] { start_time_of(getppid()); }), buffer_fault::no_room);
    }
    EXPECT_EQ(this_process().boot, before.boot);
    EXPECT_EQ(this_process().start_time, before.start_time);
  });
}

}  // namespace
}  // namespace lci::share
