// What protocols ask of an accelerator, on a real GPU: jobs, words, records and mappings between
// two processes, pinned memory. What a job costs is printed.
#include "backends/cuda/accelerator.hpp"

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <deque>
#include <string>

#include "tests/accelerator/real_gpu.hpp"
#include "tests/accelerator/start_again.hpp"
#include "tests/support/descriptor_passing.hpp"
#include "tests/support/sizes.hpp"

namespace lci::cuda {
namespace {

using kind = real_gpu::kind;
using lci::test::KIB, lci::test::MIB;
using mem::copy_way;

struct told_job final : mem::copy_job {
  void on_copied(std::string_view why) noexcept override {
    error = why;
    ++calls;
  }
  std::string error;
  int calls = 0;
};

struct one_process {
  pointer_cache pointers{real_gpu::get().d};
  mem::arena arena{64 * MIB};
  accelerator acc{real_gpu::get().d, pointers, arena};

  void copy(told_job& job, copy_way way, void* to, const void* from, std::size_t size) {
    job.to = static_cast<std::byte*>(to);
    job.from = static_cast<const std::byte*>(from);
    job.size = size;
    job.way = way;
    acc.copy(job);
  }
  void finish(std::size_t jobs) {
    while (jobs > 0) jobs -= acc.poll();
  }
  void expect_copied(copy_way way, void* to, const void* from, std::size_t size) {
    told_job job;
    copy(job, way, to, from, size);
    finish(1);
    EXPECT_EQ(job.calls, 1);
    EXPECT_EQ(job.error, "");
  }
};

TEST(jobs, every_way_and_kind) {
  real_gpu& g = real_gpu::get();
  one_process here;
  for (const kind what : {kind::device, kind::pool, kind::vmm}) {
    for (const std::size_t size : {std::size_t{4}, std::size_t{8}, 5 * KIB, 3 * MIB + 17}) {
      const std::size_t rounded = what == kind::vmm ? 4 * MIB : size;
      void* const a = g.allocate(what, rounded);
      void* const b = g.allocate(what, rounded);
      const auto in = real_gpu::pattern(size, static_cast<unsigned>(size));
      std::vector<std::byte> out(size);
      here.expect_copied(copy_way::to_device, a, in.data(), size);
      here.expect_copied(copy_way::to_peer, b, a, size);
      here.expect_copied(copy_way::to_host, out.data(), b, size);
      EXPECT_EQ(out, in) << size;
      g.free(what, a, rounded);
      g.free(what, b, rounded);
    }
  }
}

TEST(jobs, many_of_them) {
  real_gpu& g = real_gpu::get();
  one_process here;
  constexpr std::size_t JOBS = 1000;
  void* const a = g.allocate(kind::device, MIB);
  for (const std::size_t size : {std::size_t{8}, std::size_t{256}}) {
    const auto in = real_gpu::pattern(JOBS * size, 7);
    std::deque<told_job> jobs(JOBS);
    const auto start = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < JOBS; ++i)
      here.copy(jobs[i], copy_way::to_device, static_cast<std::byte*>(a) + i * size,
                in.data() + i * size, size);
    here.finish(JOBS);
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    std::printf("%zu jobs of %zu bytes: %.2f us each\n", JOBS, size, took.count() / JOBS);
    for (const told_job& job : jobs) {
      EXPECT_EQ(job.calls, 1);
      EXPECT_EQ(job.error, "");
    }
    std::vector<std::byte> out(in.size());
    here.expect_copied(copy_way::to_host, out.data(), a, out.size());
    EXPECT_EQ(out, in);
  }
  g.free(kind::device, a, MIB);
}

TEST(jobs, one_at_a_time) {
  real_gpu& g = real_gpu::get();
  one_process here;
  void* const a = g.allocate(kind::device, 64 * KIB);
  void* const host = g.allocate(kind::pinned, 64 * KIB);
  for (const std::size_t size : {std::size_t{8}, std::size_t{9}, 4 * KIB, 64 * KIB}) {
    constexpr int ROUNDS = 200;
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < ROUNDS; ++i) here.expect_copied(copy_way::to_device, a, host, size);
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    std::printf("%zu bytes to the GPU: %.2f us\n", size, took.count() / ROUNDS);
  }
  g.free(kind::device, a, 0);
  g.free(kind::pinned, host, 0);
}

TEST(pin, host_memory_is_known_to_the_driver) {
  one_process here;
  std::vector<std::byte> memory(MIB);
  EXPECT_EQ(here.acc.pin(memory.data(), memory.size()), "");
  EXPECT_EQ(here.pointers.find(memory.data() + 100).what.kind, allocation_kind::pinned);
  EXPECT_EQ(here.acc.pin(memory.data(), memory.size()), "") << "again";
  here.acc.unpin(memory.data());
  EXPECT_EQ(here.pointers.find(memory.data() + 100).what.kind, allocation_kind::host);
}

TEST(share, kinds_that_cannot_be_shared_are_named) {
  real_gpu& g = real_gpu::get();
  one_process here;
  std::string why;
  for (const auto& [what, name] :
       {std::pair{kind::pool, "stream-ordered"}, std::pair{kind::managed, "managed"},
        std::pair{kind::pinned, "pinned host"}}) {
    void* const memory = g.allocate(what, 2 * MIB);
    EXPECT_EQ(here.acc.share(memory, 8, why).record, 0u);
    EXPECT_NE(why.find(name), std::string::npos) << why;
    g.free(what, memory, 2 * MIB);
  }
}

struct offered {
  mem::share_place place;
  std::uint64_t address = 0;
};
constexpr kind SHARED[] = {kind::device, kind::vmm};
constexpr std::size_t AHEAD = MIB, SHARED_BYTES = 4 * MIB;

TEST(record_owner, DISABLED_offers_memory) {
  real_gpu& g = real_gpu::get();
  one_process here;
  const std::byte one{};
  ASSERT_TRUE(test::send_with_descriptor(3, std::span(&one, 1), here.arena.fd()));
  for (const kind made : SHARED) {
    void* const memory = g.allocate(made, SHARED_BYTES);
    std::string why;
    const offered out{here.acc.share(memory, SHARED_BYTES, why), as_device(memory)};
    EXPECT_NE(out.place.record, 0u) << why;
    ASSERT_EQ(write(3, &out, sizeof(out)), static_cast<ssize_t>(sizeof(out)));
    char c = 0;
    ASSERT_EQ(read(3, &c, 1), 1);
    EXPECT_EQ(g.read(static_cast<std::byte*>(memory) + AHEAD, MIB), real_gpu::pattern(MIB, 23));
    g.free(made, memory, SHARED_BYTES);
  }
}

TEST(map, both_ways_between_two_processes) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const pid_t child = start_again("record_owner.*", ends[0]);
  close(ends[0]);
  one_process here;
  std::byte one{};
  int file = -1;
  ASSERT_TRUE(test::receive_with_descriptor(ends[1], std::span(&one, 1), file));
  void* const view = mmap(nullptr, MIB, PROT_READ, MAP_SHARED, file, 0);
  ASSERT_NE(view, MAP_FAILED);
  close(file);
  const auto bytes = real_gpu::pattern(MIB, 23);
  for (std::size_t i = 0; i < std::size(SHARED); ++i) {
    offered what;
    ASSERT_EQ(read(ends[1], &what, sizeof(what)), static_cast<ssize_t>(sizeof(what)));
    const mem::peer_range range{1,
                                child,
                                static_cast<std::byte*>(view) + what.place.record,
                                what.place.check,
                                what.address + AHEAD,
                                MIB};
    std::string why;
    {
      const mem::mapped_memory first = here.acc.map(range, 0, why);
      ASSERT_TRUE(first) << why;
      const mem::mapped_memory again = here.acc.map(range, 0, why);
      EXPECT_EQ(first.at(), again.at());
      here.expect_copied(copy_way::to_device, first.at(), bytes.data(), bytes.size());
      // A word too, which the stream writes.
      here.expect_copied(copy_way::to_device, first.at() + 64, bytes.data() + 64, 8);
    }
    if (SHARED[i] == kind::vmm) here.acc.forget(1);
    ASSERT_EQ(write(ends[1], "x", 1), 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  munmap(view, MIB);
  close(ends[1]);
}

}  // namespace
}  // namespace lci::cuda
