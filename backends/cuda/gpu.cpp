#include "backends/cuda/gpu.hpp"

#include <array>
#include <utility>

#include "backends/cuda/errors.hpp"
#include "lci/errors.hpp"

namespace lci::cuda {
namespace {

bool has(const abi::functions& call, abi::device device, abi::device_attribute what) {
  int value = 0;
  return call.device_get_attribute(&value, what, device) == abi::result::success && value != 0;
}

}  // namespace

gpu::gpu(driver& d, int ordinal) : driver_(d) {
  d.require();
  if (ordinal < 0 || ordinal >= d.gpu_count()) {
    throw backend_error("cuda: there is no GPU " + std::to_string(ordinal) +
                        ": this process sees " + std::to_string(d.gpu_count()));
  }
  facts_.ordinal = ordinal;
  const std::string on = "GPU " + std::to_string(ordinal);
  check(call(), call().device_get(&device_, ordinal), "cuDeviceGet", on);
  std::array<char, 96> text{};
  check(call(), call().device_get_name(text.data(), text.size() - 1, device_), "cuDeviceGetName",
        on);
  facts_.name = text.data();
  text = {};
  check(call(), call().device_get_pci_bus_id(text.data(), text.size() - 1, device_),
        "cuDeviceGetPCIBusId", on);
  facts_.pci = text.data();
  if (!has(call(), device_, abi::device_attribute::unified_addressing)) {
    throw backend_error("cuda: " + on + " has no unified addressing, so its pointers name nothing");
  }
  facts_.stream_writes = call().stream_write_value_32 != nullptr &&
                         call().stream_write_value_64 != nullptr &&
                         has(call(), device_, abi::device_attribute::can_use_64_bit_stream_mem_ops);
  facts_.stream_stores = facts_.stream_writes && call().stream_batch_mem_op != nullptr;
  facts_.vmm_descriptors =
      has(call(), device_, abi::device_attribute::virtual_memory_management_supported) &&
      has(call(), device_, abi::device_attribute::handle_type_posix_file_descriptor_supported);
  facts_.fabric_handles =
      has(call(), device_, abi::device_attribute::virtual_memory_management_supported) &&
      has(call(), device_, abi::device_attribute::handle_type_fabric_supported);
  facts_.dma_buf = call().mem_get_handle_for_address_range != nullptr &&
                   has(call(), device_, abi::device_attribute::dma_buf_supported);
  facts_.direct_rdma = has(call(), device_, abi::device_attribute::gpu_direct_rdma_supported);
}

gpu::~gpu() {
  if (context_ == nullptr) return;
  log_teardown(call(), call().primary_ctx_release(device_), "cuDevicePrimaryCtxRelease");
}

abi::context gpu::context() {
  const std::lock_guard lock(mutex_);
  if (context_ == nullptr) {
    check(call(), call().primary_ctx_retain(&context_, device_), "cuDevicePrimaryCtxRetain",
          "GPU " + std::to_string(facts_.ordinal));
  }
  return context_;
}

namespace {

std::string pair_text(const gpu& one, const gpu& other) {
  return "GPU " + std::to_string(one.facts().ordinal) + " and GPU " +
         std::to_string(other.facts().ordinal);
}

}  // namespace

std::string gpu::why_out_of_reach(gpu& other) {
  if (&other == this) return "";
  int can = 0;
  const bool is_known =
      call().device_can_access_peer(&can, device_, other.device_) == abi::result::success;
  return is_known && can != 0 ? "" : pair_text(*this, other) + " have no peer access";
}

std::string gpu::why_no_peer_access(gpu& other) {
  if (&other == this) return "";
  std::string why_not = why_out_of_reach(other);
  if (!why_not.empty()) return why_not;
  const abi::context peer = other.context();
  const context_scope scope(call(), context());
  if (scope.entered() != abi::result::success) return text_of(call(), scope.entered());
  const abi::result answer = call().ctx_enable_peer_access(peer, 0);
  // The user may have enabled it before us; it stays enabled for both.
  if (answer == abi::result::success || answer == abi::result::peer_access_already_enabled)
    return "";
  return text_of(call(), failure{answer, "cuCtxEnablePeerAccess"}, pair_text(*this, other));
}

bool gpu::has_atomics_on(gpu& other) noexcept {
  if (&other == this) return true;
  int has = 0;
  return call().device_get_p2p_attribute != nullptr &&
         call().device_get_p2p_attribute(&has, abi::p2p_attribute::native_atomic_supported, device_,
                                         other.device_) == abi::result::success &&
         has != 0;
}

gpu& gpu_list::at(int ordinal) {
  const std::lock_guard lock(mutex_);
  driver_.require();
  if (ordinal >= 0 && static_cast<std::size_t>(ordinal) >= gpus_.size() &&
      ordinal < driver_.gpu_count()) {
    gpus_.resize(static_cast<std::size_t>(driver_.gpu_count()));
  }
  const auto index = static_cast<std::size_t>(ordinal);
  if (ordinal >= 0 && index < gpus_.size() && gpus_[index]) return *gpus_[index];
  auto made = std::make_unique<gpu>(driver_, ordinal);  // throws for an ordinal out of range
  gpus_[index] = std::move(made);
  return *gpus_[index];
}

context_scope::context_scope(const abi::functions& call, abi::context context) noexcept
    : call_(call), entered_(call.ctx_push_current(context)) {
  if (entered_ == abi::result::success) call_.exchange_stream_capture_mode(&mode_);
}

context_scope::~context_scope() {
  if (entered_ != abi::result::success) return;
  call_.exchange_stream_capture_mode(&mode_);
  abi::context ours = nullptr;
  log_teardown(call_, call_.ctx_pop_current(&ours), "cuCtxPopCurrent");
}

}  // namespace lci::cuda
