#include "backends/cuda/import_cache.hpp"

#include <sys/wait.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <new>

#include "tests/support/failing_new/each_allocation.hpp"
#include "tests/unit/cuda/import_fixture.hpp"

namespace lci::cuda::importing {
namespace {

TEST_F(import_test, open__both_ways_of_sharing_move_bytes_between_processes) {
  for (const auto kind : {test::mock_memory::device, test::mock_memory::vmm}) {
    const auto bytes = some_bytes(MIB, 5);
    run(
        [&](wire w) {
          side here;
          void* const memory = mock().allocate(kind, 2 * MIB, 1);
          const exported out = here.share(memory);
          ASSERT_EQ(out.why_not, "");
          w.send(out);
          w.wait();
          expect_contents(memory, bytes);
          const auto wrong = some_bytes(MIB, 6);
          EXPECT_NE(std::memcmp(mock().contents(memory), wrong.data(), MIB), 0);
        },
        [&](wire w) {
          side here;
          import_cache cache(here.gpus.at(0));
          descriptor fd;
          const share_ticket ticket = w.receive(fd);
          std::string why;
          const imported use = cache.open(PEER, ticket, std::move(fd), why);
          EXPECT_EQ(why, "");
          ASSERT_TRUE(use);
          EXPECT_EQ(use.size(), 2 * MIB);
          EXPECT_EQ(use.at(2 * MIB - 1, 2), 0u);
          EXPECT_EQ(use.at(2 * MIB, 0), use.base() + 2 * MIB);
          EXPECT_EQ(use.at(~std::uint64_t{0}, 2), 0u);
          push(here, use, bytes);
          w.tell();
        });
    mock().reset();
  }
}

TEST_F(import_test, open__again_is_a_look_up) {
  run([](wire w) { offer(w, 1); },
      [](wire w) {
        side here;
        import_cache cache(here.gpus.at(0));
        descriptor none;
        const share_ticket ticket = w.receive(none);
        std::string why;
        EXPECT_FALSE(cache.find(PEER, ticket.base, ticket.id));
        const imported first = cache.open(PEER, ticket, {}, why);
        const imported again = cache.open(PEER, ticket, {}, why);
        const imported found = cache.find(PEER, ticket.base, ticket.id);
        ASSERT_TRUE(first && again && found);
        EXPECT_EQ(first.base(), found.base());
        EXPECT_EQ(mock().count("cuIpcOpenMemHandle"), 1u);
        EXPECT_FALSE(cache.find(PEER + 1, ticket.base, ticket.id));
        w.tell();
      });
}

TEST_F(import_test, find__another_identity_drops_the_mapping_once_nobody_uses_it) {
  run([](wire w) { offer(w, 1); },
      [](wire w) {
        side here;
        import_cache cache(here.gpus.at(0));
        descriptor none;
        const share_ticket ticket = w.receive(none);
        std::string why;
        imported use = cache.open(PEER, ticket, {}, why);
        ASSERT_TRUE(use);
        identity later = ticket.id;
        ++later.buffer_id;
        const test::fail_nth_new counting(0);
        EXPECT_FALSE(cache.find(PEER, ticket.base, later));
        EXPECT_EQ(counting.count(), 0u) << "there may be no memory";
        EXPECT_EQ(mock().count("cuIpcCloseMemHandle"), 0u);  // a copy may be under way
        EXPECT_NE(mock().contents(reinterpret_cast<void*>(use.base())), nullptr);
        use = imported();
        EXPECT_EQ(mock().count("cuIpcCloseMemHandle"), 1u);
        EXPECT_EQ(cache.size(), 0u);
        // The block id alone counts too.
        use = cache.open(PEER, ticket, {}, why);
        use = imported();
        later = ticket.id;
        ++later.block_id;
        EXPECT_FALSE(cache.find(PEER, ticket.base, later));
        EXPECT_EQ(mock().count("cuIpcCloseMemHandle"), 2u);
        w.tell();
      });
}

TEST_F(import_test, limit__the_least_recently_used_goes_and_those_in_use_stay) {
  run([](wire w) { offer(w, 5); },
      [](wire w) {
        side here;
        import_cache cache(here.gpus.at(0), 2);
        descriptor none;
        std::vector<share_ticket> t;
        for (int i = 0; i < 5; ++i) t.push_back(w.receive(none));
        std::string why;
        cache.open(PEER, t[0], {}, why);
        cache.open(PEER, t[1], {}, why);
        cache.find(PEER, t[0].base, t[0].id);
        cache.open(PEER, t[2], {}, why);
        EXPECT_EQ(cache.size(), 2u);
        EXPECT_TRUE(cache.find(PEER, t[0].base, t[0].id));
        EXPECT_FALSE(cache.find(PEER, t[1].base, t[1].id));
        const imported a = cache.open(PEER, t[0], {}, why), b = cache.open(PEER, t[2], {}, why);
        const imported c = cache.open(PEER, t[3], {}, why);
        EXPECT_TRUE(a && b && c);
        EXPECT_EQ(cache.size(), 3u);  // over the limit by what is in use
        EXPECT_TRUE(cache.find(PEER, t[0].base, t[0].id));
        EXPECT_TRUE(cache.find(PEER, t[2].base, t[2].id));
        w.tell();
      });
}

// Closing waits for the GPU, and so for a stream that waits for us.
TEST_F(import_test, streams_that_wait__hold_up_closing_and_not_the_other_way_round) {
  constexpr std::size_t UNCLOSED = 1, COUNT = 1 + import_cache::PATIENCE * UNCLOSED + 4;
  run([](wire w) { offer(w, COUNT); },
      [](wire w) {
        side here;
        std::atomic<std::size_t> held{1};
        import_cache cache(here.gpus.at(0), 1, UNCLOSED, &held);
        descriptor none;
        std::string why;
        const auto open_next = [&] {
          const share_ticket next = w.receive(none);
          return static_cast<bool>(cache.open(PEER, next, {}, why));
        };
        mock().watch_blocking(true);
        for (std::size_t i = 0; i < 1 + import_cache::PATIENCE * UNCLOSED; ++i)
          EXPECT_TRUE(open_next()) << i << ": " << why;
        EXPECT_FALSE(open_next());
        EXPECT_NE(why.find("streams or kernels wait for lci"), std::string::npos) << why;
        EXPECT_FALSE(cache.may_close());
        cache.tidy();
        EXPECT_EQ(mock().count("cuIpcCloseMemHandle"), 0u);
        EXPECT_TRUE(mock().blocking_calls().empty());
        mock().watch_blocking(false);
        // The stream has gone on: two old ones are closed for each new one.
        held = 0;
        EXPECT_TRUE(open_next()) << why;
        EXPECT_EQ(mock().count("cuIpcCloseMemHandle"), 2u);
        EXPECT_TRUE(open_next()) << why;
        EXPECT_EQ(mock().count("cuIpcCloseMemHandle"), 4u);
        cache.tidy();
        EXPECT_EQ(mock().count("cuIpcCloseMemHandle"),
                  COUNT - 3);  // one stays, one was refused, one comes
        w.receive(none);
        w.tell();
      });
}

TEST_F(import_test, drop__of_one_that_is_not_used_and_with_the_peer) {
  run([](wire w) { offer(w, 3); },
      [](wire w) {
        side here;
        import_cache cache(here.gpus.at(0));
        descriptor none;
        std::string why;
        share_ticket last;
        for (int i = 0; i < 3; ++i) cache.open(PEER + i / 2, last = w.receive(none), {}, why);
        EXPECT_EQ(cache.size(), 3u);
        cache.drop_unused(PEER + 1, last.base);
        cache.drop_unused(PEER + 1, last.base);
        EXPECT_EQ(cache.size(), 2u);
        cache.drop_peer(PEER + 7);
        cache.drop_peer(PEER);
        EXPECT_EQ(cache.size(), 0u);
        EXPECT_EQ(mock().count("cuIpcCloseMemHandle"), 3u);
        w.tell();
      });
}

TEST_F(import_test, peer_killed_while_mapped__the_mapping_works_and_goes) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  descriptor theirs(ends[0]);
  const descriptor mine(ends[1]);
  const pid_t child = fork();
  if (child == 0) {
    offer(wire(theirs.get()), 1);
    _exit(0);
  }
  theirs.reset();
  side here;
  import_cache cache(here.gpus.at(0));
  descriptor none;
  std::string why;
  const share_ticket ticket = wire(mine.get()).receive(none);
  imported use = cache.open(PEER, ticket, {}, why);
  ASSERT_TRUE(use);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  push(here, use, some_bytes(4096, 1));
  use = imported();
  cache.drop_peer(PEER);
  EXPECT_EQ(cache.size(), 0u);
  EXPECT_FALSE(cache.open(PEER, ticket, {}, why));  // it cannot be had again
  EXPECT_NE(why.find("cuIpcOpenMemHandle failed on memory of rank 3"), std::string::npos) << why;
}

TEST_F(import_test, open__each_failing_call_is_a_sentence_and_leaves_nothing) {
  run(
      [](wire w) {
        side here;
        w.send(here.share(mock().allocate(test::mock_memory::device, MIB)));
        void* const mapped = mock().allocate(test::mock_memory::vmm, 2 * MIB);
        for (int i = 0; i < 7; ++i) w.send(here.share(mapped));
        w.wait();
      },
      [](wire w) {
        side here;
        import_cache cache(here.gpus.at(0));
        std::string why;
        descriptor none;
        const share_ticket legacy = w.receive(none);
        const auto expect_failure = [&](const char* call, const share_ticket& t, descriptor fd) {
          mock().fail_nth(call, 1, abi::result::out_of_memory);
          EXPECT_FALSE(cache.open(PEER, t, std::move(fd), why));
          EXPECT_EQ(why.find(call), 0u) << why;
          EXPECT_EQ(cache.size(), 0u);
          // Only the context of the gpu remains.
          EXPECT_EQ(mock().leaks().size(), 1u) << call << ": " << mock().leaks().back();
        };
        here.gpus.at(0).context();
        for (const char* call : {"cuIpcOpenMemHandle", "cuCtxPushCurrent"})
          expect_failure(call, legacy, {});
        for (const char* call : {"cuMemGetAllocationGranularity", "cuMemImportFromShareableHandle",
                                 "cuMemAddressReserve", "cuMemMap", "cuMemSetAccess"}) {
          descriptor fd;
          const share_ticket t = w.receive(fd);
          ASSERT_TRUE(fd);
          expect_failure(call, t, std::move(fd));
        }
        descriptor fd;
        share_ticket t = w.receive(fd);
        EXPECT_FALSE(cache.open(PEER, t, {}, why));  // the descriptor did not come
        t.size = ~std::size_t{0} - 5;                // a peer's number
        EXPECT_FALSE(cache.open(PEER, t, std::move(fd), why));
        descriptor good;
        t = w.receive(good);
        EXPECT_TRUE(cache.open(PEER, t, std::move(good), why)) << why;
        w.tell();
      });
}

TEST_F(import_test, open__want_of_host_memory_leaves_no_mapping) {
  run([](wire w) { offer(w, 2); },
      [](wire w) {
        side here;
        import_cache cache(here.gpus.at(0));
        descriptor none;
        std::string why;
        const imported first = cache.open(PEER, w.receive(none), {}, why);  // with the context
        EXPECT_TRUE(first) << why;
        const share_ticket ticket = w.receive(none);
        mock().forget_counts();
        mock().call_around(&test::pause_failing_new, &test::resume_failing_new);
        test::for_each_allocation([&](std::uint64_t n) {
          bool has_fired = false;
          {
            const test::fail_nth_new failing(n);
            try {
              cache.open(PEER, ticket, {}, why);
            } catch (const std::bad_alloc&) {
            }
            has_fired = failing.fired();
          }
          cache.drop_unused(PEER, ticket.base);
          EXPECT_EQ(mock().count("cuIpcOpenMemHandle"), mock().count("cuIpcCloseMemHandle"));
          return has_fired;
        });
        w.tell();
      });
}

TEST_F(import_test, own_handle__is_refused_by_the_driver_and_told) {
  side here;
  import_cache cache(here.gpus.at(0));
  std::string why;
  const exported out = here.share(mock().allocate(test::mock_memory::device, MIB));
  EXPECT_FALSE(cache.open(0, out.ticket, {}, why));
  EXPECT_NE(why.find("invalid device context"), std::string::npos) << why;
}

}  // namespace
}  // namespace lci::cuda::importing
