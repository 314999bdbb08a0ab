#include "backends/cuda/copier.hpp"

#include <algorithm>
#include <thread>

#include "lci/errors.hpp"
#include "tests/unit/cuda/copier_fixture.hpp"

namespace lci::cuda {
namespace {

TEST_F(copier_test, post__every_direction_and_size) {
  for (const std::size_t size :
       {std::size_t{1}, std::size_t{8}, 4 * KIB, 64 * KIB, 64 * KIB + 1, MIB, 3 * MIB + 17}) {
    void* const a = gpu_memory(size, 0);
    void* const b = gpu_memory(size, 1);
    std::vector<std::byte> out(size), in = pattern(size, static_cast<unsigned>(size));
    for (const auto& [way, to, from] :
         {std::tuple{direction::to_gpu, a, static_cast<void*>(in.data())},
          std::tuple{direction::to_peer, b, a},
          std::tuple{direction::to_host, static_cast<void*>(out.data()), b}}) {
      ASSERT_EQ(post(way, to, from, size).code, errorcode_t::posted);
      EXPECT_EQ(done_.calls, 0);
      finish();
      expect_ended_with(fault::none);
      done_.calls = 0;
    }
    EXPECT_EQ(out, in) << size;
    mock().free(a);
    mock().free(b);
  }
  EXPECT_EQ(mock().context_depth(), 0u);
}

TEST_F(copier_test, post__one_wrong_byte_would_be_seen) {
  void* const a = gpu_memory(4 * KIB);
  std::vector<std::byte> out(4 * KIB), in = pattern(4 * KIB, 1);
  post(direction::to_gpu, a, in.data(), in.size());
  finish();
  mock().contents(a)[1234] ^= std::byte{1};
  post(direction::to_host, out.data(), a, out.size());
  finish();
  EXPECT_NE(out, in);
}

TEST_F(copier_test, post__nothing_is_complete_before_the_gpu_has_run) {
  void* const a = gpu_memory(4 * KIB);
  const auto in = pattern(4 * KIB, 2);
  post(direction::to_gpu, a, in.data(), in.size());
  for (int i = 0; i < 5000; ++i) ASSERT_EQ(copier_->poll(), 0u);  // examinations included
  EXPECT_EQ(done_.calls, 0);
  finish();
  expect_ended_with(fault::none);
}

TEST_F(copier_test, post__size_0_is_done_and_calls_nobody) {
  EXPECT_EQ(post(direction::to_gpu, nullptr, nullptr, 0).code, errorcode_t::done);
  EXPECT_EQ(copier_->post(direction::to_gpu, {}, {}, &done_).code, errorcode_t::done);
  EXPECT_TRUE(copier_->is_idle());
  EXPECT_EQ(done_.calls, 0);
}

TEST_F(copier_test, post__flag_alone_and_behind_the_copies) {
  auto* const flags =
      static_cast<std::atomic<std::uint64_t>*>(mock().allocate(mocked::pinned, 4 * KIB));
  void* const a = gpu_memory(4 * KIB);
  const auto in = pattern(4 * KIB, 3);
  flags->store(0);
  ASSERT_EQ(copier_->post(direction::to_gpu, {}, {as_device(flags), 5, 8}, &done_).code,
            errorcode_t::posted);
  finish();
  EXPECT_EQ(flags->load(), 5u);
  post(direction::to_gpu, a, in.data(), in.size(), {as_device(flags), 6, 4});
  for (int i = 0; i < 10 && flags->load() != 6; ++i) mock().advance(1);
  EXPECT_EQ(flags->load(), 6u);
  EXPECT_EQ(read(a, in.size()), in);  // without another poll here
  finish();
  EXPECT_EQ(done_.calls, 2);
}

TEST_F(copier_test, post__flag_of_bulk_comes_behind_its_last_chunk) {
  auto* const flag =
      static_cast<std::atomic<std::uint64_t>*>(mock().allocate(mocked::pinned, 4 * KIB));
  void* const a = gpu_memory(3 * MIB);
  const auto in = pattern(3 * MIB, 4);
  flag->store(0);
  post(direction::to_gpu, a, in.data(), in.size(), {as_device(flag), 1, 8});
  EXPECT_NE(read(a, in.size()), in);
  while (flag->load() == 0) {
    if (mock().advance(1) == 0) copier_->poll();
  }
  EXPECT_EQ(read(a, in.size()), in);
  finish();
}

TEST_F(copier_test, post__wrong_requests_are_refused_and_nothing_is_begun) {
  void* const a = gpu_memory(4 * KIB);
  EXPECT_EQ(post(direction::to_gpu, a, a, 8, {as_device(a), 1, 3}).code, errorcode_t::fatal);
  EXPECT_EQ(post(direction::to_gpu, a, a, 8, {as_device(a) + 4, 1, 8}).code, errorcode_t::fatal);
  const std::vector<copy> many(lane::BATCH + 1, copy{as_device(a), as_device(a), 1});
  const copy_answer answer = copier_->post(direction::to_gpu, many, {}, &done_);
  EXPECT_EQ(answer.code, errorcode_t::fatal);
  EXPECT_EQ(answer.error.kind(), fault::refused);
  const std::vector<copy> large(2, copy{as_device(a), as_device(a), 64 * KIB});
  EXPECT_EQ(copier_->post(direction::to_gpu, large, {}, &done_).code, errorcode_t::fatal);
  EXPECT_TRUE(copier_->is_idle());
  EXPECT_EQ(mock().queued_operations(), 0u);
}

TEST_F(copier_test, post__batch_is_one_call_and_one_mark) {
  void* const a = gpu_memory(64 * KIB);
  const auto in = pattern(64 * KIB, 5);
  std::vector<copy> copies;
  for (std::size_t i = 0; i < 64; ++i)
    copies.push_back({as_device(a) + i * KIB, as_device(in.data()) + i * KIB, KIB});
  mock().forget_counts();
  ASSERT_EQ(copier_->post(direction::to_gpu, copies, {}, &done_).code, errorcode_t::posted);
  EXPECT_EQ(mock().count("cuMemcpyBatchAsync"), 1u);
  EXPECT_EQ(mock().count("cuMemcpyAsync"), 0u);
  EXPECT_EQ(mock().count("cuStreamWriteValue64"), 1u);
  finish();
  EXPECT_EQ(read(a, in.size()), in);
  expect_ended_with(fault::none);
}

TEST_F(copier_test, post_stores__words_and_mark_are_one_call) {
  auto* const a = static_cast<std::byte*>(gpu_memory(4 * KIB));
  fill(a, std::vector<std::byte>(64));
  const std::array<flag_write, 2> stores{flag_write{as_device(a) + 8, 0x1122334455667788, 8},
                                         flag_write{as_device(a) + 20, 0x99aabbcc, 4}};
  mock().forget_counts();
  ASSERT_EQ(copier_->post_stores(direction::to_gpu, stores, &done_).code, errorcode_t::posted);
  EXPECT_EQ(mock().count("cuStreamBatchMemOp"), 1u);
  EXPECT_EQ(mock().queued_operations(), 3u);
  finish();
  expect_ended_with(fault::none);
  std::uint64_t wide = 0;
  std::uint32_t narrow = 0;
  std::memcpy(&wide, mock().contents(a + 8), 8);
  std::memcpy(&narrow, mock().contents(a + 20), 4);
  EXPECT_EQ(wide, stores[0].value);
  EXPECT_EQ(narrow, stores[1].value);
  while (copier_->post_stores(direction::to_gpu, stores, &done_).code == errorcode_t::posted)
    continue;
  EXPECT_EQ(copier_->post_stores(direction::to_gpu, stores, &done_).code, errorcode_t::retry_nomem);
  finish();
}

TEST_F(copier_test, post_stores__wrong_requests_are_refused_and_nothing_is_begun) {
  void* const a = gpu_memory(4 * KIB);
  const flag_write good{as_device(a), 1, 8};
  for (const auto& bad :
       {std::vector<flag_write>{}, std::vector(lane::STORES + 1, good),
        std::vector{good, flag_write{as_device(a) + 4, 1, 8}},
        std::vector{flag_write{as_device(a), 1, 2}}, std::vector{flag_write{as_device(a), 1, 0}}}) {
    EXPECT_EQ(copier_->post_stores(direction::to_gpu, bad, &done_).code, errorcode_t::fatal);
  }
  mock().fail_nth("cuStreamBatchMemOp", 1, abi::result::not_supported);
  EXPECT_EQ(copier_->post_stores(direction::to_gpu, std::span(&good, 1), &done_).error.kind(),
            fault::refused);
  mock().fail_nth("cuCtxPushCurrent", 1, abi::result::invalid_context);
  EXPECT_EQ(copier_->post_stores(direction::to_gpu, std::span(&good, 1), &done_).code,
            errorcode_t::fatal);
  EXPECT_TRUE(copier_->is_idle());
  EXPECT_EQ(mock().queued_operations(), 0u);
  EXPECT_EQ(done_.calls, 0);
}

TEST_F(copier_test, post__small_ones_never_wait_for_bulk_not_yet_begun) {
  limits_.busy_chunk = limits_.quiet_chunk = 256 * KIB;
  make();
  constexpr std::size_t LARGE = 16 * MIB;
  void* const a = gpu_memory(LARGE);
  void* const b = gpu_memory(4 * KIB);
  const auto large = pattern(LARGE, 6), little = pattern(4 * KIB, 7);
  recorder bulk_done;
  const copy one{as_device(a), as_device(large.data()), LARGE};
  copier_->post(direction::to_gpu, std::span(&one, 1), {}, &bulk_done);
  EXPECT_EQ(mock().queued_bytes(), limits_.depth * 256 * KIB);
  post(direction::to_gpu, b, little.data(), little.size());
  // Even if the GPU ran everything that it has before the small copy, it is only that.
  EXPECT_LE(mock().queued_bytes(), limits_.depth * 256 * KIB + little.size());
  mock().run_all();
  copier_->poll();
  EXPECT_EQ(done_.calls, 1);
  EXPECT_EQ(bulk_done.calls, 0);
  finish();
  EXPECT_EQ(bulk_done.calls, 1);
  EXPECT_EQ(read(a, LARGE), large);
}

TEST_F(copier_test, bulk__chunks_shrink_while_small_copies_are_about) {
  void* const a = gpu_memory(MIB);
  const auto in = pattern(MIB, 8);
  post(direction::to_gpu, a, in.data(), MIB);
  EXPECT_EQ(mock().queued_bytes(), 512 * KIB);  // two quiet chunks
  finish();
  post(direction::to_gpu, a, in.data(), KIB);
  finish();
  post(direction::to_gpu, a, in.data(), MIB);
  EXPECT_EQ(mock().queued_bytes(), 128 * KIB);
  finish();
}

TEST_F(copier_test, post__full_queues_answer_retry_and_empty_again) {
  void* const a = gpu_memory(MIB);
  const auto in = pattern(MIB, 9);
  int posted = 0;
  while (post(direction::to_gpu, a, in.data(), 8).code == errorcode_t::posted) ++posted;
  EXPECT_EQ(posted, static_cast<int>(lane::DEPTH));
  EXPECT_EQ(post(direction::to_gpu, a, in.data(), 8).code, errorcode_t::retry_nomem);
  // The other directions and bulk have their own room.
  EXPECT_EQ(post(direction::to_peer, a, a, 8).code, errorcode_t::posted);
  int bulk = 0;
  while (post(direction::to_gpu, a, in.data(), MIB).code == errorcode_t::posted) ++bulk;
  EXPECT_EQ(bulk, static_cast<int>(copier::BULK_QUEUE));
  finish();
  EXPECT_EQ(done_.calls, posted + bulk + 1);
  EXPECT_EQ(post(direction::to_gpu, a, in.data(), 8).code, errorcode_t::posted);
  finish();
}

TEST_F(copier_test, post_and_poll__call_nothing_that_waits_for_the_gpu) {
  void* const a = gpu_memory(MIB);
  const auto in = pattern(MIB, 10);
  mock().watch_blocking(true);
  for (int i = 0; i < 50; ++i) {
    post(direction::to_gpu, a, in.data(), i % 2 == 0 ? MIB : 64);
    copier_->poll();
    mock().advance(3);
  }
  finish();
  EXPECT_EQ(mock().blocking_calls(), std::vector<std::string>{});
  mock().watch_blocking(true);
  copier_.reset();  // the list can fill: tear-down may wait
  EXPECT_EQ(mock().blocking_calls(), std::vector<std::string>{"cuMemFreeHost"});
}

TEST_F(copier_test, poll__looks_without_driver_calls) {
  void* const a = gpu_memory(4 * KIB);
  post(direction::to_gpu, a, a, 8);
  mock().forget_counts();
  for (int i = 0; i < 1000; ++i) copier_->poll();
  for (const char* name : {"cuStreamQuery", "cuEventQuery", "cuCtxPushCurrent"})
    EXPECT_EQ(mock().count(name), 0u) << name;
  finish();
}

TEST_F(copier_test, context_destroyed__posts_are_refused_and_the_rest_ends) {
  void* const a = gpu_memory(4 * MIB);
  const auto in = pattern(4 * MIB, 12);
  post(direction::to_gpu, a, in.data(), 64);
  post(direction::to_gpu, a, in.data(), 4 * MIB);
  mock().destroy_context(0);
  EXPECT_EQ(post(direction::to_gpu, a, in.data(), 64).error.kind(), fault::gone);
  for (int i = 0; i < 5000; ++i) copier_->poll();
  EXPECT_TRUE(copier_->is_idle());
  expect_ended_with(fault::gone, 2);
}

TEST_F(copier_test, constructor__each_failing_call_leaves_nothing_behind) {
  copier_.reset();
  for (const char* call : {"cuMemHostAlloc", "cuMemHostGetDevicePointer", "cuStreamCreate"}) {
    for (int n = 1;; ++n) {
      mock().fail_nth(call, n, abi::result::out_of_memory);
      try {
        const copier one(gpus_.at(0));
        mock().fail_nth(call, 0, abi::result::success);  // was not reached any more
        EXPECT_GT(n, 1) << call;
        break;
      } catch (const backend_error& error) {
        EXPECT_NE(std::string(error.what()).find(call), std::string::npos) << error.what();
      }
      const auto left = mock().leaks();
      EXPECT_EQ(left.size(), 1u) << left.back();  // the context, which the gpu keeps
    }
  }
}

TEST_F(copier_test, threads__post_and_poll_together) {
  mock().set_engine_thread(true);
  constexpr int EACH = 200;
  std::vector<std::thread> threads;
  std::vector<std::vector<std::byte>> inputs;
  std::vector<void*> outputs;
  for (int t = 0; t < 3; ++t) {
    inputs.push_back(pattern(128 * KIB, static_cast<unsigned>(20 + t)));
    outputs.push_back(gpu_memory(128 * KIB));
  }
  for (std::size_t t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < EACH; ++i) {
        const std::size_t size = i % 10 == 9 ? 128 * KIB : 64;
        for (;;) {
          const errorcode_t code = post(direction::to_gpu, outputs[t], inputs[t].data(), size).code;
          copier_->poll();
          if (code == errorcode_t::posted) break;
          ASSERT_TRUE(code == errorcode_t::retry_lock || code == errorcode_t::retry_nomem);
          std::this_thread::yield();
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  while (!copier_->is_idle()) copier_->poll();
  mock().set_engine_thread(false);
  EXPECT_EQ(done_.calls, 3 * EACH);
  for (std::size_t t = 0; t < 3; ++t) EXPECT_EQ(read(outputs[t], inputs[t].size()), inputs[t]);
}

}  // namespace
}  // namespace lci::cuda
