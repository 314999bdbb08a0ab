// Modules and launches: what a program with kernels calls. Device code is not run; kernels that are
// known here by name are done by the processor in the place of the stream where they were put. The
// pointers in their parameter are addresses of the mock's device memory or of host memory that the
// driver knows.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

#include "backends/cuda/atomic_command.hpp"
#include "backends/cuda/resident_command.hpp"
#include "lci/wqe/c_face_calls.hpp"
#include "tests/support/device_code/contents.hpp"
#include "tests/support/mock_cuda/state.hpp"

namespace lci::mock {
namespace {

using test::task;
using test::verdict;

task task_of(const std::byte* parameter) {
  task t;
  std::memcpy(&t, parameter, sizeof(t));
  return t;
}

template <class T>
T* memory_of(state& s, T* at, std::size_t count = 1) {
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  if (s.find(address, count * sizeof(T)) == nullptr) return nullptr;
  return reinterpret_cast<T*>(s.resolve(address, count * sizeof(T)));
}

bool at_once(state&, const std::byte*) { return true; }

result fill(state& s, const std::byte* parameter) {
  const task t = task_of(parameter);
  if (t.what.count == 0) return result::success;
  unsigned char* const to = memory_of(s, t.what.at, t.what.count);
  if (to == nullptr) return result::illegal_address;
  fill_here(t.what, to);
  return result::success;
}

result add_verdict(state& s, const task& t, const verdict& found) {
  verdict* const out = memory_of(s, t.out);
  if (out == nullptr) return result::illegal_address;
  out->wrong += found.wrong;
  out->first = std::min(out->first, found.first);
  out->gave_up = std::max(out->gave_up, found.gave_up);
  return result::success;
}

result compare(state& s, const std::byte* parameter) {
  const task t = task_of(parameter);
  if (t.what.count == 0) return result::success;
  const unsigned char* const found = memory_of(s, t.what.at, t.what.count);
  if (found == nullptr) return result::illegal_address;
  return add_verdict(s, t, compare_here(t.what, found));
}

// Words that somebody polls, each from when on.
using clock = std::chrono::steady_clock;
std::map<const void*, clock::time_point>& polled() {
  static std::map<const void*, clock::time_point> all;
  return all;
}

bool is_told(state& s, const task& t) {
  const std::uint64_t* const word = memory_of(s, t.word);
  return word != nullptr && __atomic_load_n(word, __ATOMIC_ACQUIRE) == t.value;
}

bool is_told_or_tired(state& s, const std::byte* parameter) {
  const task t = task_of(parameter);
  const auto since = polled().emplace(t.word, clock::now()).first->second;
  return is_told(s, t) || clock::now() - since > std::chrono::nanoseconds(t.patience);
}

result compare_when_told(state& s, const std::byte* parameter) {
  const task t = task_of(parameter);
  polled().erase(t.word);
  if (is_told(s, t)) return compare(s, parameter);
  verdict gave_up;
  gave_up.gave_up = 1;
  return add_verdict(s, t, gave_up);
}

// The kernels of lci/wqe/kernels.cuh, on host memory that the driver knows.
template <class Parameters, std::int64_t (*call)(const Parameters&) noexcept>
result wqe_call(state& s, const std::byte* parameter) {
  Parameters p;
  std::memcpy(&p, parameter, sizeof(p));
  std::int64_t* const answer = memory_of(s, p.answer);
  if (answer == nullptr) return result::illegal_address;
  *answer = call(p);
  return result::success;
}

constexpr emulated_kernel KERNELS[] = {
    {"lci_cu_send_wqe", sizeof(lci_send_wqe_params_t), &at_once,
     &wqe_call<lci_send_wqe_params_t, &wqe::c_face::send>},
    {"lci_cu_recv_wqe", sizeof(lci_recv_wqe_params_t), &at_once,
     &wqe_call<lci_recv_wqe_params_t, &wqe::c_face::receive>},
    {"lci_cu_db_ring", sizeof(lci_db_ring_params_t), &at_once,
     &wqe_call<lci_db_ring_params_t, &wqe::c_face::ring>},
    {"lci_cu_cqe_poll", sizeof(lci_cqe_poll_params_t), &at_once,
     &wqe_call<lci_cqe_poll_params_t, &wqe::c_face::poll>},
    {"lci_test_fill", sizeof(task), &at_once, &fill},
    {"lci_test_compare", sizeof(task), &at_once, &compare},
    {"lci_test_compare_when_told", sizeof(task), &is_told_or_tired, &compare_when_told},
    {cuda::resident_layout::KERNEL, sizeof(cuda::resident_layout::arguments), &at_once, nullptr,
     &step_resident_copy},
    {cuda::atomic_layout::KERNEL, sizeof(cuda::atomic_layout::arguments), &at_once, nullptr,
     &step_atomic_words},
};

const emulated_kernel* kernel_of(const void* handle) {
  for (const emulated_kernel& each : KERNELS) {
    if (&each == handle) return &each;
  }
  return nullptr;
}

// The driver waits for the streams, and whoever would let them go on may be the caller.
void refuse_to_wait_for_streams(const state& s, const char* call) {
  for (const stream* const each : s.streams)
    for (const operation& op : each->queue) {
      if (op.kind != operation::what::wait_value) continue;
      std::fprintf(stderr, "mock: %s while a stream waits for a value: the driver hangs\n", call);
      std::abort();
    }
}

constexpr auto INVALID_IMAGE = static_cast<result>(200);
constexpr std::uint32_t FATBIN = 0xBA55ED50;  // how every image of nvcc -fatbin begins

}  // namespace
}  // namespace lci::mock

namespace {

using lci::cuda::abi::result;
using lci::cuda::abi::stream;
using lci::mock::guarded;
using lci::mock::needs;
using lci::mock::state;

#define LCI_MOCK_EXPORT extern "C" __attribute__((visibility("default")))

}  // namespace

LCI_MOCK_EXPORT result cuModuleLoadData(void** out, const void* image) {
  return guarded("cuModuleLoadData", needs::context, [&](state& s) {
    if (const result no = lci::mock::unsafe_in_capture(); no != result::success) return no;
    lci::mock::refuse_to_wait_for_streams(s, "cuModuleLoadData");
    std::uint32_t first = 0;
    std::memcpy(&first, image, sizeof(first));
    if (first != lci::mock::FATBIN) return lci::mock::INVALID_IMAGE;
    *out = new char;
    s.modules.insert(*out);
    return result::success;
  });
}

LCI_MOCK_EXPORT result cuModuleUnload(void* module) {
  return guarded("cuModuleUnload", needs::context, [&](state& s) {
    lci::mock::note_blocking("cuModuleUnload");
    if (s.modules.erase(module) == 0) return result::invalid_handle;
    delete static_cast<char*>(module);
    return result::success;
  });
}

LCI_MOCK_EXPORT result cuModuleGetFunction(const void** out, void* module, const char* name) {
  return guarded("cuModuleGetFunction", needs::context, [&](state& s) {
    if (s.modules.count(module) == 0) return result::invalid_handle;
    for (const lci::mock::emulated_kernel& each : lci::mock::KERNELS) {
      if (std::strcmp(each.name, name) != 0) continue;
      *out = &each;
      return result::success;
    }
    return result::not_found;
  });
}

LCI_MOCK_EXPORT result cuLaunchKernel(const void* function, unsigned grid_x, unsigned grid_y,
                                      unsigned grid_z, unsigned block_x, unsigned block_y,
                                      unsigned block_z, unsigned, stream where, void** parameters,
                                      void**) {
  return guarded("cuLaunchKernel", needs::context, [&](state& s) {
    lci::mock::stream* given = nullptr;
    if (const result bad = check_stream(s, where, given); bad != result::success) return bad;
    const lci::mock::emulated_kernel* const kernel = lci::mock::kernel_of(function);
    const bool is_empty = grid_x == 0 || grid_y == 0 || grid_z == 0 || block_y == 0 || block_z == 0;
    if (kernel == nullptr) return result::invalid_handle;
    if (is_empty || block_x == 0 || block_x * block_y * block_z > 1024)
      return result::invalid_value;
    lci::mock::operation op;
    op.kind = lci::mock::operation::what::launch;
    op.kernel = kernel;
    op.blocks = grid_x;
    const auto* const first = static_cast<const std::byte*>(parameters[0]);
    op.parameter.assign(first, first + kernel->parameter);
    lci::mock::put(*given, op);
    return result::success;
  });
}

// Runs what can run until the stream is through; what it waits for may be the work of other
// threads.
LCI_MOCK_EXPORT result cuStreamSynchronize(stream where) {
  for (;;) {
    bool is_stuck = false;
    const result answer = guarded("cuStreamSynchronize", needs::context, [&](state& s) {
      lci::mock::stream* given = nullptr;
      if (const result bad = check_stream(s, where, given); bad != result::success) return bad;
      lci::mock::note_blocking("cuStreamSynchronize");
      if (given->queue.empty()) return result::success;
      is_stuck = !s.run_one();
      return result::not_ready;
    });
    if (answer != result::not_ready) return answer;
    if (is_stuck) std::this_thread::yield();
  }
}

namespace {

// One question is asked, and every kernel here answers it alike.
result get_function_attribute(int* value, lci::cuda::abi::function_attribute,
                              lci::cuda::abi::function which) {
  return guarded("cuFuncGetAttribute", needs::context, [&](state&) {
    if (lci::mock::kernel_of(which) == nullptr) return result::invalid_handle;
    *value = 1024;
    return result::success;
  });
}

result load_data(lci::cuda::abi::code_module* out, const void* image) {
  void* made = nullptr;
  const result answer = cuModuleLoadData(&made, image);
  if (answer == result::success) *out = reinterpret_cast<lci::cuda::abi::code_module>(made);
  return answer;
}

result unload(lci::cuda::abi::code_module module) { return cuModuleUnload(module); }

result get_function(lci::cuda::abi::function* out, lci::cuda::abi::code_module module,
                    const char* name) {
  const void* found = nullptr;
  const result answer = cuModuleGetFunction(&found, module, name);
  if (answer == result::success)
    *out = static_cast<lci::cuda::abi::function>(const_cast<void*>(found));
  return answer;
}

result launch(lci::cuda::abi::function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
              unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared, stream where,
              void** parameters, void** extra) {
  return cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, where,
                        parameters, extra);
}

}  // namespace

// The same for who asks by cuGetProcAddress.
void lci::mock::fill_kernels(functions& table) {
  table.module_load_data = &load_data;
  table.module_unload = &unload;
  table.module_get_function = &get_function;
  table.func_get_attribute = &get_function_attribute;
  table.launch_kernel = &launch;
}
