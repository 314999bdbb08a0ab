#include "backends/cuda/wqe_launch.hpp"

#include "lci/errors.hpp"
#include "lci/wqe/c_face.h"
#include "tests/unit/cuda/fixture.hpp"

namespace lci::cuda {
namespace {

// How every image of nvcc begins; the mock knows the kernels by name.
constexpr unsigned char IMAGE[] = {0x50, 0xed, 0x55, 0xba};

class wqe_launch_test : public cuda_test {
 protected:
  wqe_launch_test() {
    driver_.require();
    mock().set_engine_thread(true);
  }
  ~wqe_launch_test() override { mock().set_engine_thread(false); }
  template <class Parameters>
  std::int64_t launch(const char* kernel, const Parameters& p) {
    return wqe_launch(gpus_.at(0), IMAGE, kernel)(p);
  }
  gpu_list gpus_{driver_};
};

// A request written, rung for and completed by kernels, as a processor would do it.
TEST_F(wqe_launch_test, run__a_request_from_the_first_byte_to_its_completion) {
  auto* const memory = static_cast<unsigned char*>(mock().allocate(mocked::pinned, 4096));
  std::memset(memory, 0, 4096);
  auto* const record = reinterpret_cast<std::uint32_t*>(memory + 1024);
  lci_send_wqe_params_t send{};
  send.ring = memory;
  send.wqe_cnt = 4;
  send.opcode = LCI_WQE_NOP;
  send.qpn = 0x123;
  send.signaled = 1;
  EXPECT_EQ(launch("lci_cu_send_wqe", send), 1);
  EXPECT_EQ(memory[7], 1);
  lci_recv_wqe_params_t receive{};
  receive.ring = memory + 512;
  receive.wqe_cnt = 4;
  receive.length = 64;
  EXPECT_EQ(launch("lci_cu_recv_wqe", receive), 1);
  EXPECT_EQ(memory[512 + 3], 64);
  lci_db_ring_params_t bell{};
  bell.dbrec = record;
  bell.target = memory + 1088;
  bell.ring = memory;
  bell.wqe_cnt = 4;
  bell.next_index = 1;
  EXPECT_EQ(launch("lci_cu_db_ring", bell), 0);
  EXPECT_EQ(record[1], 0x01000000u);
  lci_cqe_poll_params_t poll{};
  poll.cq = memory + 2048;
  poll.cqe_cnt = 4;
  memory[2048 + 63] = 0xf0;
  EXPECT_EQ(launch("lci_cu_cqe_poll", poll), LCI_WQE_NOTHING);
  memory[2048 + 63] = 0;
  EXPECT_EQ(launch("lci_cu_cqe_poll", poll), 0);
  send.qpn = 1u << 24;
  EXPECT_EQ(launch("lci_cu_send_wqe", send), LCI_WQE_BAD_QPN);
  mock().free(memory);
}

TEST_F(wqe_launch_test, run__every_call_that_fails_is_named_and_leaves_nothing) {
  for (const char* call : {"cuModuleLoadData", "cuModuleGetFunction", "cuStreamCreate",
                           "cuMemHostAlloc", "cuMemHostGetDevicePointer", "cuLaunchKernel"}) {
    mock().fail_nth(call, 1, abi::result::out_of_memory);
    try {
      launch("lci_cu_send_wqe", lci_send_wqe_params_t{});
      ADD_FAILURE() << call;
    } catch (const backend_error& error) {
      EXPECT_NE(std::string(error.what()).find(call), std::string::npos) << error.what();
    }
  }
  EXPECT_THROW(launch("no_such_kernel", lci_send_wqe_params_t{}), backend_error);
}

TEST_F(wqe_launch_test, run__without_device_code_says_how_to_get_it) {
  try {
    wqe_launch(gpus_.at(0), {}, "lci_cu_send_wqe");
    ADD_FAILURE() << "accepted";
  } catch (const backend_error& error) {
    EXPECT_NE(std::string(error.what()).find("-DLCI_USE_CUDA=ON"), std::string::npos);
  }
}

}  // namespace
}  // namespace lci::cuda
