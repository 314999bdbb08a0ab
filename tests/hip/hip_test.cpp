// HIP as a memory domain, on a library that answers as HIP does: kinds of pointers, copies, the
// order of flags, and what stays as it was for the program.
#define __HIP_PLATFORM_AMD__ 1
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <hip/hip_runtime_api.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "backends/cuda/engine.hpp"
#include "backends/hip/domain.hpp"
#include "backends/hip/driver.hpp"
#include "lci/errors.hpp"
#include "lci/mem/arena.hpp"
#include "tests/support/mock_cuda/mock_cuda.hpp"
#include "tests/support/must_fire.hpp"
#include "tests/support/scoped_env.hpp"
#include "tests/support/sizes.hpp"

namespace lci::hip {
namespace {

using lci::test::KIB, lci::test::MIB;

// The program's own calls, by the symbols that it would link; the arguments have the types of HIP.
template <class... Arguments>
hipError_t user(const char* name, Arguments... arguments) {
  void* const library = dlopen(HIP.library, RTLD_NOW);
  return reinterpret_cast<hipError_t (*)(Arguments...)>(dlsym(library, name))(arguments...);
}

struct told_job final : mem::copy_job {
  void on_copied(std::string_view why) noexcept override {
    error = why;
    ++calls;
  }
  std::string error;
  int calls = 0;
};

class hip_test : public testing::Test {
 protected:
  hip_test() {
    EXPECT_EQ(DOMAIN.probe(), "");
    EXPECT_EQ(user("hipSetDevice", 0), hipSuccess);
    (void)user("hipGetLastError");
  }
  static test::mock_cuda& mock() { return *test::load_mock_cuda(LCI_MOCK_CUDA); }

  static void* allocate(std::size_t size) {
    void* memory = nullptr;
    EXPECT_EQ(user("hipMalloc", &memory, size), hipSuccess);
    return memory;
  }
  static void free(void* memory) { EXPECT_EQ(user("hipFree", memory), hipSuccess); }
  static void copy(mem::accelerator& acc, told_job& job, mem::copy_way way, void* to,
                   const void* from, std::size_t size) {
    set(job, way, to, from, size);
    acc.copy(job);
    finish(acc, job);
  }
  static void set(told_job& job, mem::copy_way way, void* to, const void* from, std::size_t size) {
    job.way = way;
    job.to = static_cast<std::byte*>(to);
    job.from = static_cast<const std::byte*>(from);
    job.size = size;
  }
  static void finish(mem::accelerator& acc, const told_job& job) {
    for (int i = 0; i < 100000 && job.calls == 0; ++i) {
      if (acc.poll() == 0) mock().advance(1);
    }
    EXPECT_EQ(job.calls, 1);
    EXPECT_EQ(job.error, "");
  }

  mem::arena arena_{64 * MIB};
};

TEST_F(hip_test, pointers__are_what_they_are) {
  auto* const memory = static_cast<std::byte*>(allocate(MIB));
  for (const std::size_t at : {std::size_t{0}, std::size_t{5}, MIB - 1}) {
    const mem::memory_place place = DOMAIN.find(memory + at);
    EXPECT_EQ(place.domain, &DOMAIN);
    EXPECT_EQ(place.kind, mem::mem_kind::device);
    EXPECT_TRUE(place.is_handled);
    EXPECT_EQ(place.device, 0);
  }
  EXPECT_EQ(DOMAIN.describe(memory), "device memory of GPU 0");
  free(memory);

  void* pinned = nullptr;
  EXPECT_EQ(user("hipHostMalloc", &pinned, KIB, 0u), hipSuccess);
  const mem::memory_place place = DOMAIN.find(pinned);
  EXPECT_EQ(place.kind, mem::mem_kind::host);
  EXPECT_TRUE(place.is_pinned);
  EXPECT_TRUE(place.is_handled);
  EXPECT_EQ(user("hipHostFree", pinned), hipSuccess);
}

TEST_F(hip_test, host_memory__is_not_ours_and_leaves_no_error_behind) {
  const std::vector<std::byte> plain(KIB);
  EXPECT_EQ(DOMAIN.find(plain.data()).domain, nullptr);
  EXPECT_EQ(user("hipGetLastError"), hipSuccess);
}

TEST_F(hip_test, managed_memory__is_refused_by_name) {
  void* const managed = mock().allocate(test::mock_memory::managed, 64 * KIB);
  EXPECT_FALSE(DOMAIN.find(managed).is_handled);
  EXPECT_NE(DOMAIN.refusal(managed).find("managed memory"), std::string::npos);
  mock().free(managed);
}

TEST_F(hip_test, memory_at_an_address_that_was_freed__is_other_memory) {
  cuda::driver d(cuda::options_from_environment(HIP));
  d.require();
  void* const first = allocate(MIB);
  const cuda::allocation before = cuda::classify(d.in_process(), first).what;
  free(first);
  void* const second = allocate(MIB);
  ASSERT_EQ(second, first);
  EXPECT_NE(cuda::classify(d.in_process(), second).what.id, before.id);
  free(second);
}

// What is remembered of memory hangs on its identity, so without one it is not touched.
TEST_F(hip_test, memory_without_identity__is_refused) {
  void* const memory = allocate(MIB);
  {
    test::scoped_env none;
    none.set("LCI_FAKE_HIP_NO_ID", "1");
    EXPECT_FALSE(DOMAIN.find(memory).is_handled);
    EXPECT_NE(DOMAIN.refusal(memory), "");
    EXPECT_EQ(user("hipGetLastError"), hipSuccess);
  }
  EXPECT_TRUE(DOMAIN.find(memory).is_handled);
  free(memory);
}

// gdrcopy is for memory of CUDA.
TEST_F(hip_test, copies_by_the_processor__are_none) {
  const std::unique_ptr<mem::accelerator> acc = DOMAIN.start(arena_);
  EXPECT_EQ(acc->allow_cpu_copies(attr_gpu_gdrcopy_t::auto_select).write, 0u);
  EXPECT_TRUE(
      test::throws_with<backend_error>([&] { acc->allow_cpu_copies(attr_gpu_gdrcopy_t::on); },
                                       {"there is no gdrcopy for these GPUs"}));
}

TEST_F(hip_test, copies__from_host_to_gpu_to_host) {
  const std::unique_ptr<mem::accelerator> acc = DOMAIN.start(arena_);
  for (const std::size_t size : {std::size_t{1}, 5 * KIB, 3 * MIB + 7}) {
    std::vector<std::byte> out(size), back(size);
    for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<std::byte>(i * 31 + size);
    void *const a = allocate(size), *const b = allocate(size);
    told_job there, across, home;
    copy(*acc, there, mem::copy_way::to_device, a, out.data(), size);
    copy(*acc, across, mem::copy_way::to_peer, b, a, size);
    copy(*acc, home, mem::copy_way::to_host, back.data(), b, size);
    EXPECT_EQ(back, out) << size;
    free(a);
    free(b);
  }
}

TEST_F(hip_test, flags__are_set_behind_the_bytes) {
  const std::unique_ptr<mem::accelerator> acc = DOMAIN.start(arena_);
  alignas(64) static std::uint64_t flag;
  ASSERT_EQ(acc->pin(&flag, sizeof(flag)), "");
  auto* const memory = static_cast<std::byte*>(allocate(KIB));
  for (unsigned round = 1; round < 30; ++round) {
    mock().set_seed(round);
    const std::vector<std::byte> out(KIB, static_cast<std::byte>(round));
    told_job job;
    set(job, mem::copy_way::to_device, memory, out.data(), KIB);
    ASSERT_TRUE(acc->copy_and_flag(job, &flag, round));
    while (std::atomic_ref(flag).load(std::memory_order_acquire) != round) {
      ASSERT_EQ(mock().advance(1), 1u);
    }
    EXPECT_EQ(mock().contents(memory)[KIB - 1], out[0]);
    finish(*acc, job);
  }
  acc->unpin(&flag);
  free(memory);
}

TEST_F(hip_test, the_device_of_the_program_stays_current) {
  const std::unique_ptr<mem::accelerator> acc = DOMAIN.start(arena_);
  void* const memory = allocate(KIB);  // on GPU 0
  ASSERT_EQ(user("hipSetDevice", 1), hipSuccess);
  std::vector<std::byte> bytes(KIB);
  told_job job;
  copy(*acc, job, mem::copy_way::to_device, memory, bytes.data(), KIB);
  void* const given = DOMAIN.allocate(KIB, 0, false);
  EXPECT_EQ(DOMAIN.find(given).device, 0);
  DOMAIN.release(given);
  int now = -1;
  EXPECT_EQ(user("hipGetDevice", &now), hipSuccess);
  EXPECT_EQ(now, 1);
  free(memory);
}

TEST_F(hip_test, memory_is_shared_by_a_handle_of_hip) {
  const std::unique_ptr<mem::accelerator> acc = DOMAIN.start(arena_);
  void* const memory = allocate(MIB);
  std::string why_not;
  (void)acc->share(memory, MIB, why_not);
  EXPECT_EQ(why_not, "");
  EXPECT_EQ(mock().count("cuIpcGetMemHandle"), 1u);
  free(memory);
}

TEST_F(hip_test, stream_forms_of_posts__are_refused_in_a_sentence) {
  const std::unique_ptr<mem::accelerator> acc = DOMAIN.start(arena_);
  hipStream_t stream = nullptr;
  EXPECT_EQ(user("hipStreamCreateWithFlags", &stream, unsigned{hipStreamNonBlocking}), hipSuccess);
  EXPECT_THROW(acc->is_captured(stream), backend_error);
  EXPECT_EQ(user("hipStreamDestroy", stream), hipSuccess);
}

TEST_F(hip_test, errors__carry_hips_text) {
  mock().fail_nth("cuMemAlloc", 1, cuda::abi::result::out_of_memory);
  try {
    DOMAIN.release(DOMAIN.allocate(KIB, 0, false));
    FAIL() << "nothing was thrown";
  } catch (const backend_error& error) {
    EXPECT_NE(std::string(error.what()).find("hipErrorOutOfMemory 2"), std::string::npos)
        << error.what();
  }
}

TEST(hip_driver, says_what_is_wrong) {
  cuda::driver off({false, HIP.library, &HIP});
  EXPECT_EQ(off.why_not(), "HIP is switched off (attribute use_hip)");
  cuda::driver none({true, "libno_such_hip.so", &HIP});
  EXPECT_NE(none.why_not().find("the HIP driver cannot be loaded"), std::string::npos);
}

}  // namespace
}  // namespace lci::hip
