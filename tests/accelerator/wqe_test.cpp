// Work requests by a GPU: all vectors, and a million random requests, compared bit for bit with
// what a processor makes of them; a send queue that threads of a kernel share; and the C face with
// memory of a queue. Skipped with the reason
// where there are no kernels: no nvcc, another GPU than they are compiled for, or the mock driver,
// which runs no device code.
#include <gtest/gtest.h>

#include "lci/wqe/c_face.h"
#include "tests/accelerator/gpu_kernels.hpp"
#include "tests/accelerator/real_gpu.hpp"
#include "tests/support/seed.hpp"
#include "tests/unit/wqe/consumer.hpp"
#include "tests/unit/wqe/golden_jobs.hpp"

#ifdef LCI_HAVE_TEST_KERNELS
extern const unsigned char lci_test_wqe_kernels[];
#endif

namespace lci::cuda {
namespace {

using test::golden_job;
using test::send_output;
using test::wqe_task;

constexpr unsigned THREADS = 128;
constexpr std::uint64_t RANDOM = 1000000, AT_ONCE = 62500;

template <class Function>
Function driver_call(const char* name) {
  return reinterpret_cast<Function>(dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), name));
}

// Memory that both see.
template <class T>
class shared_array {
 public:
  explicit shared_array(std::size_t count) : count_(count) {
    at_ = static_cast<T*>(real_gpu::get().allocate(real_gpu::kind::pinned, count * sizeof(T)));
  }
  ~shared_array() { real_gpu::get().free(real_gpu::kind::pinned, at_, count_ * sizeof(T)); }
  shared_array(const shared_array&) = delete;
  shared_array& operator=(const shared_array&) = delete;
  T* get() { return at_; }
  T& operator[](std::size_t i) { return at_[i]; }

 private:
  std::size_t count_;
  T* at_ = nullptr;
};

class wqe_on_gpu : public testing::Test {
 protected:
  void SetUp() override {
#ifdef LCI_HAVE_TEST_KERNELS
    real_gpu::get();
    const auto load = driver_call<abi::result (*)(void**, const void*)>("cuModuleLoadData");
    const abi::result answer = load(&module_, lci_test_wqe_kernels);
    if (is_other_gpu(answer))
      GTEST_SKIP() << "cuModuleLoadData: error " << static_cast<int>(answer);
    ASSERT_EQ(answer, abi::result::success) << "cuModuleLoadData";
    if (find(&jobs_, "lci_test_wqe_jobs") && find(&random_, "lci_test_wqe_random") &&
        find(&prepare_, "lci_test_wqe_prepare") && find(&post_, "lci_test_wqe_post"))
      return;
    // So the mock is run; a real driver has them.
    if (std::getenv("LCI_MOCK_CUDA_ENGINE") == nullptr) FAIL() << "no kernels in the module";
    GTEST_SKIP() << "the mock driver runs no device code";
#else
    GTEST_SKIP() << "there was no nvcc when this was built";
#endif
  }
  void TearDown() override {
    if (module_ != nullptr) driver_call<abi::result (*)(void*)>("cuModuleUnload")(module_);
  }
  void run(void* kernel, const wqe_task& task) {
    start(kernel, task.count, task);
    real_gpu::get().synchronize();
  }
  template <class Task>
  void start(void* kernel, std::uint64_t threads, Task task) {
    using launch_fn = abi::result (*)(void*, unsigned, unsigned, unsigned, unsigned, unsigned,
                                      unsigned, unsigned, abi::stream, void**, void**);
    void* all[] = {&task};
    const auto blocks = static_cast<unsigned>((threads + THREADS - 1) / THREADS);
    ASSERT_EQ(driver_call<launch_fn>("cuLaunchKernel")(kernel, blocks, 1, 1, THREADS, 1, 1, 0,
                                                       nullptr, all, nullptr),
              abi::result::success);
  }

  void* jobs_ = nullptr;
  void* random_ = nullptr;
  void* prepare_ = nullptr;
  void* post_ = nullptr;

 private:
  bool find(void** kernel, const char* name) {
    using find_fn = abi::result (*)(void**, void*, const char*);
    return driver_call<find_fn>("cuModuleGetFunction")(kernel, module_, name) ==
           abi::result::success;
  }
  void* module_ = nullptr;
};

TEST_F(wqe_on_gpu, golden_vectors__225_of_225) {
  std::vector<golden_job> golden = test::all_golden_jobs();
  EXPECT_EQ(test::vectors_of(golden), 225u);
  std::vector<std::size_t> places;
  std::size_t size = 0;
  for (const golden_job& g : golden) {
    places.push_back(size);
    size += (g.before.size() + 127) / 64 * 64;
  }
  shared_array<unsigned char> memory(size);
  shared_array<test::wqe_job> jobs(golden.size());
  for (std::size_t i = 0; i < golden.size(); ++i) {
    std::copy(golden[i].before.begin(), golden[i].before.end(), memory.get() + places[i]);
    jobs[i] = golden[i].job;
    jobs[i].memory = memory.get() + places[i];
  }
  run(jobs_, {jobs.get(), nullptr, 0, 0, golden.size()});
  std::size_t right = 0;
  for (std::size_t i = 0; i < golden.size(); ++i) {
    const unsigned char* const at = memory.get() + places[i];
    // A GPU may inline what is in its memory: where a processor refuses, it has an answer.
    const std::string difference =
        !golden[i].for_processors
            ? golden[i].difference(jobs[i], {at, at + golden[i].before.size()})
        : jobs[i].results[0] == 0 ? std::string()
                                  : "inline bytes of GPU memory are refused by a GPU";
    EXPECT_EQ(difference, "");
    right += difference.empty();
  }
  EXPECT_EQ(right, golden.size());
}

TEST_F(wqe_on_gpu, random_requests__a_million_agree_with_the_processor) {
  const std::uint64_t seed = test::test_seed();
  shared_array<send_output> outputs(AT_ONCE);
  std::uint64_t agreed = 0;
  for (std::uint64_t first = 0; first < RANDOM; first += AT_ONCE) {
    std::memset(static_cast<void*>(outputs.get()), 0, AT_ONCE * sizeof(send_output));
    run(random_, {nullptr, outputs.get(), seed, first, AT_ONCE});
    for (std::uint64_t i = 0; i < AT_ONCE; ++i) {
      send_output here;
      std::memset(static_cast<void*>(&here), 0, sizeof(here));
      test::encode(test::random_input(seed, first + i), &here);
      agreed += std::memcmp(&here, &outputs[i], sizeof(here)) == 0;
    }
  }
  EXPECT_EQ(agreed, RANDOM);
}

// Its state is in the GPU's memory; ring, completions and mailbox are where this thread, in the
// place of a card, sees them.
TEST_F(wqe_on_gpu, send_queue__threads_of_a_kernel_post_and_flush) {
  constexpr std::uint32_t POSTERS = 3 * THREADS, EACH = 50, BLOCKS = 64, QPN = 0x123;
  shared_array<unsigned char> ring(BLOCKS * wqe::BLOCK_SIZE), entries(BLOCKS * wqe::CQE_SIZE);
  shared_array<std::uint32_t> cq_record(2);
  shared_array<std::uint64_t> mailbox(1);
  shared_array<wqe::status> answers(POSTERS);
  mailbox[0] = cq_record[0] = cq_record[1] = 0;
  test::post_task task{{}, POSTERS, EACH, answers.get()};
  wqe::send_queue& queue = task.queue;
  queue.ring = {ring.get(), BLOCKS};
  queue.cq = {entries.get(), BLOCKS, wqe::CQE_SIZE, cq_record.get()};
  queue.bell.form = wqe::doorbell_form::mailbox;
  queue.bell.target = mailbox.get();
  queue.limits.max_inline = 92;
  queue.waits.limit_ns = 30'000'000'000;  // so that a mistake ends
  queue.qpn = QPN;
  queue.state = static_cast<wqe::send_queue_state*>(
      real_gpu::get().allocate(real_gpu::kind::device, sizeof(wqe::send_queue_state)));
  start(prepare_, 1, task);
  real_gpu::get().synchronize();
  ASSERT_EQ(answers[0], wqe::status::ok);
  start(post_, POSTERS, task);
  test::numbered_requests found(POSTERS);
  test::consumer card(queue, 0);
  const abi::functions& call = real_gpu::get().d.call();
  card.consume_until(
      [&] { return call.stream_query(nullptr) != abi::result::not_ready; },
      [&](const wqe::octoword* wqe, std::uint32_t octowords) { found.look(wqe, octowords); });
  real_gpu::get().synchronize();
  EXPECT_EQ(card.wrong() + found.wrong, 0u);
  EXPECT_EQ(found.next, std::vector<std::uint32_t>(POSTERS, EACH));
  for (std::uint32_t i = 0; i < POSTERS; ++i) EXPECT_EQ(answers[i], wqe::status::ok);
  real_gpu::get().free(real_gpu::kind::device, queue.state, sizeof(wqe::send_queue_state));
}

// What a host program without nvcc does: its own memory, kernels of the library.
TEST(wqe_c_face, launch__a_request_in_registered_memory) {
  alignas(64) static unsigned char queue[4096];
  real_gpu::get();
  lci_cuda_memory_t memory[] = {{queue, 256, 0, nullptr}, {queue + 256, 8, 0, nullptr}};
  ASSERT_EQ(lci_register_cuda_memory(memory, 2), LCI_WQE_OK) << lci_wqe_last_reason();
  lci_send_wqe_params_t send{};
  send.ring = memory[0].gpu;
  send.wqe_cnt = 4;
  send.signaled = 1;
  const std::int64_t blocks = lci_launch_send_wqe(send);
  if (blocks == LCI_WQE_CUDA_ERROR) {
    // A library without device code says so, and how to get it.
    EXPECT_NE(std::string(lci_wqe_last_reason()).find("-DLCI_USE_CUDA=ON"), std::string::npos)
        << lci_wqe_last_reason();
  } else {
    EXPECT_EQ(blocks, 1);
    EXPECT_EQ(queue[7], 1);
  }
  EXPECT_EQ(lci_unregister_cuda_memory(memory, 2), LCI_WQE_OK) << lci_wqe_last_reason();
  EXPECT_EQ(lci_unregister_cuda_memory(memory, 1), LCI_WQE_CUDA_ERROR);
}

TEST(wqe_c_face, register__all_or_none) {
  alignas(4096) static unsigned char queue[8192];
  real_gpu::get();
  lci_cuda_memory_t memory[] = {{queue, 4096, 0, nullptr}, {queue, 8192, 0, nullptr}};
  EXPECT_EQ(lci_register_cuda_memory(memory, 2), LCI_WQE_CUDA_ERROR);
  EXPECT_NE(std::string(lci_wqe_last_reason()).find("overlaps"), std::string::npos);
  EXPECT_EQ(memory[0].gpu, nullptr);
  EXPECT_EQ(lci_unregister_cuda_memory(memory, 1), LCI_WQE_CUDA_ERROR);
}

TEST(wqe_c_face, unregister__goes_on_behind_one_that_is_refused) {
  alignas(4096) static unsigned char queue[12288];
  real_gpu::get();
  lci_cuda_memory_t whole{queue, 8192, 0, nullptr};
  ASSERT_EQ(lci_register_cuda_memory(&whole, 1), LCI_WQE_OK) << lci_wqe_last_reason();
  const lci_cuda_memory_t both[] = {{queue + 4096, 8192, 0, nullptr}, whole};
  EXPECT_EQ(lci_unregister_cuda_memory(both, 2), LCI_WQE_CUDA_ERROR);
  EXPECT_NE(std::string(lci_wqe_last_reason()).find("overlaps"), std::string::npos);
  EXPECT_EQ(lci_unregister_cuda_memory(&whole, 1), LCI_WQE_CUDA_ERROR);  // it is gone
}

}  // namespace
}  // namespace lci::cuda
