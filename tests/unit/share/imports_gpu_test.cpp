// Buffers in GPU memory between two programs, where the loader finds the mock driver
// (unit_share_on_mock); skipped elsewhere. Owners are started as programs, because CUDA does not
// work in a child of fork().
#include <fcntl.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "lci/share/gpus.hpp"
#include "lci/share/imports.hpp"
#include "tests/support/mock_cuda/mock_cuda.hpp"
#include "tests/unit/share/owner_process.hpp"

namespace lci::share {
namespace {

constexpr std::size_t GPU_PAGE = std::size_t{2} << 20;
constexpr const char* MODE = "LCI_TEST_OWNER_MODE";
constexpr const char* SOCKET = "LCI_TEST_OWNER_SOCKET";

test::mock_cuda* mock() {
  static test::mock_cuda* const one = test::load_mock_cuda("");
  return one;
}

// Before anything asks what the GPUs can: this process takes fabric handles.
class with_fabric final : public testing::Environment {
  void SetUp() override {
    if (mock() != nullptr) mock()->reset({.fabric_handles = true});
  }
};
const testing::Environment* const environment = testing::AddGlobalTestEnvironment(new with_fabric);

std::byte* seen(const buffer& b) { return mock()->contents(b.data()); }

// This program once more, which runs the owner below.
class owner_program {
 public:
  explicit owner_program(const std::string& mode)
      : process_([&mode](talk t) {
          const int fd = dup(t.number());
          setenv(SOCKET, std::to_string(fd).c_str(), 1);
          setenv(MODE, mode.c_str(), 1);
          const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
          execl(self.c_str(), self.c_str(), "--gtest_also_run_disabled_tests",
                "--gtest_filter=*owner_of_gpu_memory", nullptr);
          _exit(2);
        }) {}
  talk with() const { return process_.with(); }
  void kill() { process_.kill(); }

 private:
  owner_process process_;
};

TEST(imports_gpu_test, DISABLED_owner_of_gpu_memory) {
  ASSERT_NE(std::getenv(SOCKET), nullptr);
  const talk t(std::atoi(std::getenv(SOCKET)));
  const std::string mode = std::getenv(MODE);
  ASSERT_NE(mock(), nullptr);
  mock()->reset({.vmm_descriptors = mode != "ipc", .fabric_handles = mode == "fabric"});
  buffer whole;
  if (mode == "wrapped") {
    mock()->start();
    void* const at = mock()->allocate(test::mock_memory::device, 2 * GPU_PAGE, 1);
    whole = buffer::wrap(static_cast<char*>(at) + 512, GPU_PAGE);
  } else {
    whole = buffer::create(GPU_PAGE, 1);
  }
  EXPECT_TRUE(whole.is_gpu());
  EXPECT_EQ(whole.device(), 1);
  buffer part = whole.slice(4096, 4096);
  std::memset(seen(part), 7, 4096);
  t.say(part.export_handle());
  for (std::string heard = t.hear(); !heard.empty(); heard = t.hear()) {
    if (heard == "look") t.say(std::to_string(static_cast<int>(seen(part)[4095])));
    if (heard == "withdraw") {
      part = buffer();
      t.say("done");
    }
    if (heard == "free") {
      part = buffer();
      t.say(whole.export_handle());
      whole = buffer();
    }
  }
}

class of_another_program : public testing::Test {
 protected:
  void SetUp() override {
    if (mock() == nullptr || !gpu_available()) GTEST_SKIP() << "no mock driver";
  }
  static std::size_t held() {
    std::size_t count = 0;
    for (const std::string& each : mock()->leaks())
      count += each.find("mapping") != each.npos || each.find("handle") != each.npos ||
               each.find("range") != each.npos;
    return count;
  }
  // Fills it as a kernel would.
  static void write_last(const buffer& b, int value) { seen(b)[4095] = std::byte(value); }
};

class imports_gpu_test : public of_another_program,
                         public testing::WithParamInterface<const char*> {};
using imports_fabric_test = of_another_program;

TEST_P(imports_gpu_test, import__shares_the_bytes_both_ways) {
  {
    owner_program owner(GetParam());
    const std::string handle = owner.with().hear();
    ASSERT_EQ(handle.size(), handle::BYTES);
    buffer b = buffer::import(handle);
    EXPECT_TRUE(b.is_gpu());
    EXPECT_EQ(b.device(), 1);
    EXPECT_EQ(b.size(), 4096u);
    EXPECT_EQ(seen(b)[0], std::byte{7});
    write_last(b, 9);
    b.sync(buffer_sync::before);
    b.sync(buffer_sync::after);
    owner.with().say("look");
    EXPECT_EQ(owner.with().hear(), "9");
    EXPECT_EQ(buffer::import(handle).data(), b.data());
    EXPECT_NE(b.describe().find("memory of GPU 1 of pid"), std::string::npos) << b.describe();
  }
  EXPECT_EQ(held(), 0u);
}

// What is mapped there is not handed out: the driver does not work in a child.
TEST_P(imports_gpu_test, import__again_in_a_child_of_fork_is_no_gpu) {
  {
    owner_program owner(GetParam());
    const std::string handle = owner.with().hear();
    const buffer b = buffer::import(handle);
    owner_process child(
        [&](talk) { EXPECT_EQ(fault_of([&] { buffer::import(handle); }), buffer_fault::no_gpu); });
  }
  EXPECT_EQ(held(), 0u);
}

TEST_P(imports_gpu_test, import__two_handles_of_one_memory_are_one_mapping) {
  owner_program owner(GetParam());
  const std::string handle = owner.with().hear();
  buffer part = buffer::import(handle);
  owner.with().say("free");
  const std::string whole = owner.with().hear();
  // Both are freed by now, or soon: refused by name, and the old mapping is still there.
  while (true) {
    try {
      buffer::import(whole);
    } catch (const buffer_error& error) {
      EXPECT_EQ(error.fault(), buffer_fault::stale) << error.what();
      break;
    }
  }
  EXPECT_EQ(fault_of([&] { part.check(); }), buffer_fault::stale);
  EXPECT_EQ(seen(part)[0], std::byte{7});
  part = buffer();
  EXPECT_EQ(held(), 0u);
}

TEST_P(imports_gpu_test, owner_that_dies__is_told_and_nothing_stays) {
  {
    owner_program owner(GetParam());
    const std::string handle = owner.with().hear();
    buffer b = buffer::import(handle);
    owner.kill();
    EXPECT_EQ(fault_of([&] { b.check(); }), buffer_fault::owner_gone);
    EXPECT_EQ(fault_of([&] { buffer::import(handle); }), buffer_fault::owner_gone);
  }
  EXPECT_EQ(held(), 0u);
}

// The page's number is looked at last, and is another file's by then.
TEST_P(imports_gpu_test, import__of_an_owner_that_started_another_program) {
  static const published_page* of_another = nullptr;
  static int page_fd = -1, page_calls = 0;
  owner_program owner(GetParam());
  const std::string bytes = owner.with().hear();
  const published_page other;
  of_another = &other;
  page_fd = handle::decode(bytes).page_fd;
  page_calls = 0;
  owner_calls calls = system_owner_calls();
  calls.fetch = [](int process, int number) {
    if (number == page_fd && ++page_calls == 2) return fcntl(of_another->fd(), F_DUPFD_CLOEXEC, 0);
    return system_owner_calls().fetch(process, number);
  };
  imports all(calls);
  std::size_t offset = 0, size = 0;
  EXPECT_EQ(fault_of([&] { all.open(bytes, offset, size); }), buffer_fault::forged);
  EXPECT_EQ(held(), 0u);
}

TEST_P(imports_gpu_test, import__of_another_driver) {
  owner_program owner(GetParam());
  const handle good = handle::decode(owner.with().hear());
  handle h = good;
  ++h.driver_version;
  // Nobody has published that.
  EXPECT_EQ(fault_of([&] { buffer::import(h.encode()); }), buffer_fault::forged);
}

// No descriptor of the memory is given, the page that tells of the handle may be read.
owner_calls calls_of_a_shut_owner(
    const handle& h, void (*asked)() = [] {}) {
  static int memory_fd = -1;
  static void (*when_asked)() = nullptr;
  memory_fd = h.memory_fd;
  when_asked = asked;
  owner_calls calls = system_owner_calls();
  calls.fetch = [](int process, int number) {
    if (number != memory_fd) return system_owner_calls().fetch(process, number);
    when_asked();
    errno = EPERM;
    return -1;
  };
  return calls;
}

TEST_F(imports_fabric_test, import__by_the_fabric_handle_where_no_descriptor_is_given) {
  {
    owner_program owner("fabric");
    const std::string bytes = owner.with().hear();
    const owner_calls calls = calls_of_a_shut_owner(handle::decode(bytes));
    imports all(calls);
    std::size_t offset = 0, size = 0;
    const auto memory = all.open(bytes, offset, size);
    EXPECT_NE(memory->how.find("by its fabric handle"), std::string::npos) << memory->how;
    EXPECT_EQ(mock()->contents(memory->at)[0], std::byte{7});
    mock()->contents(memory->at)[4095] = std::byte{9};
    owner.with().say("look");
    EXPECT_EQ(owner.with().hear(), "9");
  }
  EXPECT_EQ(held(), 0u);
}

TEST_F(imports_fabric_test, import__is_unreachable_where_the_driver_refuses_the_fabric_handle_too) {
  owner_program owner("fabric");
  const std::string bytes = owner.with().hear();
  const owner_calls calls = calls_of_a_shut_owner(handle::decode(bytes));
  imports all(calls);
  std::size_t offset = 0, size = 0;
  mock()->fail_nth("cuMemImportFromShareableHandle", 1, cuda::abi::result::not_permitted);
  try {
    all.open(bytes, offset, size);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const buffer_error& error) {
    EXPECT_EQ(error.fault(), buffer_fault::unreachable);
    EXPECT_NE(std::string(error.what()).find("cuMemImportFromShareableHandle failed"),
              std::string::npos);
    EXPECT_NE(std::string(error.what()).find("lets no process take"), std::string::npos);
  }
  EXPECT_EQ(held(), 0u);
}

// The memory is still there, so the driver maps it.
TEST_F(imports_fabric_test, import__of_a_handle_that_is_withdrawn_before_the_driver_maps_it) {
  static const owner_program* asked = nullptr;
  {
    owner_program owner("fabric");
    const std::string bytes = owner.with().hear();
    asked = &owner;
    const owner_calls calls = calls_of_a_shut_owner(handle::decode(bytes), [] {
      asked->with().say("withdraw");
      EXPECT_EQ(asked->with().hear(), "done");
    });
    imports all(calls);
    std::size_t offset = 0, size = 0;
    EXPECT_EQ(fault_of([&] { all.open(bytes, offset, size); }), buffer_fault::stale);
  }
  EXPECT_EQ(held(), 0u);
}

TEST_F(imports_fabric_test, import__needs_the_descriptor_of_memory_without_a_fabric_handle) {
  owner_program owner("vmm");
  const std::string bytes = owner.with().hear();
  const owner_calls calls = calls_of_a_shut_owner(handle::decode(bytes));
  imports all(calls);
  std::size_t offset = 0, size = 0;
  EXPECT_EQ(fault_of([&] { all.open(bytes, offset, size); }), buffer_fault::unreachable);
}

INSTANTIATE_TEST_SUITE_P(ways, imports_gpu_test, testing::Values("vmm", "ipc", "wrapped", "fabric"),
                         [](const auto& one) { return std::string(one.param); });

class own_gpu_buffer_test : public testing::Test {
 protected:
  void SetUp() override {
    if (mock() == nullptr || !gpu_available()) GTEST_SKIP() << "no mock driver";
  }
};

TEST_F(own_gpu_buffer_test, wrap__kinds_are_handled_or_refused_by_name) {
  using kind = test::mock_memory;
  EXPECT_EQ(gpu_count(), 2);
  buffer::create(1, 0);  // starts the driver
  const auto refusal = [](kind what) {
    void* const at = mock()->allocate(what, GPU_PAGE);
    std::string why;
    try {
      buffer::wrap(at, 100).export_handle();
    } catch (const buffer_error& error) {
      EXPECT_EQ(error.fault(), buffer_fault::not_exportable);
      why = error.what();
    }
    mock()->free(at);
    return why;
  };
  EXPECT_EQ(refusal(kind::device), "");
  EXPECT_EQ(refusal(kind::vmm), "");
  EXPECT_NE(refusal(kind::vmm_without_export).find("VMM memory has to be created"),
            std::string::npos);
  EXPECT_NE(refusal(kind::managed).find("managed"), std::string::npos);
  EXPECT_NE(refusal(kind::pool).find("cudaMallocAsync"), std::string::npos);
  EXPECT_NE(refusal(kind::pinned).find("pinned"), std::string::npos);
}

TEST_F(own_gpu_buffer_test, export_dma_buf__says_where_the_range_begins) {
  std::size_t offset = 0;
  buffer b = buffer::create(8192, 0);
  const base::descriptor fd(b.slice(5000, 100).export_dma_buf(offset));
  EXPECT_TRUE(fd);
  EXPECT_EQ(offset, 5000u - 4096);
  EXPECT_EQ(fault_of([&] { buffer::create(1).export_dma_buf(offset); }),
            buffer_fault::not_exportable);
  EXPECT_THROW(buffer().export_dma_buf(offset), argument_error);
}

TEST_F(own_gpu_buffer_test, copier__to_the_gpu_and_back) {
  buffer b = buffer::create(4096, 0);
  mock()->set_engine_thread(true);
  buffer_copier copies(0);
  std::array<char, 100> from{}, to{};
  from.fill('x');
  copies.start(b.data(), from.data(), from.size());
  copies.wait(copies.start(to.data(), b.data(), to.size()));
  mock()->set_engine_thread(false);
  EXPECT_EQ(to, from);
}

TEST_F(own_gpu_buffer_test, import__in_this_process_is_the_same_memory) {
  buffer b = buffer::create(8192, 0);
  buffer part = b.slice(100, 200);
  EXPECT_EQ(buffer::import(part.export_handle()).data(), part.data());
  buffer_ring ring(std::move(b), 2);
  EXPECT_EQ(ring.data(1), static_cast<char*>(ring.data(0)) + 4096);
}

}  // namespace
}  // namespace lci::share
