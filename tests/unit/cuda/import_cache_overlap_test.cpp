// Memory of the peer that overlaps what is mapped of it already.
#include <atomic>

#include "tests/unit/cuda/import_fixture.hpp"

namespace lci::cuda::importing {
namespace {

// The owner frees memory and gets other memory at some of its addresses, under another base.
TEST_F(import_test, open__what_is_freed_and_overlaps_is_closed_first) {
  for (const std::size_t unclosed : {0, 4}) {
    const std::size_t part_size = MIB / 2 + (7 + unclosed) * 4096;  // which nothing else has
    run(
        [&](wire w) {
          side here;
          void* const whole = mock().allocate(test::mock_memory::device, 2 * MIB);
          w.send(here.share(whole));
          w.send(here.share(mock().allocate(test::mock_memory::device, MIB)));
          w.wait();
          mock().free(whole);
          void* const part = mock().allocate(test::mock_memory::device, part_size);
          ASSERT_EQ(static_cast<char*>(part), static_cast<char*>(whole) + (2 * MIB - part_size));
          w.send(here.share(part));
          w.wait();
        },
        [&](wire w) {
          side here;
          std::atomic<std::size_t> held{0};
          import_cache cache(here.gpus.at(0), 256, unclosed, &held);
          descriptor none;
          std::string why;
          const share_ticket whole = w.receive(none), other = w.receive(none);
          imported old = cache.open(PEER, whole, {}, why);
          cache.open(PEER, other, {}, why);
          ASSERT_TRUE(old) << why;
          w.tell();
          const share_ticket part = w.receive(none);
          // While it is used it cannot go, and that is no property of the new memory.
          bool may_pass = false;
          EXPECT_FALSE(cache.open(PEER, part, {}, why, &may_pass));
          EXPECT_TRUE(may_pass);
          EXPECT_NE(why.find("cuIpcOpenMemHandle"), std::string::npos) << why;
          EXPECT_NE(why.find("is still in use"), std::string::npos) << why;
          EXPECT_NE(mock().contents(reinterpret_cast<void*>(old.base())), nullptr);
          old = imported();
          // Nor while closing would wait for a stream that waits for us.
          if (unclosed != 0) {
            held = 1;
            EXPECT_FALSE(cache.open(PEER, part, {}, why, &may_pass));
            EXPECT_TRUE(may_pass);
            held = 0;
          }
          EXPECT_TRUE(cache.open(PEER, part, {}, why, &may_pass)) << why;
          w.tell();
        });
    mock().reset();
  }
}

// Other memory of the peer stays mapped, unless the driver insists.
TEST_F(import_test, open__closes_no_more_than_is_in_the_way) {
  run([](wire w) { offer(w, 3); },
      [](wire w) {
        side here;
        import_cache cache(here.gpus.at(0), 256, 4);
        descriptor none;
        std::string why;
        cache.open(PEER, w.receive(none), {}, why);
        cache.open(PEER, w.receive(none), {}, why);
        EXPECT_EQ(mock().count("cuIpcCloseMemHandle"), 0u);
        mock().fail_nth("cuIpcOpenMemHandle", 1, abi::result::already_mapped);
        EXPECT_TRUE(cache.open(PEER, w.receive(none), {}, why)) << why;
        EXPECT_EQ(mock().count("cuIpcCloseMemHandle"), 2u);
        EXPECT_EQ(cache.size(), 1u);
        w.tell();
      });
}

}  // namespace
}  // namespace lci::cuda::importing
