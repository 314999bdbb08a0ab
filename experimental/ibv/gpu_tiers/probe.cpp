#include "experimental/ibv/gpu_tiers/probe.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <initializer_list>
#include <memory>
#include <optional>

#include "experimental/ibv/gpu_tiers/direct_queue.hpp"
#include "experimental/ibv/gpu_tiers/hints.hpp"
#include "experimental/ibv/gpu_tiers/raw_queue.hpp"
#include "lci/errors.hpp"
#include "lci/mem/memory_domain.hpp"

namespace lci::ibv {
namespace {

constexpr std::uint32_t PROBE_BLOCKS = 64;

struct uar_delete {
  const mlx5* lib = nullptr;
  void operator()(mlx5dv_devx_uar* uar) const noexcept { lib->devx_free_uar(uar); }
};

class prober {
 public:
  prober(const net::fabric_config& config, const probe_setup& setup)
      : config_(config), setup_(setup), lib_(setup.lib) {}
  std::vector<net::tier_report> run();

 private:
  template <class Step>
  void try_row(tier_row row, std::initializer_list<tier_row> behind, const Step& step);
  std::vector<net::tier_report> reports() const;
  std::string& why(tier_row row) { return why_[static_cast<std::size_t>(row)]; }

  // Each answers "", or why not, or throws backend_error.
  std::string find_device();
  std::string open_port();
  std::string open_devx();
  std::string map_memory();
  std::string map_register();
  std::string ask_for_dma_buf();
  std::string ask_for_data_direct();
  std::string write_end_to_end();

  mlx5_card card() const { return {lib_, *port_, pd_.get()}; }
  tier_options options_for(net::gpu_tier tier) const {
    tier_options out;
    out.tier = tier;
    out.blocks = PROBE_BLOCKS;
    out.waits.limit_ns = setup_.limit_ns;
    return out;
  }

  const net::fabric_config& config_;
  const probe_setup& setup_;
  const mlx5& lib_;
  std::array<std::string, TIER_ROWS> why_;
  std::optional<chosen_port> port_;
  pd_handle pd_;
  context_handle devx_;
  std::unique_ptr<mlx5dv_devx_uar, uar_delete> uar_;
  std::unique_ptr<direct_queue> direct_;
  std::unique_ptr<mem::kernel_memory> gpu_;
};

template <class Step>
void prober::try_row(tier_row row, std::initializer_list<tier_row> behind, const Step& step) {
  for (const tier_row before : behind) {
    if (why(before).empty()) continue;
    why(row) =
        "not tried: " + std::string(PROBES[static_cast<std::size_t>(before)].name) + " comes first";
    return;
  }
  try {
    why(row) = step();
  } catch (const std::exception& problem) {
    why(row) = problem.what();
  }
}

std::string prober::find_device() {
  std::string why;
  if (find_library(why) == nullptr) return why;
  if (!lib_.why_not.empty()) return lib_.why_not;
  why = why_missing(lib_.is_supported, "mlx5dv_is_supported");
  if (!why.empty()) return why;
  std::string others;
  for (ibv_device* device : device_list()) {
    if (lib_.is_supported(device)) return "";
    others += (others.empty() ? "" : ", ") + std::string(device->name);
  }
  return others.empty() ? "there is no RDMA device" : "no mlx5 card among " + others;
}

std::string prober::open_port() {
  port_.emplace(std::move(open_ports(settings_of(config_)).front()));
  if (std::string why = why_not_mlx5(lib_, *port_); !why.empty()) return why;
  pd_.reset(library().alloc_pd(port_->context.get()));
  if (!pd_) throw_error("ibv_alloc_pd", port_->name, errno);
  return "";
}

std::string prober::open_devx() {
  std::string why = why_missing(lib_.open_device, "mlx5dv_open_device");
  if (why.empty()) why = why_missing(lib_.devx_alloc_uar, "mlx5dv_devx_alloc_uar");
  if (why.empty()) why = why_missing(lib_.devx_free_uar, "mlx5dv_devx_free_uar");
  if (!why.empty()) return why;
  mlx5dv_context_attr attr{};
  attr.flags = MLX5DV_CONTEXT_FLAGS_DEVX;
  devx_.reset(lib_.open_device(port_->context->device, &attr));
  if (!devx_) throw_error("mlx5dv_open_device with DevX", port_->name, errno);
  uar_ = {lib_.devx_alloc_uar(devx_.get(), MLX5_IB_UAPI_UAR_ALLOC_TYPE_BF), uar_delete{&lib_}};
  if (!uar_) throw_error("mlx5dv_devx_alloc_uar", port_->name, errno);
  return "";
}

// A page, once.
std::string prober::map_memory() {
  std::string reasons;
  for (const mem::memory_domain& domain : mem::memory_domains()) {
    std::string why =
        domain.open_for_kernels == nullptr ? "kernels reach no memory of the host" : domain.probe();
    if (why.empty()) {
      gpu_ = domain.open_for_kernels();
      const host_pages page(1);
      gpu_->map(page.at(0), page.size(), false);
      gpu_->unmap(page.at(0), page.size());
      return "";
    }
    reasons += (reasons.empty() ? "" : "; ") + std::string(domain.name) + ": " + why;
  }
  return reasons.empty() ? "no accelerator is built" : reasons;
}

// That of DevX, or that of the queue pair.
std::string prober::map_register() {
  void* const at = uar_ ? uar_->reg_addr : direct_->here().bell.target;
  gpu_->map(at, sizeof(std::uint64_t), true);
  gpu_->unmap(at, sizeof(std::uint64_t));
  return "";
}

// A descriptor that is none: who knows the call says that, and who does not says so.
std::string prober::ask_for_dma_buf() {
  if (library().reg_dmabuf_mr == nullptr) return "this libibverbs has no ibv_reg_dmabuf_mr";
  const mr_handle made(
      library().reg_dmabuf_mr(pd_.get(), 0, host_pages(1).size(), 0, -1, IBV_ACCESS_LOCAL_WRITE));
  const int error = errno;
  if (made || error == EBADF) return "";
  throw_error("ibv_reg_dmabuf_mr", port_->name, error);
}

std::string prober::ask_for_data_direct() {
  std::string why =
      why_missing(lib_.get_data_direct_sysfs_path, "mlx5dv_get_data_direct_sysfs_path");
  if (!why.empty()) return why;
  char path[256] = "";
  const int rc = lib_.get_data_direct_sysfs_path(port_->context.get(), path, sizeof(path));
  if (rc == ENODEV) return port_->name + " has no such function";
  if (rc != 0) throw_error("mlx5dv_get_data_direct_sysfs_path", port_->name, rc);
  return "";
}

// 8 bytes from host memory to host memory, through a queue pair that is its own peer.
std::string prober::write_end_to_end() {
  const host_pages words(2 * sizeof(std::uint64_t));
  const auto at = reinterpret_cast<std::uintptr_t>(words.at(0));
  const mr_handle region(library().reg_mr(pd_.get(), words.at(0), words.size(),
                                          IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
  if (!region) throw_error("ibv_reg_mr", port_->name, errno);
  // Gone before the memory that it writes.
  const std::unique_ptr<direct_queue> loop = std::move(direct_);
  loop->connect(loop->address());
  auto* const from = reinterpret_cast<std::uint64_t*>(words.at(0));
  *from = 0x0123456789abcdef;
  const wqe::sge piece{at, sizeof(std::uint64_t), region->lkey};
  wqe::send_request r;
  r.op = wqe::opcode::rdma_write;
  r.entries = &piece;
  r.entry_count = 1;
  r.raddr = at + sizeof(std::uint64_t);
  r.rkey = region->rkey;
  std::uint64_t end = 0;
  wqe::status got = wqe::post(loop->here(), r, &end);
  if (got == wqe::status::ok) got = wqe::wait_until_done(loop->here(), end);
  const wqe::completion& error = loop->here().state->error;
  char syndrome[8] = "";
  std::snprintf(syndrome, sizeof(syndrome), "0x%02x", static_cast<unsigned>(error.error));
  if (got == wqe::status::failed)
    return std::string("a write of 8 bytes ended with syndrome ") + syndrome + ": " +
           wqe::text_of(error.error);
  if (got != wqe::status::ok)
    return "a write of 8 bytes: " + std::string(wqe::text_of(got)) + ", " +
           std::to_string(setup_.limit_ns) + " ns";
  // edge wqe.completion, other side in the card: it wrote the bytes before the completion.
  const std::uint64_t arrived =
      wqe::word_at<std::uint64_t>(from + 1).load(std::memory_order_acquire);
  return arrived == *from ? "" : "a write of 8 bytes was completed, but they did not arrive";
}

std::vector<net::tier_report> prober::run() {
  using enum tier_row;
  try_row(device, {}, [&] { return find_device(); });
  try_row(port, {device}, [&] { return open_port(); });
  try_row(devx, {port}, [&] { return open_devx(); });
  try_row(raw_requests, {port}, [&] {
    const raw_queue made(card(), options_for(net::gpu_tier::cpu_forwards));
    return std::string();
  });
  try_row(direct_view, {port}, [&] {
    direct_ = std::make_unique<direct_queue>(card(), options_for(net::gpu_tier::gpu_direct));
    return std::string();
  });
  try_row(queue_memory, {}, [&] { return map_memory(); });
  // Only one of the two is needed; the queue pair has one if there is any.
  try_row(register_mapping, {queue_memory, uar_ ? port : direct_view},
          [&] { return map_register(); });
  try_row(driver_option, {}, [&] { return why_no_peer_mapping(setup_.procfs); });
  try_row(peermem, {}, [&] { return why_no_peermem(setup_.sysfs); });
  try_row(dma_buf_gpu, {queue_memory}, [&] { return gpu_->why_no_dma_buf(); });
  try_row(dma_buf_card, {port}, [&] { return ask_for_dma_buf(); });
  try_row(data_direct, {port}, [&] { return ask_for_data_direct(); });
  try_row(end_to_end, {direct_view}, [&] { return write_end_to_end(); });
  return reports();
}

std::vector<net::tier_report> prober::reports() const {
  std::vector<net::tier_report> out;
  unsigned bit = IN_T0;
  for (const net::gpu_tier tier : net::GPU_TIERS) {
    if (tier == net::gpu_tier::proxy) continue;
    net::tier_report one{tier, ""};
    for (std::size_t i = 0; i < TIER_ROWS; ++i) {
      const tier_row_facts& about = PROBES[i];
      if ((about.shown & bit) == 0) continue;
      one.probes.push_back({std::string(about.name), why_[i], about.decides == 0});
      if ((about.decides & bit) != 0 && !why_[i].empty() && one.why_not.empty())
        one.why_not = std::string(about.name) + ": " + why_[i];
    }
    out.push_back(std::move(one));
    bit <<= 1;
  }
  return out;
}

}  // namespace

std::vector<net::tier_report> probe_tiers(const net::fabric_config& config,
                                          const probe_setup& setup) {
  return prober(config, setup).run();
}

}  // namespace lci::ibv
