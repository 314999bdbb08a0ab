#include "backends/cuda/memory_sharing.hpp"

#include <memory>
#include <new>

#include "lci/errors.hpp"
#include "tests/support/descriptor_passing.hpp"
#include "tests/support/failing_new/each_allocation.hpp"
#include "tests/support/sizes.hpp"
#include "tests/unit/cuda/fixture.hpp"
#include "tests/unit/cuda/two_processes.hpp"

namespace lci::cuda {
namespace {

using lci::test::MIB;
using memory_sharing_kind = test::mock_memory;

class memory_sharing_test : public cuda_test {
 protected:
  static bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }
  void restart(const test::mock_config& config) {
    sharing_.reset();
    mock().reset(config);
    mock().start();
    sharing_ = std::make_unique<memory_sharing>(driver_, pointers_);
  }
  pointer_cache pointers_{driver_};
  std::unique_ptr<memory_sharing> sharing_ = std::make_unique<memory_sharing>(driver_, pointers_);
  std::string how_, why_not_;
};

TEST_F(memory_sharing_test, allocate__vmm_that_can_be_exported_in_any_part) {
  void* const at = sharing_->allocate(3 * MIB, 1, how_);
  EXPECT_TRUE(has(how_, "GPU 1, VMM")) << how_;
  const mem::exported_range out = sharing_->export_range(static_cast<char*>(at) + 100, 50);
  EXPECT_EQ(out.why_not, "");
  EXPECT_TRUE(out.fd);
  EXPECT_EQ(out.offset, 100u);
  EXPECT_EQ(out.memory_size, 4 * MIB);
  EXPECT_EQ(out.ticket.size(), mem::SHARE_TICKET_BYTES);
  sharing_->release(at);
  sharing_->release(at);  // twice is once
}

TEST_F(memory_sharing_test, allocate__cuda_ipc_where_there_is_no_vmm) {
  restart({.vmm_descriptors = false});
  void* const at = sharing_->allocate(MIB, 0, how_);
  EXPECT_TRUE(has(how_, "cuMemAlloc with CUDA IPC")) << how_;
  const mem::exported_range out = sharing_->export_range(at, MIB);
  EXPECT_EQ(out.why_not, "");
  EXPECT_FALSE(out.fd);
  EXPECT_EQ(out.how, "CUDA IPC");
  sharing_->release(at);
}

TEST_F(memory_sharing_test, allocate__with_a_fabric_handle_where_there_is_one) {
  restart({.fabric_handles = true});
  void* const at = sharing_->allocate(MIB, 0, how_);
  EXPECT_TRUE(has(how_, "descriptor and a fabric handle")) << how_;
  mem::exported_range out = sharing_->export_range(at, MIB);
  EXPECT_EQ(out.why_not, "");
  EXPECT_TRUE(out.fd);
  EXPECT_EQ(out.how, "a descriptor of VMM memory, or its fabric handle");
  EXPECT_EQ(sharing_->way_without_descriptor(out.ticket), "its fabric handle");
  // The driver gives it no more: the descriptor is enough.
  mock().fail_nth("cuMemExportToShareableHandle", 2, abi::result::not_permitted);
  out = sharing_->export_range(at, MIB);
  EXPECT_TRUE(out.fd);
  EXPECT_EQ(out.how, "a descriptor of VMM memory");
  EXPECT_EQ(sharing_->way_without_descriptor(out.ticket), "");
  sharing_->release(at);
}

TEST_F(memory_sharing_test, allocate__as_before_where_this_process_may_not_have_one) {
  restart({.fabric_handles = true, .fabric_allowed = false});
  void* const at = sharing_->allocate(MIB, 0, how_);
  EXPECT_TRUE(how_.ends_with("VMM with a posix file descriptor")) << how_;
  EXPECT_EQ(mock().count("cuMemCreate"), 2u);
  const mem::exported_range out = sharing_->export_range(at, MIB);
  EXPECT_EQ(out.how, "a descriptor of VMM memory");
  sharing_->release(at);
  mock().fail_nth("cuMemCreate", 2, abi::result::out_of_memory);
  EXPECT_THROW(sharing_->allocate(MIB, 0, how_), backend_error);
}

// As expanding segments of an allocator that asks for nothing else.
TEST_F(memory_sharing_test, export_range__of_memory_that_has_a_fabric_handle_only) {
  restart({.fabric_handles = true});
  void* const at = mock().allocate(memory_sharing_kind::vmm_fabric, 2 * MIB);
  const mem::exported_range out = sharing_->export_range(at, 8);
  EXPECT_EQ(out.why_not, "");
  EXPECT_FALSE(out.fd);
  EXPECT_EQ(out.how, "a fabric handle of VMM memory");
  mock().fail_nth("cuMemExportToShareableHandle", 1, abi::result::not_permitted);
  EXPECT_TRUE(has(sharing_->export_range(at, 8).why_not, "cuMemExportToShareableHandle failed"));
}

TEST_F(memory_sharing_test, allocate__every_gpu_with_peer_access_may_access_it) {
  void* const at = sharing_->allocate(MIB, 1, how_);
  EXPECT_TRUE(mock().has_access(at, 1));
  EXPECT_TRUE(mock().has_access(at, 0));
  sharing_->release(at);
}

// The others have it all the same, and the memory is what it would be with one GPU.
TEST_F(memory_sharing_test, allocate__a_gpu_that_cannot_is_left_out) {
  mock().fail_nth("cuMemSetAccess", 2, abi::result::not_permitted);
  void* at = sharing_->allocate(MIB, 1, how_);
  EXPECT_TRUE(has(how_, "GPU 1, VMM")) << how_;
  EXPECT_TRUE(mock().has_access(at, 1));
  EXPECT_FALSE(mock().has_access(at, 0));
  sharing_->release(at);
  restart({.peer_access = false});
  at = sharing_->allocate(MIB, 1, how_);
  EXPECT_TRUE(has(how_, "GPU 1, VMM")) << how_;
  EXPECT_TRUE(mock().has_access(at, 1));
  EXPECT_EQ(mock().count("cuMemSetAccess"), 1u);
  sharing_->release(at);
}

TEST_F(memory_sharing_test, allocate__each_failing_call_falls_back_or_throws_and_leaves_nothing) {
  for (const char* call : {"cuMemCreate", "cuMemAddressReserve", "cuMemMap", "cuMemSetAccess",
                           "cuMemGetAllocationGranularity"}) {
    mock().fail_nth(call, 1, abi::result::not_permitted);
    void* const at = sharing_->allocate(MIB, 0, how_);
    EXPECT_TRUE(has(how_, std::string("CUDA IPC (") + call)) << how_;
    sharing_->release(at);
    mock().fail_nth(call, 1, abi::result::out_of_memory);
    EXPECT_THROW(sharing_->allocate(MIB, 0, how_), backend_error) << call;
  }
  EXPECT_THROW(sharing_->allocate(~std::size_t{0}, 0, how_), backend_error);
  EXPECT_THROW(sharing_->allocate(MIB, 2, how_), backend_error);
  EXPECT_THROW(sharing_->allocate(MIB, -3, how_), backend_error);
}

TEST_F(memory_sharing_test, allocate__want_of_host_memory_leaves_nothing) {
  for (const bool has_vmm : {true, false}) {
    restart({.vmm_descriptors = has_vmm});
    sharing_->release(sharing_->allocate(MIB, 0, how_));  // with the context, which stays
    mock().call_around(&test::pause_failing_new, &test::resume_failing_new);
    test::for_each_allocation([&](std::uint64_t n) {
      bool has_fired = false;
      {
        const test::fail_nth_new failing(n);
        std::string how;
        try {
          sharing_->release(sharing_->allocate(MIB, 0, how));
        } catch (const std::bad_alloc&) {
        }
        has_fired = failing.fired();
      }
      EXPECT_EQ(mock().count("cuMemMap"), mock().count("cuMemUnmap"));
      EXPECT_EQ(mock().count("cuMemAlloc"), mock().count("cuMemFree"));
      return has_fired;
    });
  }
}

TEST_F(memory_sharing_test, export_range__kinds_that_cannot_are_named) {
  for (const auto& [kind, name] : {std::pair{memory_sharing_kind::vmm_without_export, "VMM"},
                                   std::pair{memory_sharing_kind::pool, "stream-ordered"},
                                   std::pair{memory_sharing_kind::managed, "managed"}}) {
    void* const at = mock().allocate(kind, 2 * MIB);
    EXPECT_TRUE(has(sharing_->export_range(at, 8).why_not, name));
  }
}

// As segments that grow: two mappings side by side, and a range that lies on both.
TEST_F(memory_sharing_test, export_range__over_two_mappings_is_refused) {
  void* const at = mock().allocate(memory_sharing_kind::vmm, 2 * MIB);
  const mem::exported_range out = sharing_->export_range(static_cast<char*>(at) + MIB, 2 * MIB);
  EXPECT_TRUE(has(out.why_not, "beyond its mapping")) << out.why_not;
}

TEST_F(memory_sharing_test, map__what_does_not_fit_is_refused) {
  void* const at = mock().allocate(memory_sharing_kind::device, MIB);
  const mem::exported_range good = sharing_->export_range(at, MIB);
  int device = 0;
  const auto refused = [&](auto&& change) {
    mem::share_request what;
    what.owner = 1;
    std::vector<std::byte> ticket = good.ticket;
    what.pci = good.pci;
    what.memory_size = good.memory_size;
    what.size = MIB;
    change(what, ticket);
    what.ticket = ticket;
    return !sharing_->map(std::move(what), device, why_not_) && !why_not_.empty();
  };
  using request = mem::share_request;
  using bytes = std::vector<std::byte>;
  EXPECT_TRUE(refused([](request& r, bytes&) { r.size = MIB + 1; }));
  EXPECT_TRUE(refused([](request& r, bytes&) { r.offset = ~std::uint64_t{0}; }));
  EXPECT_TRUE(refused([](request& r, bytes&) { r.memory_size = 2 * MIB; }));
  EXPECT_TRUE(refused([](request& r, bytes&) { r.pci = "0000:ff:00.0"; }));
  EXPECT_TRUE(has(why_not_, "0000:ff:00.0 is not visible"));
  EXPECT_TRUE(refused([](request&, bytes& t) { t.resize(8); }));
  EXPECT_TRUE(refused([](request&, bytes& t) { t[1] = std::byte{2}; }));  // VMM without descriptor
  // The driver has the last word: its own handle is not opened in the process that made it.
  EXPECT_TRUE(refused([](request&, bytes&) {}));
}

TEST_F(memory_sharing_test, wait_for_device__ends_what_runs) {
  void* const at = sharing_->allocate(MIB, 0, how_);
  const auto copies = sharing_->open_copies(0);
  std::vector<std::byte> bytes = pattern(64, 1);
  copies->start(static_cast<std::byte*>(at), bytes.data(), bytes.size());
  EXPECT_EQ(copies->ended(0), 0u);
  sharing_->wait_for_device(0);
  EXPECT_EQ(copies->ended(0), 1u);
  EXPECT_EQ(read(at, 64), bytes);
  sharing_->flush_outside_writes(0);
  EXPECT_EQ(mock().count("cuFlushGPUDirectRDMAWrites"), 1u);
  mock().fail_nth("cuCtxSynchronize", 1, abi::result::launch_failed);
  EXPECT_THROW(sharing_->wait_for_device(0), backend_error);
  sharing_->release(at);
}

// Two real processes: the owner makes memory and exports a part of it, the user maps and fills it.
class memory_sharing_pair_test : public two_processes {
 protected:
  struct wire_form {
    std::array<std::byte, mem::SHARE_TICKET_BYTES> ticket;
    std::uint64_t memory_size, offset;
    char pci[32];
  };
  void run_with(const test::mock_config& config) {
    mock().reset(config);
    run_both(
        [](int fd) {
          mock().start();
          driver d{mock_options()};
          pointer_cache pointers{d};
          memory_sharing here(d, pointers);
          std::string how;
          auto* const at = static_cast<std::byte*>(here.allocate(2 * MIB, 1, how));
          const mem::exported_range out = here.export_range(at + 4096, 4096);
          wire_form w{};
          std::copy(out.ticket.begin(), out.ticket.end(), w.ticket.begin());
          w.memory_size = out.memory_size;
          w.offset = out.offset;
          out.pci.copy(w.pci, sizeof(w.pci));
          const bool is_fabric = here.way_without_descriptor(out.ticket) == "its fabric handle";
          ASSERT_TRUE(test::send_with_descriptor(fd, std::as_bytes(std::span(&w, 1)),
                                                 is_fabric ? -1 : out.fd.get()));
          char c = 0;
          ASSERT_EQ(::read(fd, &c, 1), 1);
          EXPECT_EQ(std::memcmp(mock().contents(at + 4096), some_bytes(4096, 3).data(), 4096), 0);
          here.release(at);
        },
        [&config](int fd) {
          mock().start();
          wire_form w{};
          int got = -1;
          ASSERT_TRUE(
              test::receive_with_descriptor(fd, std::as_writable_bytes(std::span(&w, 1)), got));
          driver d{mock_options()};
          pointer_cache pointers{d};
          memory_sharing here(d, pointers);
          std::string why_not;
          int device = -1;
          mem::share_request what{7,        w.ticket, descriptor(got), w.pci, w.memory_size,
                                  w.offset, 4096};
          {
            const mem::mapped_memory mapped = here.map(std::move(what), device, why_not);
            ASSERT_TRUE(mapped) << why_not;
            EXPECT_EQ(device, 1);
            if (config.vmm_descriptors) {
              EXPECT_TRUE(mock().has_access(mapped.at(), 0));
              EXPECT_TRUE(mock().has_access(mapped.at(), 1));
            }
            const auto copies = here.open_copies(device);
            const std::vector<std::byte> bytes = some_bytes(4096, 3);
            copies->start(mapped.at(), bytes.data(), bytes.size());
            here.wait_for_device(device);
            EXPECT_EQ(copies->ended(1), 1u);
          }
          // Nothing unused is kept.
          EXPECT_EQ(mock().count(config.vmm_descriptors ? "cuMemUnmap" : "cuIpcCloseMemHandle"),
                    1u);
          ASSERT_EQ(write(fd, "x", 1), 1);
        });
  }
};

TEST_F(memory_sharing_pair_test, vmm__bytes_arrive_and_nothing_stays) { run_with({}); }
TEST_F(memory_sharing_pair_test, cuda_ipc__bytes_arrive_and_nothing_stays) {
  run_with({.vmm_descriptors = false});
}
TEST_F(memory_sharing_pair_test, fabric_handle__bytes_arrive_and_nothing_stays) {
  run_with({.fabric_handles = true});
}

}  // namespace
}  // namespace lci::cuda
