#include "backends/cuda/staging.hpp"

#include "backends/cuda/pointer.hpp"
#include "lci/errors.hpp"
#include "tests/unit/cuda/fixture.hpp"

namespace lci::cuda {
namespace {

constexpr std::size_t KIB = 1024, MIB = 1024 * KIB;

struct recorder final : copy_completion {
  void on_copied(const failure& error) noexcept override {
    last = error;
    ++calls;
  }
  int calls = 0;
  failure last;
};

// The host's end: takes or gives pieces, and sometimes has no time.
struct host_end {
  std::vector<std::byte> bytes;
  std::size_t expected = 0;  // offset of the next piece
  int refuse = 0;            // so many calls answer "not now"
  int calls = 0, largest_gap = 0;
  bool in_order = true;

  static bool take(void* arg, std::size_t offset, std::byte* piece, std::size_t size) noexcept {
    auto& self = *static_cast<host_end*>(arg);
    if (!self.ready(offset)) return false;
    std::memcpy(self.bytes.data() + offset, piece, size);
    self.expected = offset + size;
    return true;
  }
  static bool give(void* arg, std::size_t offset, std::byte* piece, std::size_t size) noexcept {
    auto& self = *static_cast<host_end*>(arg);
    if (!self.ready(offset)) return false;
    std::memcpy(piece, self.bytes.data() + offset, size);
    self.expected = offset + size;
    return true;
  }
  bool ready(std::size_t offset) {
    ++calls;
    in_order = in_order && offset == expected;
    if (refuse == 0) return true;
    --refuse;
    return false;
  }
};

class staging_test : public cuda_test {
 protected:
  gpu_list gpus_{driver_};
  copier copier_{gpus_.at(0)};
  staging_pool pool_{gpus_.at(0), 2, 256 * KIB};
  recorder done_;

  staged_transfer::request out_of(void* memory, std::size_t size, host_end& end) {
    return {direction::to_host, as_device(memory), size, &host_end::take, &end, &done_};
  }
  staged_transfer::request into(void* memory, std::size_t size, host_end& end) {
    return {direction::to_gpu, as_device(memory), size, &host_end::give, &end, &done_};
  }
  bool run(staged_transfer& transfer, int rounds = 100000) {
    for (int i = 0; i < rounds; ++i) {
      if (transfer.step()) return true;
      mock().advance(1);
      copier_.poll();
    }
    return false;
  }
};

TEST_F(staging_test, out_and_in__all_sizes) {
  for (const std::size_t size : {std::size_t{1}, 4 * KIB, 256 * KIB - 1, 256 * KIB, 256 * KIB + 1,
                                 512 * KIB, MIB + 3, 3 * MIB}) {
    void* const memory = gpu_memory(size);
    const auto bytes = pattern(size, static_cast<unsigned>(size));
    host_end source{bytes}, sink{std::vector<std::byte>(size)};
    source.refuse = sink.refuse = 3;  // under pressure now and then
    done_.calls = 0;
    staged_transfer in(copier_, pool_, into(memory, size, source));
    ASSERT_TRUE(run(in)) << size;
    EXPECT_EQ(read(memory, size), bytes) << size;
    staged_transfer out(copier_, pool_, out_of(memory, size, sink));
    ASSERT_TRUE(run(out)) << size;
    EXPECT_EQ(sink.bytes, bytes) << size;
    EXPECT_TRUE(source.in_order && sink.in_order);
    EXPECT_EQ(done_.calls, 2);
    EXPECT_TRUE(out.step());  // stays ended, and says so once
    EXPECT_EQ(done_.calls, 2);
    mock().free(memory);
  }
}

TEST_F(staging_test, size_0__ends_at_once_and_pins_nothing) {
  host_end end;
  staged_transfer out(copier_, pool_, out_of(nullptr, 0, end));
  EXPECT_TRUE(out.step());
  EXPECT_EQ(done_.calls, 1);
  EXPECT_EQ(end.calls, 0);
  EXPECT_EQ(mock().count("cuMemHostAlloc"), 1u);  // the copier's own
}

TEST_F(staging_test, out__two_copies_are_under_way) {
  void* const memory = gpu_memory(MIB);
  host_end sink{std::vector<std::byte>(MIB)};
  staged_transfer out(copier_, pool_, out_of(memory, MIB, sink));
  EXPECT_FALSE(out.step());
  EXPECT_EQ(mock().queued_bytes(), 512 * KIB);
  ASSERT_TRUE(run(out));
}

TEST_F(staging_test, in__one_is_filled_while_the_other_is_copied) {
  void* const memory = gpu_memory(MIB);
  host_end source{pattern(MIB, 1)};
  staged_transfer in(copier_, pool_, into(memory, MIB, source));
  EXPECT_FALSE(in.step());
  EXPECT_EQ(source.calls, 2);
  EXPECT_EQ(mock().queued_bytes(), 512 * KIB);
  ASSERT_TRUE(run(in));
}

TEST_F(staging_test, host_that_never_takes__holds_up_nothing_else) {
  void* const memory = gpu_memory(MIB);
  host_end stuck{std::vector<std::byte>(MIB)}, sink{std::vector<std::byte>(MIB)};
  stuck.refuse = 1000000;
  staged_transfer slow(copier_, pool_, out_of(memory, MIB, stuck));
  staged_transfer fast(copier_, pool_, out_of(memory, MIB, sink));
  EXPECT_FALSE(run(slow, 100));
  EXPECT_TRUE(run(fast));
  stuck.refuse = 0;
  EXPECT_TRUE(run(slow));
}

TEST_F(staging_test, pool_in_use__the_transfer_waits_for_a_pair) {
  void* const memory = gpu_memory(MIB);
  auto first = pool_.take(), second = pool_.take();
  EXPECT_EQ(pool_.take(), nullptr);
  host_end sink{std::vector<std::byte>(MIB)};
  staged_transfer out(copier_, pool_, out_of(memory, MIB, sink));
  EXPECT_FALSE(run(out, 100));
  pool_.give(std::move(second));
  EXPECT_TRUE(run(out));
  EXPECT_EQ(mock().count("cuMemHostAlloc"), 3u);  // the pair went back and is used again
  pool_.give(std::move(first));
}

TEST_F(staging_test, pool__no_memory_at_all_is_an_error) {
  mock().fail_nth("cuMemHostAlloc", 1, abi::result::out_of_memory);
  host_end sink{std::vector<std::byte>(MIB)};
  staged_transfer out(copier_, pool_, out_of(gpu_memory(MIB), MIB, sink));
  EXPECT_TRUE(run(out));
  EXPECT_EQ(done_.last.kind(), fault::no_memory);
  EXPECT_STREQ(done_.last.call, "cuMemHostAlloc");
}

TEST_F(staging_test, pool__no_memory_for_a_second_pair_waits_for_the_first) {
  auto first = pool_.take();
  mock().fail_nth("cuMemHostAlloc", 1, abi::result::out_of_memory);
  EXPECT_EQ(pool_.take(), nullptr);
  pool_.give(std::move(first));
}

TEST_F(staging_test, gpu_error__ends_the_transfer_once_and_gives_the_pair_back) {
  for (const bool outward : {true, false}) {
    mock().fail_nth("cuMemcpyAsync", 3, abi::result::launch_failed);
    void* const memory = gpu_memory(2 * MIB);
    host_end end{std::vector<std::byte>(2 * MIB)};
    done_.calls = 0;
    staged_transfer one(copier_, pool_,
                        outward ? out_of(memory, 2 * MIB, end) : into(memory, 2 * MIB, end));
    EXPECT_TRUE(run(one));
    EXPECT_EQ(done_.calls, 1);
    EXPECT_EQ(done_.last.kind(), fault::broken);
    EXPECT_EQ(mock().queued_operations(), 0u);  // nothing of it touches the buffers any more
  }
  EXPECT_NE(pool_.take(), nullptr);
}

TEST_F(staging_test, gpu_error_later__arrives_through_the_copy) {
  for (const bool outward : {true, false}) {
    void* const memory = gpu_memory(2 * MIB);
    host_end end{std::vector<std::byte>(2 * MIB)};
    copier own(gpus_.at(0));
    done_.calls = 0;
    staged_transfer one(own, pool_,
                        outward ? out_of(memory, 2 * MIB, end) : into(memory, 2 * MIB, end));
    EXPECT_FALSE(one.step());
    mock().break_next_operation(abi::result::illegal_address);
    bool ended = false;
    for (int i = 0; i < 100000 && !ended; ++i) {
      mock().advance(1);
      own.poll();
      ended = one.step();
    }
    EXPECT_TRUE(ended);
    EXPECT_EQ(done_.calls, 1);
    EXPECT_EQ(done_.last.kind(), fault::broken);
  }
}

}  // namespace
}  // namespace lci::cuda
