// Calls of kernels on a GPU: over memory that they reach, and over requests that a card in software
// does, which a thread of the host drives. Skipped with the reason where there are no kernels: no
// nvcc, another GPU than they are compiled for, or the mock driver, which runs no device code.
#include <gtest/gtest.h>

#include <numeric>

#include "lci/device/memory_world.hpp"
#include "tests/accelerator/gpu_kernels.hpp"
#include "tests/accelerator/real_gpu.hpp"
#include "tests/support/device_code/gpu_endpoints.hpp"
#include "tests/support/device_code/storm_world.hpp"

#ifdef LCI_HAVE_TEST_KERNELS
extern const unsigned char lci_test_gpu_call_kernels[];
#endif

namespace lci::test {
namespace {

using cuda::is_other_gpu;
using cuda::real_gpu;
using gpu::status;
namespace abi = cuda::abi;

template <class Function>
Function driver_call(const char* name) {
  return reinterpret_cast<Function>(dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), name));
}

class real_memory final : public gpu_memory {
 public:
  ~real_memory() override {
    for (const block& b : blocks_) real_gpu::get().free(b.what, b.at, b.size);
  }
  void* of_gpu(std::size_t size) override {
    void* const at = take(real_gpu::kind::device, size);
    real_gpu::get().write(at, std::vector<std::byte>(size));
    return at;
  }
  void* pinned(std::size_t size) override {
    return std::memset(take(real_gpu::kind::pinned, size), 0, size);
  }
  void write(void* gpu, const void* from, std::size_t size) override {
    const auto* const bytes = static_cast<const std::byte*>(from);
    real_gpu::get().write(gpu, {bytes, bytes + size});
  }
  template <class T>
  T* pinned_array(std::size_t count) {
    return static_cast<T*>(pinned(count * sizeof(T)));
  }
  template <class T>
  T read(const T* gpu) {
    T out;
    std::memcpy(&out, real_gpu::get().read(gpu, sizeof(T)).data(), sizeof(T));
    return out;
  }

 private:
  struct block {
    real_gpu::kind what;
    void* at;
    std::size_t size;
  };
  void* take(real_gpu::kind what, std::size_t size) {
    blocks_.push_back({what, real_gpu::get().allocate(what, size), size});
    return blocks_.back().at;
  }
  std::vector<block> blocks_;
};

class gpu_calls : public testing::Test {
 protected:
  static constexpr std::size_t MEMORY = 1 << 22;
  enum class way { direct, requests };

  void SetUp() override {
#ifdef LCI_HAVE_TEST_KERNELS
    real_gpu::get();
    const auto load = driver_call<abi::result (*)(void**, const void*)>("cuModuleLoadData");
    const abi::result answer = load(&module_, lci_test_gpu_call_kernels);
    if (is_other_gpu(answer))
      GTEST_SKIP() << "cuModuleLoadData: error " << static_cast<int>(answer);
    ASSERT_EQ(answer, abi::result::success) << "cuModuleLoadData";
    if (kernel("lci_test_calls_block") == nullptr) {
      if (std::getenv("LCI_MOCK_CUDA_ENGINE") == nullptr) FAIL() << "no kernels in the module";
      GTEST_SKIP() << "the mock driver runs no device code";
    }
    memory_.emplace();
#else
    GTEST_SKIP() << "there was no nvcc when this was built";
#endif
  }
  void TearDown() override {
    ends_.reset();
    memory_.reset();
    if (module_ != nullptr) driver_call<abi::result (*)(void*)>("cuModuleUnload")(module_);
  }
  // Two ranks on one GPU; requests find each rank's pinned memory.
  void make(gpu_endpoint_options options = {}) {
    ends_.emplace(*memory_, options, [this](int, int) {
      return std::make_unique<device::memory_world>(ends_->keys(), nullptr, 1);
    });
    for (int i = 0; i < 2; ++i) {
      in_gpu_[i] = static_cast<unsigned char*>(memory_->of_gpu(MEMORY));
      pinned_[i] = static_cast<unsigned char*>(memory_->pinned(MEMORY));
      pinned_key_[i] = ends_->register_pinned(i, pinned_[i], MEMORY);
    }
  }
  gpu::place_t place(int rank, std::uint64_t offset, way how) {
    const auto address = reinterpret_cast<std::uintptr_t>(in_gpu_[rank]);
    const gpu::key_t direct{address, MEMORY, address, 0, rank};
    return {how == way::direct ? direct : pinned_key_[rank], offset};
  }
  // Of the calling rank: its kernels reach it in any case.
  gpu::place_t own(int rank, std::uint64_t offset, way how) {
    gpu::place_t at = place(rank, offset, how);
    at.key.mapped = at.key.base;
    return at;
  }
  unsigned char* bytes(int rank, way how) {
    return how == way::direct ? in_gpu_[rank] : pinned_[rank];
  }
  std::vector<std::byte> contents(int rank, way how) {
    if (how == way::direct) return real_gpu::get().read(in_gpu_[rank], MEMORY);
    const auto* const at = reinterpret_cast<const std::byte*>(pinned_[rank]);
    return {at, at + MEMORY};
  }
  void fill(int rank, way how, const std::vector<std::byte>& with) {
    if (how == way::direct) return real_gpu::get().write(in_gpu_[rank], with);
    std::memcpy(pinned_[rank], with.data(), with.size());
  }
  std::uint64_t word(int rank, std::uint64_t offset, way how) {
    std::uint64_t out;
    std::memcpy(&out, contents(rank, how).data() + offset, sizeof(out));
    return out;
  }

  template <class Task>
  void start(const char* name, unsigned blocks, unsigned threads, Task task) {
    using launch_fn = abi::result (*)(void*, unsigned, unsigned, unsigned, unsigned, unsigned,
                                      unsigned, unsigned, abi::stream, void**, void**);
    void* all[] = {&task};
    ASSERT_EQ(driver_call<launch_fn>("cuLaunchKernel")(kernel(name), blocks, 1, 1, threads, 1, 1, 0,
                                                       nullptr, all, nullptr),
              abi::result::success);
  }
  // Drives the cards until the kernels have ended.
  void drive() {
    const abi::functions& call = real_gpu::get().d.call();
    while (call.stream_query(nullptr) == abi::result::not_ready)
      for (int i = 0; i < 100; ++i) ends_->progress();
    real_gpu::get().synchronize();
  }
  // All answers are `wanted`.
  void run(const char* scope, unsigned blocks, unsigned threads, call_task task,
           status wanted = status::ok) {
    const unsigned all = blocks * threads;
    task.answers = memory_->pinned_array<status>(all);
    std::fill_n(task.answers, all, status::no_gpu);
    start((std::string("lci_test_calls_") + scope).c_str(), blocks, threads, task);
    drive();
    for (unsigned i = 0; i < all; ++i)
      ASSERT_EQ(task.answers[i], wanted)
          << scope << " thread " << i << ": " << text_of(task.answers[i]);
  }
  static constexpr const char* SCOPES[] = {"thread", "warp", "block"};
  // How many callers 2 blocks of 128 threads are.
  static std::uint64_t callers(const std::string& scope) {
    return scope == "thread" ? 256 : scope == "warp" ? 8 : 2;
  }

  void* kernel(const char* name) {
    using find_fn = abi::result (*)(void**, void*, const char*);
    void* found = nullptr;
    const abi::result answer = driver_call<find_fn>("cuModuleGetFunction")(&found, module_, name);
    return answer == abi::result::success ? found : nullptr;
  }

  std::optional<real_memory> memory_;
  std::optional<gpu_endpoints> ends_;
  void* module_ = nullptr;
  unsigned char* in_gpu_[2] = {};
  unsigned char* pinned_[2] = {};
  gpu::key_t pinned_key_[2];
};

// Each caller's piece at a place of its own; nothing else is written.
TEST_F(gpu_calls, put_and_get__pieces_of_every_alignment_in_every_scope) {
  for (const way how : {way::direct, way::requests}) {
    make();
    for (const char* scope : SCOPES) {
      for (const std::uint64_t size : {1, 4, 8, 100, 221, 4096}) {
        for (const std::uint64_t skew : {0, 1, 4, 8}) {
          const std::uint64_t stride = (size + 63) / 32 * 32, n = callers(scope);
          const std::vector<std::byte> from =
              real_gpu::pattern(MEMORY, static_cast<unsigned>(size));
          std::vector<std::byte> expected = real_gpu::pattern(MEMORY, 77);
          fill(0, how, from);
          fill(1, how, expected);
          for (std::uint64_t i = 0; i < n; ++i)
            std::memcpy(&expected[skew + i * stride], &from[i * stride], size);
          call_task task;
          task.endpoint = ends_->endpoint(0);
          task.to = place(1, skew, how);
          task.from = own(0, 0, how);
          task.size = size;
          task.stride = stride;
          run(scope, 2, 128, task);
          ASSERT_EQ(contents(1, how), expected) << scope << " put " << size << " at " << skew;
          task.kind = call_kind::get;
          task.to = own(0, 0, how);
          task.from = place(1, skew, how);
          std::vector<std::byte> back = real_gpu::pattern(MEMORY, 5);
          fill(0, how, back);
          for (std::uint64_t i = 0; i < n; ++i)
            std::memcpy(&back[i * stride], &expected[skew + i * stride], size);
          run(scope, 2, 128, task);
          ASSERT_EQ(contents(0, how), back) << scope << " get " << size << " at " << skew;
        }
      }
    }
  }
}

TEST_F(gpu_calls, atomics__each_caller_once_in_every_scope) {
  for (const way how : {way::direct, way::requests}) {
    make();
    for (const char* scope : SCOPES) {
      const std::uint64_t n = callers(scope), each = 5;
      fill(1, how, std::vector<std::byte>(MEMORY));
      auto* const sum = memory_->pinned_array<std::uint64_t>(1);
      call_task task;
      task.endpoint = ends_->endpoint(0);
      task.word = place(1, 64, how);
      task.sum = sum;
      task.each = each;
      for (const call_kind kind : {call_kind::add, call_kind::fetch_add, call_kind::compare_swap}) {
        task.kind = kind;
        run(scope, 2, 128, task);
      }
      EXPECT_EQ(word(1, 64, how), 3 * n * each) << scope;
      // Old values of the second pass: n * each and those after it.
      const std::uint64_t first = n * each, last = 2 * n * each - 1;
      EXPECT_EQ(*sum, (first + last) * (n * each) / 2) << scope;
      // Of all numbers that were swapped in, one is left, and the others came back.
      task.kind = call_kind::swap_4;
      task.word = place(1, 128, how);
      task.each = 1;
      *sum = 0;
      run(scope, 2, 128, task);
      EXPECT_EQ(*sum + word(1, 128, how), n * (n + 1) / 2) << scope;
    }
  }
}

TEST_F(gpu_calls, put_signal__two_kernels_take_turns) {
  for (const way how : {way::direct, way::requests}) {
    make();
    for (const unsigned threads : {1u, 32u, 256u}) {
      for (const std::uint64_t size : {0, 8, 1000}) {
        for (int i = 0; i < 2; ++i) fill(i, how, std::vector<std::byte>(MEMORY));
        turns_task task;
        task.answers = memory_->pinned_array<status>(2);
        task.times = memory_->pinned_array<std::uint64_t>(2);
        task.signal_offset = 4096;
        task.target = 2048;
        task.size = size;
        task.rounds = 200;
        for (int i = 0; i < 2; ++i) {
          task.endpoints[i] = ends_->endpoint(i);
          task.memory[i] = place(i, 0, how).key;
          task.own[i] = own(i, 0, how).key;
          task.words[i] = reinterpret_cast<std::uint64_t*>(bytes(i, how) + 4096);
        }
        task.answers[0] = task.answers[1] = status::no_gpu;
        start("lci_test_turns", 2, threads, task);
        drive();
        for (int i = 0; i < 2; ++i)
          ASSERT_EQ(task.answers[i], status::ok) << threads << " " << size;
        EXPECT_EQ(word(0, 4096, how), 200u);
        EXPECT_EQ(word(1, 4096, how), 200u);
      }
    }
  }
}

TEST_F(gpu_calls, put_signal__a_hundred_thousand_threads) {
  for (const way how : {way::direct, way::requests}) {
    make();
    fill(0, how, real_gpu::pattern(MEMORY, 1));
    fill(1, how, std::vector<std::byte>(MEMORY));
    call_task task;
    task.endpoint = ends_->endpoint(0);
    task.kind = call_kind::put_signal;
    task.to = place(1, 64, how);
    task.from = own(0, 64, how);
    task.word = place(1, 0, how);
    task.size = 32;
    task.stride = 32;
    run("thread", 800, 128, task);
    EXPECT_EQ(word(1, 0, how), 102400u);
    const auto sent = contents(0, how), got = contents(1, how);
    EXPECT_EQ(std::memcmp(&sent[64], &got[64], 102400 * 32), 0);
  }
}

class gpu_storm : public gpu_calls {
 protected:
  void storm(std::uint32_t blocks, std::uint32_t threads, std::uint32_t each) {
    storm_count count(threads);
    gpu_endpoint_options options;
    options.blocks = blocks;
    ends_.emplace(*memory_, options,
                  [&](int, int) { return std::make_unique<storm_world>(count); });
    storm_task task;
    task.endpoint = ends_->endpoint(0);
    task.to = {0, gpu::UNKNOWN_LENGTH, 0, 0x100, 1};
    task.from = ends_->register_pinned(0, memory_->pinned(4096), 4096);
    task.threads = threads;
    task.each = each;
    task.answers = memory_->pinned_array<status>(threads);
    std::fill_n(task.answers, threads, status::no_gpu);
    start("lci_test_storm", (threads + 127) / 128, 128, task);
    drive();
    for (std::uint32_t i = 0; i < threads; ++i)
      ASSERT_EQ(task.answers[i], status::ok) << i << ": " << text_of(task.answers[i]);
    EXPECT_EQ(count.received, std::uint64_t{threads} * each);
    EXPECT_EQ(count.out_of_order, 0u);
    EXPECT_EQ(count.damaged, 0u);
    EXPECT_EQ(count.next, std::vector<std::uint32_t>(threads, each));
  }
};

TEST_F(gpu_storm, ten_million_messages_of_a_hundred_thousand_threads_into_one_queue) {
  storm(1024, 100000, 100);
}
TEST_F(gpu_storm, a_ring_of_sixteen_blocks) { storm(16, 3000, 10); }
TEST_F(gpu_storm, one_warp_and_a_part_of_one) { storm(64, 45, 1000); }

TEST_F(gpu_calls, refusals__nothing_is_written) {
  make();
  fill(1, way::direct, real_gpu::pattern(MEMORY, 3));
  call_task task;
  task.endpoint = ends_->endpoint(0);
  task.to = place(1, MEMORY - 4, way::direct);
  task.from = own(0, 0, way::direct);
  task.size = 8;
  for (const char* scope : SCOPES) run(scope, 2, 64, task, status::out_of_range);
  task.rank = 2;
  for (const char* scope : SCOPES) run(scope, 2, 64, task, status::bad_rank);
  task.rank = 0;
  for (const char* scope : SCOPES) run(scope, 2, 64, task, status::bad_rank);
  task.rank = 1;
  task.to = {};
  for (const char* scope : SCOPES) run(scope, 2, 64, task, status::bad_key);
  task.to = place(1, 0, way::direct);
  task.endpoint.generation &= ~gpu::OF_GPU;
  for (const char* scope : SCOPES) run(scope, 2, 64, task, status::wrong_gpu);
  task.endpoint = ends_->endpoint(0);
  ends_->free_endpoint(0);
  for (const char* scope : SCOPES) run(scope, 2, 64, task, status::bad_endpoint);
  EXPECT_EQ(contents(1, way::direct), real_gpu::pattern(MEMORY, 3));
}

// By the flag, by the limit, and by the end of the peer, which the host says while the kernel
// waits.
TEST_F(gpu_calls, waits__end) {
  gpu_endpoint_options options;
  options.words_in_gpu = false;
  for (const char* scope : SCOPES) {
    for (const status why : {status::aborted, status::peer_lost, status::timed_out}) {
      options.limit_ns = why == status::timed_out ? 1'000'000 : 0;
      make(options);
      call_task task;
      task.endpoint = ends_->endpoint(0);
      task.kind = call_kind::wait;
      task.own_word = reinterpret_cast<std::uint64_t*>(in_gpu_[0]);
      task.size = 1;
      task.answers = memory_->pinned_array<status>(256);
      std::fill_n(task.answers, 256, status::no_gpu);
      start((std::string("lci_test_calls_") + scope).c_str(), 2, 128, task);
      std::uint32_t* const word =
          why == status::aborted ? ends_->abort_word(0) : ends_->ended_word(0) + 1 + 1;
      if (why != status::timed_out)
        wqe::word_at<std::uint32_t>(word).store(1, std::memory_order_relaxed);
      drive();
      for (int i = 0; i < 256; ++i)
        ASSERT_EQ(task.answers[i], why) << scope << ": " << text_of(task.answers[i]);
    }
  }
}

// A queue that is full, with nobody who empties it.
TEST_F(gpu_calls, full_queue__ends_at_the_limit) {
  gpu_endpoint_options options;
  options.blocks = 16;
  options.limit_ns = 1'000'000;
  make(options);
  call_task task;
  task.endpoint = ends_->endpoint(0);
  task.to = place(1, 0, way::requests);
  task.from = own(0, 0, way::requests);
  task.size = 8;
  task.each = 100;
  task.answers = memory_->pinned_array<status>(256);
  start("lci_test_calls_thread", 2, 128, task);
  real_gpu::get().synchronize();
  for (int i = 0; i < 256; ++i)
    EXPECT_TRUE(task.answers[i] == status::timed_out || task.answers[i] == status::dead)
        << text_of(task.answers[i]);
}

}  // namespace
}  // namespace lci::test
