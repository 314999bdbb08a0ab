#include "backends/ofi/registrar.hpp"

#include <cerrno>

#include "lci/errors.hpp"
#include "lci/mem/memory_domain.hpp"

namespace lci::ofi {
namespace {

constexpr std::uint64_t SOURCE = FI_SEND | FI_WRITE | FI_REMOTE_READ;
constexpr std::uint64_t ALL = SOURCE | FI_RECV | FI_READ | FI_REMOTE_WRITE;

// Whose memory it is, in libfabric's words.
void set_place(fi_mr_attr& attr, const void* address) {
  const mem::memory_place place = mem::find_place(address);
  const bool is_hip = place.domain != nullptr && place.domain->name == "hip";
  attr.iface = is_hip ? FI_HMEM_ROCR : FI_HMEM_CUDA;
  attr.device.cuda = place.device;
}

}  // namespace

registrar::registrar(const opened_domain& on, fid_ep* keys, const net::fabric_config& config)
    : on_(on), keys_(keys), ladder_("ofi " + on.name, config.gpu_rules) {}

std::unique_lock<std::mutex> registrar::lock_if_serial() noexcept {
  return is_serial_.load(std::memory_order_relaxed) ? std::unique_lock(mutex_)
                                                    : std::unique_lock<std::mutex>();
}

fid_mr* registrar::make(fi_mr_attr& attr, std::uint64_t flags, long& code) {
  const auto lock = lock_if_serial();
  fid_mr* mr = nullptr;
  // Without FI_MR_PROV_KEY it is ours to choose, and narrow ones come again in time.
  const std::size_t bits = 8 * on_.info->domain_attr->mr_key_size;
  for (int tries = 0; tries < 64; ++tries) {
    attr.requested_key = next_key_.fetch_add(1, std::memory_order_relaxed);
    if (bits < 64) attr.requested_key &= (std::uint64_t{1} << bits) - 1;
    code = fi_mr_regattr(on_.domain, &attr, flags, &mr);
    if (code != -FI_ENOKEY || has_mode(FI_MR_PROV_KEY)) break;
  }
  if (code != 0) return nullptr;
  if (has_mode(FI_MR_ENDPOINT)) {
    code = fi_mr_bind(mr, &keys_->fid, 0);
    if (code == 0) code = fi_mr_enable(mr);
    if (code != 0) {
      object_close()(mr);
      return nullptr;
    }
  }
  return mr;
}

void registrar::close(fid_mr* mr) noexcept {
  const auto lock = lock_if_serial();
  object_close()(mr);
}

registered registrar::host(void* address, std::size_t size, bool& is_source_only, long& code) {
  is_source_only = false;
  const iovec range{address, size};
  fi_mr_attr attr{};
  attr.mr_iov = &range;
  attr.iov_count = 1;
  attr.access = ALL;
  attr.iface = FI_HMEM_SYSTEM;
  fid_mr* mr = make(attr, 0, code);
  if (mr == nullptr && code == -FI_EFAULT) {
    attr.access = SOURCE;
    mr = make(attr, 0, code);
    is_source_only = mr != nullptr;
  }
  return registered(mr, {this});
}

void registrar::throw_refused(std::size_t size, long code) const {
  throw_error("fi_mr_regattr", on_.name + ", " + bytes_text(size), code);
}

mem::registration_answer registrar::register_range(const mem::descriptor_range& what) {
  mem::registration_answer out;
#ifdef FI_MR_DMABUF
  if (!what.wants_data_direct && FI_VERSION_GE(library().version(), FI_VERSION(1, 20))) {
    const fi_mr_dmabuf range{what.fd, what.offset, what.length,
                             reinterpret_cast<void*>(what.iova - what.offset)};
    fi_mr_attr attr{};
    attr.dmabuf = &range;
    attr.iov_count = 1;
    attr.access = ALL;
    set_place(attr, reinterpret_cast<const void*>(what.iova));
    long code = 0;
    fid_mr* const mr = make(attr, FI_MR_DMABUF, code);
    if (mr == nullptr) {
      out.error = static_cast<int>(-code);
      out.why_not = "fi_mr_regattr with a dma-buf on " + on_.name;
      out.is_final = code == -FI_EOPNOTSUPP || code == -FI_ENOSYS;
    }
    out.key = reinterpret_cast<std::uint64_t>(mr);
    return out;
  }
#endif
  out.error = EOPNOTSUPP;
  out.why_not = what.wants_data_direct ? "libfabric has no Data Direct"
                                       : "this libfabric accepts no dma-buf (1.20 does)";
  out.is_final = true;
  return out;
}

mem::registration_answer registrar::register_pointer(void* address, std::size_t size) {
  mem::registration_answer out;
  const iovec range{address, size};
  fi_mr_attr attr{};
  attr.mr_iov = &range;
  attr.iov_count = 1;
  attr.access = ALL;
  set_place(attr, address);
  long code = 0;
  fid_mr* const mr = make(attr, 0, code);
  if (mr == nullptr) {
    out.error = static_cast<int>(-code);
    out.why_not = "fi_mr_regattr on " + on_.name;
    out.is_final = code == -FI_EOPNOTSUPP || code == -FI_ENOSYS;
  }
  out.key = reinterpret_cast<std::uint64_t>(mr);
  return out;
}

mem::device_registration registrar::device(void* address, std::size_t size) {
  return ladder_.climb(*this, mem::find_place(address), address, size);
}

}  // namespace lci::ofi
