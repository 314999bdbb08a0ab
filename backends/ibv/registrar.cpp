#include "backends/ibv/registrar.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "backends/ibv/data_direct.hpp"
#include "backends/ibv/errors.hpp"
#include "lci/base/env.hpp"
#include "lci/errors.hpp"
#include "lci/mem/memory_domain.hpp"

namespace lci::ibv {
namespace {

// A way that is not built is left out. A setting that names others too gets those; one that names
// it alone is an error.
mem::ladder_rules built(mem::ladder_rules rules) {
  std::string& why_not = rules.left_out[static_cast<std::size_t>(mem::rung::data_direct)];
  if (!why_not.empty()) return rules;
  why_not = data_direct::why_not_built();
  const auto may_try = [](const std::string& why_left_out) { return why_left_out.empty(); };
  if (rules.is_forced && std::none_of(rules.left_out.begin(), rules.left_out.end(), may_try))
    throw backend_error("ibv: LCI_GPU_REGISTRATION asks for data_direct, but " + why_not);
  return rules;
}

}  // namespace

registrar::registrar(ibv_pd* pd, std::string device, const net::fabric_config& config)
    : pd_(pd),
      device_(std::move(device)),
      ladder_("ibv " + device_, built(config.gpu_rules)),
      paging_(pd, device_, config.ibv_odp, config.ibv_prefetch),
      loose_(base::env::find("LCI_IBV_RELAXED_ORDERING").value_or("0") == "0"
                 ? 0u
                 : static_cast<unsigned>(IBV_ACCESS_RELAXED_ORDERING)) {}

mr_handle registrar::strictly(void* address, std::size_t size, unsigned access) {
  return mr_handle(library().reg_mr(pd_, address, size, static_cast<int>(access)));
}

// Loosely ordered where that is wanted and the card knows it.
mr_handle registrar::loosely(void* address, std::size_t size, unsigned access) {
  if (library().reg_mr_iova2 == nullptr || is_strict_.load(std::memory_order_relaxed))
    return strictly(address, size, access);
  mr_handle mr(library().reg_mr_iova2(pd_, address, size, reinterpret_cast<std::uintptr_t>(address),
                                      access | loose_));
  // The flag is optional for kernels that know it; older ones answer this.
  if (!mr && (errno == EINVAL || errno == EOPNOTSUPP)) {
    mr = strictly(address, size, access);
    if (mr) is_strict_.store(true, std::memory_order_relaxed);
  }
  return mr;
}

// Memory that cannot be written, as a source alone.
mr_handle registrar::host(void* address, std::size_t size, bool& is_source_only) {
  is_source_only = false;
  const unsigned on_demand = paging_.access();
  mr_handle mr = loosely(address, size, READ_WRITE | on_demand);
  if (!mr && on_demand != 0 && (errno == EINVAL || errno == EOPNOTSUPP)) {
    const int refusal = errno;
    mr = loosely(address, size, READ_WRITE);
    if (mr) paging_.give_up(refusal);
  }
  if (mr && paging_.access() != 0) paging_.prefetch(mr->lkey, address, size);
  if (!mr && errno == EFAULT) {
    mr = strictly(address, size, IBV_ACCESS_REMOTE_READ);
    is_source_only = mr != nullptr;
  }
  return mr;
}

// Cards take registrations of any size, as a rule.
void registrar::throw_refused(std::size_t size, int error) const {
  std::string what = device_ + ", " + bytes_text(size);
  ibv_device_attr limits{};
  if (library().query_device(pd_->context, &limits) == 0 && size > limits.max_mr_size)
    what += ", more than the card registers at once (" + bytes_text(limits.max_mr_size) + ")";
  throw_error("ibv_reg_mr", what, error);
}

mem::registration_answer registrar::register_range(const mem::descriptor_range& what) {
  mem::registration_answer out;
  std::string why_not;
  data_direct::function direct = nullptr;
  if (what.wants_data_direct)
    direct = data_direct::find(pd_->context->device, why_not);
  else if (library().reg_dmabuf_mr == nullptr)
    why_not = "this libibverbs has no ibv_reg_dmabuf_mr";
  if (!why_not.empty()) {
    out.why_not = std::move(why_not);
    out.error = EOPNOTSUPP;
    out.is_final = true;
    return out;
  }
  constexpr int ACCESS = static_cast<int>(READ_WRITE);
  ibv_mr* const mr =
      direct != nullptr
          ? direct(pd_, what.offset, what.length, what.iova, what.fd, ACCESS, data_direct::FLAG)
          : library().reg_dmabuf_mr(pd_, what.offset, what.length, what.iova, what.fd, ACCESS);
  if (mr == nullptr) {
    out.error = errno;
    out.why_not =
        (direct != nullptr ? "mlx5dv_reg_dmabuf_mr on " : "ibv_reg_dmabuf_mr on ") + device_;
    // The card, or its driver, has no such function.
    out.is_final = out.error == EOPNOTSUPP || (direct != nullptr && out.error == ENODEV);
  }
  out.key = reinterpret_cast<std::uint64_t>(mr);
  return out;
}

mem::registration_answer registrar::register_pointer(void* address, std::size_t size) {
  mem::registration_answer out;
  ibv_mr* const mr = library().reg_mr(pd_, address, size, static_cast<int>(READ_WRITE));
  if (mr == nullptr) {
    out.error = errno;
    out.why_not = "ibv_reg_mr on " + device_;
  }
  out.key = reinterpret_cast<std::uint64_t>(mr);
  return out;
}

const ibv_mr* registrar::of_everything(void* address, std::size_t size) noexcept {
  const ibv_mr* const all = paging_.everything();
  if (all != nullptr) paging_.prefetch(all->lkey, address, size);
  return all;
}

mem::device_registration registrar::device(void* address, std::size_t size) {
  return ladder_.climb(*this, mem::find_place(address), address, size);
}

}  // namespace lci::ibv
