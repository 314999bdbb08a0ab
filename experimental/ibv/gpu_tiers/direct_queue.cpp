#include "experimental/ibv/gpu_tiers/direct_queue.hpp"

#include <algorithm>
#include <cerrno>
#include <string>

#include "lci/errors.hpp"

namespace lci::ibv {
namespace {

constexpr std::size_t MAILBOX_AT = sizeof(wqe::send_queue_state);
constexpr std::uint32_t BLOCKS_PER_REQUEST = 4;  // as the driver counts a request of one entry
constexpr std::size_t RECORD_SIZE = 2 * sizeof(std::uint32_t);

// Of whole entries, without compression, which is off unless it is asked for.
cq_handle make_cq(const mlx5_card& on, std::uint32_t blocks) {
  if (const std::string why = why_missing(on.lib.create_cq, "mlx5dv_create_cq"); !why.empty())
    throw backend_error("ibv: " + why);
  ibv_cq_init_attr_ex attr{};
  attr.cqe = blocks - 1;  // the driver takes the next power of two that is larger
  mlx5dv_cq_init_attr direct{};
  direct.comp_mask = MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE;
  direct.cqe_size = wqe::CQE_SIZE;
  ibv_cq_ex* const made = on.lib.create_cq(on.port.context.get(), &attr, &direct);
  if (made == nullptr)
    throw_error("mlx5dv_create_cq", on.port.name + ", " + std::to_string(blocks) + " entries",
                errno);
  return cq_handle(ibv_cq_ex_to_cq(made));
}

qp_handle make_qp(const mlx5_card& on, ibv_cq* cq, const tier_options& options,
                  std::uint32_t& max_inline) {
  pair_settings wanted{cq, std::max(options.blocks / BLOCKS_PER_REQUEST, 1u), options.max_inline,
                       false};
  qp_handle out = make_mlx5_pair(on, wanted);
  max_inline = std::min(options.max_inline, wanted.max_inline);
  return out;
}

}  // namespace

direct_queue::direct_queue(const mlx5_card& card, const tier_options& options)
    : queue_base(card, options),
      own_(MAILBOX_AT + sizeof(std::uint64_t)),
      cq_(make_cq(card, options.blocks)),
      qp_(make_qp(card, cq_.get(), options, here_.limits.max_inline)),
      maps_(options.maps) {
  look_at();
  here_.bell = card_bell_;
  if (options.tier == net::gpu_tier::cpu_rings) {
    auto* const mailbox = reinterpret_cast<std::uint64_t*>(own_.at(MAILBOX_AT));
    here_.bell = {wqe::doorbell_form::mailbox, nullptr, mailbox, 0};
    ringer_.emplace(here_.ring, mailbox, card_bell_);
  }
  prepare_here(reinterpret_cast<wqe::send_queue_state*>(own_.at(0)));
  map_for_kernels();
}

// The direct view of both.
void direct_queue::look_at() {
  if (const std::string why = why_missing(card_.lib.init_obj, "mlx5dv_init_obj"); !why.empty())
    throw backend_error("ibv: " + why);
  mlx5dv_qp qp{};
  mlx5dv_cq cq{};
  mlx5dv_obj all{};
  all.qp.in = qp_.get();
  all.qp.out = &qp;
  all.cq.in = cq_.get();
  all.cq.out = &cq;
  if (const int rc = card_.lib.init_obj(&all, MLX5DV_OBJ_QP | MLX5DV_OBJ_CQ); rc != 0)
    throw_error("mlx5dv_init_obj", card_.port.name, rc);
  if (qp.sq.stride != wqe::BLOCK_SIZE)
    throw backend_error("ibv: the send queue of " + card_.port.name + " has blocks of " +
                        std::to_string(qp.sq.stride) + " bytes");
  here_.ring = {qp.sq.buf, qp.sq.wqe_cnt};
  here_.cq = {cq.buf, cq.cqe_cnt, cq.cqe_size, cq.dbrec};
  card_bell_ = {wqe::doorbell_form::eight_bytes, qp.dbrec, qp.bf.reg, qp.bf.size};
}

void direct_queue::map_for_kernels() {
  at_gpu_.ring.base = maps_.map(here_.ring.base, std::size_t{here_.ring.blocks} * wqe::BLOCK_SIZE);
  at_gpu_.cq.base = maps_.map(here_.cq.base, std::size_t{here_.cq.count} * here_.cq.entry_size);
  at_gpu_.cq.record = static_cast<std::uint32_t*>(maps_.map(here_.cq.record, RECORD_SIZE));
  auto* const own = static_cast<std::byte*>(maps_.map(own_.at(0), own_.size()));
  if (options_.state == nullptr) at_gpu_.state = reinterpret_cast<wqe::send_queue_state*>(own);
  if (ringer_) {
    at_gpu_.bell.target = own + MAILBOX_AT;
    return;
  }
  at_gpu_.bell.record = static_cast<std::uint32_t*>(maps_.map(card_bell_.record, RECORD_SIZE));
  // Both halves; of a register that is none for BlueFlame the eight bytes.
  at_gpu_.bell.target =
      maps_.map(card_bell_.target,
                std::max<std::size_t>(2 * card_bell_.buffer_size, sizeof(std::uint64_t)), true);
}

}  // namespace lci::ibv
