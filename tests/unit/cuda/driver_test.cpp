#include "backends/cuda/driver.hpp"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/cuda/errors.hpp"
#include "lci/errors.hpp"
#include "tests/support/scoped_env.hpp"
#include "tests/unit/cuda/fixture.hpp"

namespace lci::cuda {
namespace {

using test::throws_with;

// A machine with a driver, on which nobody has started CUDA.
class driver_test : public testing::Test {
 protected:
  driver_test() { mock().reset(); }
  ~driver_test() override { mock().reset(); }
  static bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }
};

TEST_F(driver_test, constructor__does_nothing) {
  const driver d(mock_options());
  EXPECT_EQ(mock().count("cuGetProcAddress"), 0u);
  EXPECT_FALSE(mock().is_started());
}

TEST_F(driver_test, in_process__resolves_but_never_initialises) {
  driver d(mock_options());
  EXPECT_NE(d.in_process(), nullptr);
  EXPECT_GT(mock().count("cuGetProcAddress"), 0u);
  EXPECT_EQ(mock().count("cuInit"), 0u);
  EXPECT_FALSE(mock().is_started());
}

TEST_F(driver_test, in_process__is_null_while_nobody_has_loaded_the_library) {
  driver d({true, "libno-such-gpu.so.1"});
  EXPECT_EQ(d.in_process(), nullptr);
  EXPECT_EQ(d.in_process(), nullptr);
}

TEST_F(driver_test, why_not__is_empty_where_all_is_well_and_starts_once) {
  driver d(mock_options());
  EXPECT_EQ(d.why_not(), "");
  EXPECT_EQ(d.why_not(), "");
  EXPECT_EQ(mock().count("cuInit"), 1u);
  EXPECT_EQ(d.gpu_count(), 2);
  EXPECT_EQ(d.version(), 13000);
  for (const entry_point& row : entry_points()) {
    void* function = nullptr;
    std::memcpy(&function, reinterpret_cast<const char*>(&d.call()) + row.slot, sizeof(function));
    EXPECT_NE(function, nullptr) << row.name;
  }
}

TEST_F(driver_test, why_not__names_a_library_that_is_not_there) {
  driver d({true, "libno-such-gpu.so.1"});
  EXPECT_TRUE(has(d.why_not(), "cannot be loaded")) << d.why_not();
  EXPECT_TRUE(has(d.why_not(), "libno-such-gpu.so.1")) << d.why_not();
  EXPECT_TRUE(throws_with<backend_error>([&] { d.require(); }, {"cuda: ", "libno-such-gpu"}));
}

TEST_F(driver_test, why_not__names_what_an_old_driver_lacks) {
  mock().reset({.driver_version = 10020});
  driver d(mock_options());
  EXPECT_TRUE(has(d.why_not(), "version 10.2 and has no cuDevicePrimaryCtxRelease of CUDA 11.0"))
      << d.why_not();
  EXPECT_EQ(mock().count("cuInit"), 0u);
}

TEST_F(driver_test, why_not__optional_entries_may_be_missing) {
  mock().reset({.driver_version = 11040});
  driver d(mock_options());
  EXPECT_EQ(d.why_not(), "");
  EXPECT_EQ(d.call().memcpy_batch_async, nullptr);
  EXPECT_EQ(d.call().stream_write_value_64, nullptr);
  EXPECT_NE(d.call().memcpy_async, nullptr);
}

TEST_F(driver_test, why_not__names_a_symbol_that_is_missing) {
  mock().reset({.missing = {"cuMemcpyAsync"}});
  driver d(mock_options());
  EXPECT_TRUE(has(d.why_not(), "cuMemcpyAsync of CUDA 4.0")) << d.why_not();
}

TEST_F(driver_test, why_not__first_form_of_cuGetProcAddress) {
  driver d({true, LCI_MOCK_CUDA_11});
  EXPECT_EQ(d.why_not().find("no GPU is visible"), 0u) << d.why_not();
  EXPECT_EQ(d.version(), 11040);
  EXPECT_NE(d.call().memcpy_async, nullptr);
  EXPECT_EQ(d.call().stream_write_value_64, nullptr);
}

TEST_F(driver_test, why_not__no_gpu_and_which_were_allowed) {
  mock().reset({.gpus = 0});
  test::scoped_env env;
  env.set("CUDA_VISIBLE_DEVICES", "7");
  driver d(mock_options());
  EXPECT_EQ(d.why_not(), "no GPU is visible (CUDA_VISIBLE_DEVICES is \"7\")");
}

TEST_F(driver_test, why_not__quotes_the_driver_when_it_does_not_start) {
  mock().fail_nth("cuInit", 1, abi::result::system_driver_mismatch);
  driver d(mock_options());
  EXPECT_TRUE(has(d.why_not(), "cuInit failed")) << d.why_not();
  EXPECT_TRUE(has(d.why_not(), "803")) << d.why_not();
}

TEST_F(driver_test, why_not__a_count_that_fails_is_told) {
  mock().fail_nth("cuDeviceGetCount", 1, abi::result::invalid_value);
  driver d(mock_options());
  EXPECT_TRUE(has(d.why_not(), "cuDeviceGetCount failed: invalid argument")) << d.why_not();
}

TEST_F(driver_test, why_not__forbidden_starts_nothing_but_pointers_are_still_known) {
  driver d({false, LCI_MOCK_CUDA});
  EXPECT_TRUE(has(d.why_not(), "use_cuda")) << d.why_not();
  EXPECT_NE(d.in_process(), nullptr);
  EXPECT_FALSE(mock().is_started());
}

TEST_F(driver_test, why_not__in_a_forked_child) {
  driver d(mock_options());
  ASSERT_EQ(d.why_not(), "");
  const pid_t child = fork();
  if (child == 0) _exit(has(d.why_not(), "before fork()") ? 0 : 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(d.why_not(), "");  // nothing has changed here
}

TEST_F(driver_test, fork__before_the_first_need_is_harmless) {
  driver d(mock_options());
  d.in_process();
  const pid_t child = fork();
  if (child == 0) _exit(d.why_not().empty() ? 0 : 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(driver_test, injected_table__is_used_as_it_is) {
  static int inits;
  inits = 0;
  abi::functions table{};
  table.init = [](unsigned) { return ++inits, abi::result::success; };
  table.device_get_count = [](int* count) { return *count = 3, abi::result::success; };
  driver d(table);
  EXPECT_EQ(d.why_not(), "");
  EXPECT_EQ(inits, 1);
  EXPECT_EQ(d.gpu_count(), 3);
  EXPECT_EQ(mock().count("cuGetProcAddress"), 0u);
}

TEST_F(driver_test, options__from_the_environment) {
  EXPECT_TRUE(options_from_environment().allowed);
  {
    test::scoped_env env;
    env.set("LCI_ATTR_USE_CUDA", "off");
    EXPECT_FALSE(options_from_environment().allowed);
  }
  test::scoped_env env;
  env.set("LCI_ATTR_USE_CUDA", "perhaps");
  EXPECT_TRUE(throws_with<argument_error>([] { options_from_environment(); },
                                          {"LCI_ATTR_USE_CUDA", "perhaps"}));
}

// The next two run in processes of their own, where nobody has loaded a driver yet; of the second,
// the loader's path leads to the mock.
TEST(driver_child, DISABLED_sees_a_library_that_is_loaded_later) {
  driver d({true, LCI_MOCK_CUDA_OLD});
  ASSERT_EQ(d.in_process(), nullptr);
  void* const loaded = dlopen(LCI_MOCK_CUDA_OLD, RTLD_NOW);
  ASSERT_NE(loaded, nullptr) << dlerror();
  const abi::functions* const found = d.in_process();
  ASSERT_NE(found, nullptr);
  // Too old to be used, but it still tells device memory from host memory.
  EXPECT_NE(found->pointer_get_attributes, nullptr);
  EXPECT_EQ(found->memcpy_async, nullptr);
  EXPECT_NE(d.why_not().find("version 11.2 and has no cuInit of CUDA 2.0"), std::string::npos)
      << d.why_not();
  dlclose(loaded);
}

TEST(driver_child, DISABLED_finds_the_driver_by_the_loaders_path) {
  driver d;
  ASSERT_EQ(d.in_process(), nullptr);  // nobody has loaded it yet, and looking does not
  EXPECT_EQ(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), nullptr);
  ASSERT_EQ(d.why_not(), "");
  test::mock_cuda* const found = test::load_mock_cuda("");
  ASSERT_NE(found, nullptr);
  EXPECT_TRUE(found->is_started());
}

int status_alone(const std::string& name, const char* library_path) {
  const std::string filter = "--gtest_filter=driver_child.DISABLED_" + name;
  const pid_t child = fork();
  if (child == 0) {
    if (library_path != nullptr) setenv("LD_LIBRARY_PATH", library_path, 1);
    execl("/proc/self/exe", "unit_cuda", "--gtest_also_run_disabled_tests", filter.c_str(),
          nullptr);
    _exit(9);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

TEST_F(driver_test, in_process__sees_a_library_that_is_loaded_later) {
  EXPECT_EQ(status_alone("sees_a_library_that_is_loaded_later", nullptr), 0);
}

TEST_F(driver_test, default_name__is_found_by_the_loaders_path) {
  EXPECT_EQ(status_alone("finds_the_driver_by_the_loaders_path", LCI_MOCK_CUDA_DIR), 0);
}

TEST(version_text, is_what_people_call_it) {
  EXPECT_EQ(version_text(13000), "13.0");
  EXPECT_EQ(version_text(12080), "12.8");
  EXPECT_EQ(version_text(2020), "2.2");
}

TEST_F(driver_test, text_of__names_the_call_the_object_and_the_reason) {
  driver d(mock_options());
  d.require();
  const failure what{abi::result::out_of_memory, "cuMemcpyAsync"};
  EXPECT_EQ(text_of(d.call(), what, "GPU 0, 64 bytes"),
            "cuMemcpyAsync failed on GPU 0, 64 bytes: out of memory [CUDA_ERROR_OUT_OF_MEMORY 2]");
  EXPECT_TRUE(has(text_of(d.call(), static_cast<abi::result>(12345)), "12345"));
  EXPECT_TRUE(throws_with<backend_error>(
      [&] { check(d.call(), abi::result::no_device, "cuInit", ""); }, {"cuda: cuInit failed: no"}));
  EXPECT_EQ(what.kind(), fault::no_memory);
  EXPECT_EQ(fault_of(abi::result::illegal_address), fault::broken);
  EXPECT_EQ(fault_of(abi::result::context_is_destroyed), fault::gone);
  EXPECT_EQ(fault_of(abi::result::not_ready), fault::not_yet);
  EXPECT_EQ(fault_of(abi::result::invalid_value), fault::refused);
  EXPECT_FALSE(failure{});
}

}  // namespace
}  // namespace lci::cuda
