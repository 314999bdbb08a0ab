// The calls of lci/wqe/c_face.h that need a GPU. No exception leaves them: the text of one stays
// with the thread until its next.
#include <exception>
#include <new>
#include <string>
#include <utility>

#include "backends/cuda/queue_memory.hpp"
#include "backends/cuda/wqe_launch.hpp"
#include "lci/errors.hpp"
#include "lci/wqe/c_face.h"

namespace lci::cuda {
namespace {

// Made at the first call, so a program without these calls has none of it. Never destroyed: kernels
// may still use what was registered.
struct process {
  driver cuda;
  gpu_list gpus{cuda};
  queue_memory& memory = registered_queues();
};
process& this_process() {
  static process* const one = new process;
  return *one;
}

std::string& last_reason() {
  thread_local std::string reason;
  return reason;
}

// Of the calling thread's current context, or the first one.
gpu& chosen(process& all) {
  abi::device current = 0;
  if (all.cuda.call().ctx_get_device(&current) != abi::result::success) current = 0;
  return all.gpus.at(current);
}

template <class Work>
std::int64_t guarded(const Work& work) noexcept {
  try {
    process& all = this_process();
    if (std::string why = all.cuda.why_not(); !why.empty()) {
      last_reason() = std::move(why);
      return LCI_WQE_NO_GPU;
    }
    return work(all, chosen(all));
  } catch (const std::exception& error) {
    try {
      last_reason() = error.what();
    } catch (const std::bad_alloc&) {
      last_reason().clear();  // the status counts
    }
    return LCI_WQE_CUDA_ERROR;
  }
}

template <class Parameters>
std::int64_t launched(const char* kernel, const Parameters& parameters) noexcept {
  return guarded([&](process&, gpu& g) -> std::int64_t {
    return wqe_launch(g, wqe_image(), kernel)(parameters);
  });
}

}  // namespace
}  // namespace lci::cuda

using lci::cuda::guarded;
using lci::cuda::launched;

int64_t lci_launch_send_wqe(lci_send_wqe_params_t params) {
  return launched("lci_cu_send_wqe", params);
}
int64_t lci_launch_recv_wqe(lci_recv_wqe_params_t params) {
  return launched("lci_cu_recv_wqe", params);
}
int64_t lci_launch_db_ring(lci_db_ring_params_t params) {
  return launched("lci_cu_db_ring", params);
}
int64_t lci_launch_cqe_poll(lci_cqe_poll_params_t params) {
  return launched("lci_cu_cqe_poll", params);
}

int64_t lci_register_cuda_memory(lci_cuda_memory_t* memory, size_t count) {
  using lci::cuda::queue_memory;
  return guarded([&](lci::cuda::process& all, lci::cuda::gpu& g) -> int64_t {
    size_t done = 0;
    try {
      for (; done < count; ++done) {
        lci_cuda_memory_t& m = memory[done];
        m.gpu = all.memory.add(
            g, m.host, m.size,
            m.is_register != 0 ? queue_memory::kind::card_register : queue_memory::kind::memory);
      }
    } catch (...) {
      while (done-- > 0) {
        all.memory.remove(g, memory[done].host, memory[done].size);
        memory[done].gpu = nullptr;
      }
      throw;
    }
    return LCI_WQE_OK;
  });
}

int64_t lci_unregister_cuda_memory(const lci_cuda_memory_t* memory, size_t count) {
  return guarded([&](lci::cuda::process& all, lci::cuda::gpu& g) -> int64_t {
    std::string why;
    for (size_t i = 0; i < count; ++i) {
      try {
        if (!all.memory.remove(g, memory[i].host, memory[i].size))
          why = "cuda: queue memory that is not registered";
      } catch (const std::exception& error) {
        why = error.what();  // the others go all the same
      }
    }
    if (!why.empty()) throw lci::backend_error(why);
    return LCI_WQE_OK;
  });
}

const char* lci_wqe_last_reason(void) { return lci::cuda::last_reason().c_str(); }
