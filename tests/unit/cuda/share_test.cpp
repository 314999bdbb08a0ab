#include "backends/cuda/share.hpp"

#include <fcntl.h>
#include <unistd.h>

#include "tests/support/sizes.hpp"
#include "tests/unit/cuda/fixture.hpp"

namespace lci::cuda {
namespace {

using lci::test::MIB;

class share_test : public cuda_test {
 protected:
  gpu_list gpus_{driver_};
  allocation what(const void* pointer) { return classify(driver_.in_process(), pointer).what; }
  exported share(void* memory, std::size_t offset, std::size_t size) {
    return export_range(gpus_, what(memory), as_device(memory) + offset, size);
  }
  static bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }
};

TEST_F(share_test, device__legacy_handle_of_the_whole_allocation) {
  void* const memory = gpu_memory(MIB, 1);
  const exported out = share(memory, 4096, 100);
  EXPECT_EQ(out.why_not, "");
  EXPECT_EQ(out.ticket.way, share_way::legacy_ipc);
  EXPECT_EQ(out.ticket.base, as_device(memory));
  EXPECT_EQ(out.ticket.size, MIB);
  EXPECT_EQ(out.ticket.id, what(memory).id);
  EXPECT_FALSE(out.fd);
}

TEST_F(share_test, vmm__descriptor_and_no_handle_left) {
  void* const memory = mock().allocate(mocked::vmm, 2 * MIB);
  const exported out = share(memory, 0, 2 * MIB);
  EXPECT_EQ(out.why_not, "");
  EXPECT_EQ(out.ticket.way, share_way::vmm_descriptor);
  EXPECT_TRUE(out.fd);
  EXPECT_EQ(mock().count("cuMemRelease"), 1u);
}

TEST_F(share_test, vmm__fabric_handle_where_it_has_no_descriptor) {
  mock().reset({.fabric_handles = true});
  mock().start();
  const exported out = share(mock().allocate(mocked::vmm_fabric, 2 * MIB), 0, 2 * MIB);
  EXPECT_EQ(out.why_not, "");
  EXPECT_EQ(out.ticket.way, share_way::vmm_fabric);
  EXPECT_FALSE(out.fd);
  EXPECT_EQ(mock().count("cuMemRelease"), 1u);
}

TEST_F(share_test, kinds_that_cannot__are_named) {
  for (const auto& [kind, name] :
       {std::pair{mocked::pool, "stream-ordered"}, std::pair{mocked::managed, "managed"},
        std::pair{mocked::pinned, "pinned host"}, std::pair{mocked::vmm_without_export, "VMM"},
        std::pair{mocked::gpu_only_host, "GPU-only host"}}) {
    const exported out = share(mock().allocate(kind, 2 * MIB), 0, 8);
    EXPECT_EQ(out.ticket.way, share_way::none);
    EXPECT_TRUE(has(out.why_not, name)) << out.why_not;
  }
  int here = 0;
  EXPECT_TRUE(has(share(&here, 0, 4).why_not, "host memory"));
}

TEST_F(share_test, vmm__without_block_ids_is_not_shared) {
  mock().reset({.knows_block_id = false});
  mock().start();
  EXPECT_TRUE(has(share(mock().allocate(mocked::vmm, 2 * MIB), 0, 8).why_not, "cannot tell"));
}

TEST_F(share_test, range_beyond_the_allocation__is_refused) {
  void* const memory = gpu_memory(MIB);
  EXPECT_TRUE(has(share(memory, MIB - 4, 8).why_not, "beyond its allocation"));
  void* const mapped = mock().allocate(mocked::vmm, 2 * MIB);
  EXPECT_TRUE(has(share(mapped, 2 * MIB - 4, 8).why_not, "beyond its mapping"));
}

TEST_F(share_test, each_failing_call__is_a_sentence_and_leaves_nothing) {
  void* const memory = gpu_memory(MIB);
  void* const mapped = mock().allocate(mocked::vmm, 2 * MIB);
  for (const char* call : {"cuIpcGetMemHandle", "cuCtxPushCurrent"}) {
    mock().fail_nth(call, 1, abi::result::invalid_value);
    EXPECT_TRUE(has(share(memory, 0, 8).why_not, std::string(call) + " failed on device memory"));
  }
  for (const char* call : {"cuMemRetainAllocationHandle", "cuMemExportToShareableHandle"}) {
    mock().fail_nth(call, 1, abi::result::not_permitted);
    EXPECT_TRUE(has(share(mapped, 0, 8).why_not, std::string(call) + " failed on VMM memory"));
  }
}

TEST_F(share_test, ticket__survives_the_wire) {
  exported out = share(gpu_memory(MIB), 0, 8);
  out.ticket.id.block_id = 77;
  const auto bytes = out.ticket.encode();
  const auto back = share_ticket::decode(bytes);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->way, out.ticket.way);
  EXPECT_EQ(back->base, out.ticket.base);
  EXPECT_EQ(back->size, out.ticket.size);
  EXPECT_EQ(back->id, out.ticket.id);
  EXPECT_EQ(std::memcmp(&back->handle, &out.ticket.handle, sizeof(back->handle)), 0);
}

TEST_F(share_test, ticket__what_does_not_parse_is_rejected) {
  const auto good = share(gpu_memory(MIB), 0, 8).ticket.encode();
  for (std::size_t length = 0; length < good.size(); ++length)
    EXPECT_FALSE(share_ticket::decode(std::span(good).first(length)));
  for (const auto& [at, value] : {std::pair{0, 2}, std::pair{1, 0}, std::pair{1, 4},
                                  std::pair{1, 9}, std::pair{2, 1}, std::pair{7, 1}}) {
    auto bad = good;
    bad[static_cast<std::size_t>(at)] = static_cast<std::byte>(value);
    EXPECT_FALSE(share_ticket::decode(bad)) << at << " " << value;
  }
  auto empty = good, endless = good;
  std::memset(empty.data() + 16, 0, 8);
  std::memset(endless.data() + 8, 0xff, 16);
  EXPECT_FALSE(share_ticket::decode(empty));
  EXPECT_FALSE(share_ticket::decode(endless));
}

TEST_F(share_test, descriptor__is_closed_exactly_once) {
  int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  {
    descriptor one(fd);
    descriptor two(std::move(one));
    descriptor three;
    three = std::move(two);
    EXPECT_FALSE(one);  // NOLINT(bugprone-use-after-move): that is the question
    EXPECT_EQ(three.get(), fd);
    EXPECT_EQ(fcntl(fd, F_GETFD), FD_CLOEXEC);
  }
  EXPECT_EQ(fcntl(fd, F_GETFD), -1);
  descriptor kept(open("/dev/null", O_RDONLY | O_CLOEXEC));
  fd = kept.release();
  kept.reset();
  EXPECT_EQ(fcntl(fd, F_GETFD), FD_CLOEXEC);
  close(fd);
}

}  // namespace
}  // namespace lci::cuda
