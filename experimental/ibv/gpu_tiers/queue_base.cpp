#include "experimental/ibv/gpu_tiers/queue_base.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <string>

#include "backends/ibv/cards.hpp"
#include "backends/ibv/queue_pair.hpp"
#include "lci/errors.hpp"

namespace lci::ibv {
namespace {

constexpr unsigned ALL_ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

std::size_t whole_pages(std::size_t size) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return (size + page - 1) / page * page;
}

void step(ibv_qp* qp, const chosen_port& on, ibv_qp_attr& attr, int mask) {
  if (const int rc = library().modify_qp(qp, &attr, mask | IBV_QP_STATE); rc != 0)
    throw_error("ibv_modify_qp to state " + std::to_string(attr.qp_state), on.name, rc);
}

}  // namespace

host_pages::host_pages(std::size_t size) : size_(whole_pages(size)) {
  void* const at = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) throw std::bad_alloc();
  base_ = static_cast<std::byte*>(at);
}

host_pages::~host_pages() { munmap(base_, size_); }

std::string why_not_mlx5(const mlx5& lib, const chosen_port& port) {
  std::string why = why_missing(lib.is_supported, "mlx5dv_is_supported");
  if (why.empty() && !lib.is_supported(port.context->device))
    why = "the port that is used, " + port.name + ", is not of an mlx5 card (device_name)";
  return why;
}

qp_handle make_mlx5_pair(const mlx5_card& on, pair_settings& wanted) {
  ibv_qp_init_attr_ex attr{};
  attr.qp_type = IBV_QPT_RC;
  attr.send_cq = attr.recv_cq = wanted.cq;
  attr.cap.max_send_wr = wanted.requests;
  attr.cap.max_send_sge = 1;
  attr.cap.max_inline_data = wanted.max_inline;
  attr.comp_mask = IBV_QP_INIT_ATTR_PD;
  attr.pd = on.pd;
  mlx5dv_qp_init_attr direct{};
  direct.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS;
  // Or small answers would stay in the completion, where no kernel looks for them.
  direct.create_flags = MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE;
  if (wanted.is_raw) {
    attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    direct.comp_mask |= MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS;
    direct.send_ops_flags = MLX5DV_QP_EX_WITH_RAW_WQE;
  }
  if (const std::string why = why_missing(on.lib.create_qp, "mlx5dv_create_qp"); !why.empty())
    throw backend_error("ibv: " + why);
  qp_handle qp(on.lib.create_qp(on.port.context.get(), &attr, &direct));
  if (!qp)
    throw_error(wanted.is_raw ? "mlx5dv_create_qp for raw work requests" : "mlx5dv_create_qp",
                on.port.name + ", " + std::to_string(wanted.requests) + " requests", errno);
  wanted.max_inline = attr.cap.max_inline_data;
  return qp;
}

tier_address queue_base::address() const noexcept {
  return {place_of(card_.port), pair()->qp_num, options_.psn & 0xffffff};
}

void queue_base::connect(const tier_address& peer) {
  const chosen_port& on = card_.port;
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = on.number;
  attr.qp_access_flags = ALL_ACCESS;
  step(pair(), on, attr, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = std::clamp(static_cast<ibv_mtu>(peer.where.mtu), IBV_MTU_256,
                             std::max(on.state.active_mtu, IBV_MTU_256));
  attr.dest_qp_num = peer.qpn;
  attr.rq_psn = peer.psn & 0xffffff;
  attr.max_dest_rd_atomic = static_cast<std::uint8_t>(std::min(on.limits.max_qp_rd_atom, 16));
  attr.min_rnr_timer = 12;  // 0.64 ms
  attr.ah_attr = path_to(peer.where, on);
  step(pair(), on, attr,
       IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
           IBV_QP_MIN_RNR_TIMER);
  const patience tries = patience::from_environment();
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = tries.timeout;
  attr.retry_cnt = tries.retries;
  attr.rnr_retry = 7;
  attr.sq_psn = options_.psn & 0xffffff;
  attr.max_rd_atomic = static_cast<std::uint8_t>(std::clamp(on.limits.max_qp_init_rd_atom, 1, 16));
  step(pair(), on, attr,
       IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
           IBV_QP_MAX_QP_RD_ATOMIC);
}

void queue_base::prepare_here(wqe::send_queue_state* beside) {
  here_.waits = options_.waits;
  here_.qpn = pair()->qp_num;
  here_.limits.max_message =
      std::min<std::uint64_t>(card_.port.state.max_msg_sz, wqe::DEFAULT_MAX_MESSAGE);
  here_.state = beside;
  if (const wqe::status s = wqe::prepare(here_); s != wqe::status::ok)
    throw backend_error(
        "ibv: a queue pair of " + card_.port.name + " with " + std::to_string(here_.ring.blocks) +
        " blocks and " + std::to_string(here_.cq.count) + " completions of " +
        std::to_string(here_.cq.entry_size) + " bytes is of no use to kernels: " + wqe::text_of(s));
  if (options_.state != nullptr) here_.state = options_.state;
  at_gpu_ = here_;
}

}  // namespace lci::ibv
