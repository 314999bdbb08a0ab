// Start, GPUs, contexts, capture modes.
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "tests/support/mock_cuda/state.hpp"

namespace lci::mock {
namespace {

using cuda::abi::capture_mode;
using cuda::abi::device;
using cuda::abi::device_attribute;

thread_local std::vector<context*> stack_tls;
thread_local capture_mode mode_tls = capture_mode::global;

result init(unsigned flags) {
  return guarded("cuInit", needs::nothing, [&](state& s) {
    if (flags != 0) return result::invalid_value;
    if (s.config.gpus == 0) return result::no_device;
    if (s.started_in != 0 && s.started_in != getpid()) return result::not_initialized;
    s.started = true;
    s.started_in = getpid();
    s.contexts.resize(static_cast<std::size_t>(s.config.gpus));
    for (int i = 0; i < s.config.gpus; ++i) {
      auto& made = s.contexts[static_cast<std::size_t>(i)];
      if (!made) made = std::make_unique<context>();
      made->gpu = i;
    }
    if (std::getenv("LCI_MOCK_CUDA_ENGINE") != nullptr) control_of().set_engine_thread(true);
    return result::success;
  });
}

result get_version(int* version) {
  return guarded("cuDriverGetVersion", needs::nothing, [&](state& s) {
    *version = s.config.driver_version;
    return result::success;
  });
}

struct code_name {
  result code;
  const char* name;
  const char* text;
};
constexpr std::array CODES{
    code_name{result::success, "CUDA_SUCCESS", "no error"},
    code_name{result::invalid_value, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    code_name{result::out_of_memory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    code_name{result::not_initialized, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    code_name{result::no_device, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    code_name{result::invalid_context, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    code_name{result::not_supported, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    code_name{result::illegal_address, "CUDA_ERROR_ILLEGAL_ADDRESS",
              "an illegal memory access was encountered"},
    code_name{result::context_is_destroyed, "CUDA_ERROR_CONTEXT_IS_DESTROYED",
              "context is destroyed"},
};

// These two answer for the known ones, and INVALID_VALUE with a null text for others.
result error_text(result code, const char** text, const char* code_name::*which) {
  for (const code_name& row : CODES) {
    if (row.code != code) continue;
    *text = row.*which;
    return result::success;
  }
  *text = nullptr;
  return result::invalid_value;
}
result get_error_name(result code, const char** text) {
  return error_text(code, text, &code_name::name);
}
result get_error_string(result code, const char** text) {
  return error_text(code, text, &code_name::text);
}

result get_count(int* count) {
  return guarded("cuDeviceGetCount", needs::started, [&](state& s) {
    *count = s.config.gpus;
    return result::success;
  });
}

bool exists(const state& s, int gpu) { return gpu >= 0 && gpu < s.config.gpus; }

result get_device(device* out, int ordinal) {
  return guarded("cuDeviceGet", needs::started, [&](state& s) {
    if (!exists(s, ordinal)) return result::invalid_device;
    *out = ordinal;
    return result::success;
  });
}

result get_name(char* text, int length, device gpu) {
  return guarded("cuDeviceGetName", needs::started, [&](state& s) {
    if (!exists(s, gpu)) return result::invalid_device;
    std::snprintf(text, static_cast<std::size_t>(length), "Mock GPU %d", gpu);
    return result::success;
  });
}

result get_pci(char* text, int length, device gpu) {
  return guarded("cuDeviceGetPCIBusId", needs::started, [&](state& s) {
    if (!exists(s, gpu)) return result::invalid_device;
    std::snprintf(text, static_cast<std::size_t>(length), "0000:%02x:00.0", 0x10 + gpu);
    return result::success;
  });
}

result get_attribute(int* value, device_attribute what, device gpu) {
  return guarded("cuDeviceGetAttribute", needs::started, [&](state& s) {
    if (!exists(s, gpu)) return result::invalid_device;
    switch (what) {
      case device_attribute::unified_addressing:
        *value = s.config.unified_addressing ? 1 : 0;
        break;
      case device_attribute::async_engine_count:
        *value = 3;
        break;
      case device_attribute::virtual_memory_management_supported:
      case device_attribute::handle_type_posix_file_descriptor_supported:
        *value = s.config.vmm_descriptors ? 1 : 0;
        break;
      case device_attribute::handle_type_fabric_supported:
        *value = s.config.fabric_handles ? 1 : 0;
        break;
      case device_attribute::can_use_64_bit_stream_mem_ops:
        *value = s.config.stream_writes ? 1 : 0;
        break;
      case device_attribute::dma_buf_supported:
        *value = s.config.dma_buf ? 1 : 0;
        break;
      case device_attribute::gpu_direct_rdma_supported:
        *value = s.config.direct_rdma ? 1 : 0;
        break;
      default:
        *value = 0;
    }
    return result::success;
  });
}

result can_access_peer(int* can, device gpu, device peer) {
  return guarded("cuDeviceCanAccessPeer", needs::started, [&](state& s) {
    if (!exists(s, gpu) || !exists(s, peer)) return result::invalid_device;
    *can = s.config.peer_access && gpu != peer ? 1 : 0;
    return result::success;
  });
}

result p2p_attribute(int* value, cuda::abi::p2p_attribute which, device gpu, device peer) {
  return guarded("cuDeviceGetP2PAttribute", needs::started, [&](state& s) {
    if (!exists(s, gpu) || !exists(s, peer)) return result::invalid_device;
    if (gpu == peer || which != cuda::abi::p2p_attribute::native_atomic_supported)
      return result::invalid_value;
    *value = s.config.peer_access && s.config.peer_atomics ? 1 : 0;
    return result::success;
  });
}

cuda::abi::context handle_of(context* c) { return reinterpret_cast<cuda::abi::context>(c); }
context* context_of(cuda::abi::context c) { return reinterpret_cast<context*>(c); }

result retain(cuda::abi::context* out, device gpu) {
  return guarded("cuDevicePrimaryCtxRetain", needs::started, [&](state& s) {
    if (!exists(s, gpu)) return result::invalid_device;
    context& c = *s.contexts[static_cast<std::size_t>(gpu)];
    ++c.retained;
    c.used = true;
    *out = handle_of(&c);
    return result::success;
  });
}

result release(device gpu) {
  return guarded("cuDevicePrimaryCtxRelease", needs::started, [&](state& s) {
    if (!exists(s, gpu)) return result::invalid_device;
    context& c = *s.contexts[static_cast<std::size_t>(gpu)];
    if (c.retained == 0) return result::invalid_context;
    --c.retained;
    return result::success;
  });
}

result push(cuda::abi::context handle) {
  return guarded("cuCtxPushCurrent", needs::started, [&](state& s) {
    context* const c = context_of(handle);
    if (c == nullptr) return result::invalid_context;
    if (c->destroyed) return result::context_is_destroyed;
    stack_tls.push_back(c);
    ++s.pushed;
    return result::success;
  });
}

result pop(cuda::abi::context* out) {
  return guarded("cuCtxPopCurrent", needs::started, [&](state& s) {
    if (stack_tls.empty()) return result::invalid_context;
    *out = handle_of(stack_tls.back());
    stack_tls.pop_back();
    --s.pushed;
    return result::success;
  });
}

result synchronize() {
  return guarded("cuCtxSynchronize", needs::context, [](state& s) {
    note_blocking("cuCtxSynchronize");
    while (s.run_one()) {
    }
    return result::success;
  });
}

result flush_writes(cuda::abi::flush_target, cuda::abi::flush_scope) {
  return guarded("cuFlushGPUDirectRDMAWrites", needs::context,
                 [](state&) { return result::success; });
}

result get_current_device(device* out) {
  return guarded("cuCtxGetDevice", needs::context, [&](state&) {
    *out = current()->gpu;
    return result::success;
  });
}

result enable_peer(cuda::abi::context peer, unsigned flags) {
  return guarded("cuCtxEnablePeerAccess", needs::context, [&](state& s) {
    if (flags != 0 || context_of(peer) == current()) return result::invalid_value;
    return s.config.peer_access ? result::success : result::peer_access_unsupported;
  });
}

result exchange_mode(capture_mode* mode) {
  return guarded("cuThreadExchangeStreamCaptureMode", needs::nothing, [&](state&) {
    std::swap(*mode, mode_tls);
    return result::success;
  });
}

}  // namespace

context* current() noexcept { return stack_tls.empty() ? nullptr : stack_tls.back(); }

std::size_t depth_of_this_thread() { return stack_tls.size(); }

result unsafe_in_capture() {
  state& s = the();
  if (!s.capturing || mode_tls == capture_mode::relaxed) return result::success;
  s.capture_spoilt = true;
  return result::stream_capture_unsupported;
}

void fill_process(functions& table) {
  table.init = &init;
  table.driver_get_version = &get_version;
  table.get_error_name = &get_error_name;
  table.get_error_string = &get_error_string;
  table.device_get_count = &get_count;
  table.device_get = &get_device;
  table.device_get_name = &get_name;
  table.device_get_pci_bus_id = &get_pci;
  table.device_get_attribute = &get_attribute;
  table.device_can_access_peer = &can_access_peer;
  table.device_get_p2p_attribute = &p2p_attribute;
  table.primary_ctx_retain = &retain;
  table.primary_ctx_release = &release;
  table.ctx_push_current = &push;
  table.ctx_pop_current = &pop;
  table.ctx_get_device = &get_current_device;
  table.ctx_synchronize = &synchronize;
  table.flush_gpu_direct_rdma_writes = &flush_writes;
  table.ctx_enable_peer_access = &enable_peer;
  table.exchange_stream_capture_mode = &exchange_mode;
}

}  // namespace lci::mock
