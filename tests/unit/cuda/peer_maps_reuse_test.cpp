// Memory that its owner frees and uses again, or whose owner has ended, and records that say so
// late.
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "tests/unit/cuda/peer_fixture.hpp"

namespace lci::cuda {
namespace {

class peer_maps_reuse_test : public two_processes {};

TEST_F(peer_maps_reuse_test, map__freed_and_used_again_is_other_memory) {
  run_both(
      [](int fd) {
        owner_side here(fd);
        void* const first = here.offer(test::mock_memory::device);
        wait(fd);
        mock().free(first);
        EXPECT_EQ(here.offer(test::mock_memory::device), first);
        wait(fd);
        mock().reset();
      },
      [&](int fd) {
        user_side here(fd, child_);
        const mem::peer_range before = here.receive();
        EXPECT_TRUE(here.map(before));
        tell(fd);
        const mem::peer_range after = here.receive();
        // What was mapped under that name is what it was, freed or not, until the new one is used.
        EXPECT_TRUE(here.map(before)) << here.why;
        EXPECT_TRUE(here.map(after)) << here.why;
        EXPECT_FALSE(here.map(before)) << "the record speaks of other memory";
        EXPECT_EQ(mock().count("cuIpcOpenMemHandle"), 2u);
        EXPECT_EQ(mock().count("cuIpcCloseMemHandle"), 0u) << "it would wait for the GPU";
        here.acc.tidy();
        EXPECT_EQ(mock().count("cuIpcCloseMemHandle"), 1u);
        tell(fd);
      });
}

TEST_F(peer_maps_reuse_test, map__freed_and_used_again_at_an_overlapping_address) {
  constexpr int ROUNDS = 20;
  constexpr std::size_t SIZE = MIB + 3 * 4096, STEP = 5 * 4096;
  run_both(
      [](int fd) {
        owner_side here(fd);
        void* memory = nullptr;
        for (std::size_t i = 0; i < ROUNDS; ++i) {
          // Each ends where the one before ended, and begins later.
          void* const before = memory;
          memory = here.offer(test::mock_memory::device, SIZE - i * STEP);
          ASSERT_TRUE(i == 0 || memory == static_cast<std::byte*>(before) + STEP);
          wait(fd);
          mock().free(memory);
        }
        mock().reset();
      },
      [&](int fd) {
        user_side here(fd, child_);
        for (int i = 0; i < ROUNDS; ++i) {
          EXPECT_TRUE(here.map(here.receive())) << "round " << i << ": " << here.why;
          tell(fd);
        }
      });
}

// Shares two allocations, and then memory at some of the addresses of the second, which is freed.
void share_what_overlaps(int fd) {
  constexpr std::size_t WHOLE = 2 * MIB + 4096, PART = MIB + 3 * 4096;
  owner_side here(fd);
  here.offer(test::mock_memory::device, MIB);
  void* const whole = here.offer(test::mock_memory::device, WHOLE);
  wait(fd);
  mock().free(whole);
  void* const part = here.offer(test::mock_memory::device, PART);
  ASSERT_EQ(part, static_cast<std::byte*>(whole) + (WHOLE - PART));
  wait(fd);
  mock().reset();
}

// The driver has one address space for all GPUs of a process: what one of ours has mapped of freed
// memory is in the way of another one's mapping.
TEST_F(peer_maps_reuse_test, map__overlapped_by_what_another_gpu_of_ours_has_mapped) {
  for (const bool is_in_use : {false, true}) {
    run_both(&share_what_overlaps, [&](int fd) {
      user_side here(fd, child_);
      EXPECT_TRUE(here.map(here.receive(), 0)) << here.why;
      mem::mapped_memory old = here.map(here.receive(), 0);
      ASSERT_TRUE(old) << here.why;
      if (!is_in_use) old = {};
      tell(fd);
      const mem::peer_range part = here.receive();
      if (is_in_use) {
        EXPECT_FALSE(here.map(part, 1));
        EXPECT_TRUE(here.says("cuIpcOpenMemHandle failed on memory of rank 3")) << here.why;
        EXPECT_TRUE(here.says("is still in use")) << here.why;
        old = {};  // what was refused meanwhile is not remembered
      }
      EXPECT_TRUE(here.map(part, 1)) << here.why;
      if (!is_in_use) {
        EXPECT_EQ(mock().count("cuIpcCloseMemHandle"), 1u) << "what is no obstacle stays";
      }
      tell(fd);
    });
    mock().reset();
  }
}

// To close what is in the way would wait for kernels, and they wait for us.
TEST_F(peer_maps_reuse_test, map__overlapped_while_kernels_may_wait__closes_nothing) {
  run_both(&share_what_overlaps, [&](int fd) {
    user_side here(fd, child_);
    EXPECT_TRUE(here.map(here.receive())) << here.why;
    EXPECT_TRUE(here.map(here.receive())) << here.why;
    here.acc.hold(1);
    tell(fd);
    const mem::peer_range part = here.receive();
    EXPECT_FALSE(here.map(part));
    EXPECT_TRUE(here.says("is still in use")) << here.why;
    here.acc.tidy();
    EXPECT_EQ(mock().count("cuIpcCloseMemHandle"), 0u);
    here.acc.hold(-1);
    EXPECT_TRUE(here.map(part)) << "the refusal was kept: " << here.why;
    EXPECT_EQ(mock().count("cuIpcCloseMemHandle"), 1u) << "what is no obstacle stays";
    tell(fd);
  });
}

TEST_F(peer_maps_reuse_test, map__record_that_was_rewritten_for_other_memory) {
  run_both(
      [](int fd) {
        accelerator_options few;
        few.records = 1;
        owner_side here(fd, few);
        here.offer(test::mock_memory::vmm);
        here.offer(test::mock_memory::vmm);
        wait(fd);
      },
      [&](int fd) {
        user_side here(fd, child_);
        const mem::peer_range first = here.receive(), second = here.receive();
        EXPECT_EQ(first.record, second.record);
        EXPECT_FALSE(here.map(first));
        EXPECT_TRUE(here.says("was written anew")) << here.why;
        EXPECT_TRUE(here.map(second)) << here.why;
        tell(fd);
      });
}

// While the descriptor is fetched the owner needs the record for something else.
std::byte* rewritten = nullptr;

TEST_F(peer_maps_reuse_test, map__record_rewritten_while_the_descriptor_is_fetched) {
  run_both(&offer_one_of_each, [&](int fd) {
    accelerator_options options;
    options.calls.fetch = [](int process, int number) {
      *rewritten ^= std::byte{1};
      return system_descriptor_calls().fetch(process, number);
    };
    user_side here(fd, child_, options);
    here.receive();
    const mem::peer_range what = here.receive();
    rewritten = here.record_of(what) + 30;
    EXPECT_FALSE(here.map(what));
    EXPECT_TRUE(here.says("written anew meanwhile")) << here.why;
    EXPECT_EQ(mock().count("cuMemImportFromShareableHandle"), 0u);
    *rewritten ^= std::byte{1};
    rewritten = here.view + user_side::SEEN - 1;  // something else
    EXPECT_TRUE(here.map(what)) << "that was no property of the memory: " << here.why;
    tell(fd);
  });
}

// Its memory may be another's later: nothing of it is remembered.
TEST_F(peer_maps_reuse_test, map__of_a_process_that_ends_or_has_ended_says_so) {
  run_both(&offer_one_of_each, [&](int fd) {
    static int fetches;
    fetches = 0;
    accelerator_options ending;
    ending.calls.open_process = system_descriptor_calls().open_process;
    ending.calls.fetch = [](int, int) {
      ++fetches;
      errno = ESRCH;
      return -1;
    };
    const pid_t dead = fork();
    if (dead == 0) _exit(0);
    siginfo_t info;
    ASSERT_EQ(waitid(P_PID, static_cast<id_t>(dead), &info, WEXITED | WNOWAIT), 0);
    user_side here(fd, child_);
    mem::peer_range legacy = here.receive();
    mem::peer_range vmm = here.receive();
    std::string why;
    accelerator late(here.d, here.pointers, here.arena, ending);
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(late.map(vmm, 0, why).has_owner_ended()) << why;
    EXPECT_EQ(fetches, 2);
    // An IPC handle that the driver does not know: the process lives, has ended, was waited for.
    legacy = here.forge(legacy, [](share_record& r) {
      r.ticket.handle = {};
      ++r.ticket.id.buffer_id;
    });
    const mem::mapped_memory none = here.map(legacy);
    EXPECT_FALSE(none || none.has_owner_ended());
    here.acc.forget(PEER);
    legacy.pid = dead;
    EXPECT_TRUE(here.map(legacy).has_owner_ended()) << here.why;
    waitpid(dead, nullptr, 0);
    EXPECT_TRUE(here.map(legacy).has_owner_ended()) << here.why;
    tell(fd);
  });
}

}  // namespace
}  // namespace lci::cuda
