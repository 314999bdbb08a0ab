#include "experimental/ibv/gpu_tiers/raw_queue.hpp"

#include <algorithm>
#include <cerrno>
#include <string>

#include "lci/errors.hpp"

namespace lci::ibv {
namespace {

// Where in its pages each part is.
struct raw_layout {
  explicit raw_layout(std::uint32_t blocks)
      : completions(ring + std::size_t{blocks} * wqe::BLOCK_SIZE),
        size(completions + std::size_t{blocks} * wqe::CQE_SIZE) {}
  std::size_t mailbox = sizeof(wqe::send_queue_state);
  std::size_t record = mailbox + wqe::BLOCK_SIZE;
  std::size_t ring = record + wqe::BLOCK_SIZE;
  std::size_t completions;
  std::size_t size;
};
static_assert(sizeof(wqe::send_queue_state) % wqe::BLOCK_SIZE == 0);

// That queue at those pages.
void place_at(std::byte* base, const raw_layout& of, wqe::send_queue& q) {
  q.ring.base = base + of.ring;
  q.cq.base = base + of.completions;
  q.cq.record = reinterpret_cast<std::uint32_t*>(base + of.record);
  q.bell.target = base + of.mailbox;
}

// One whose entries are read field by field: the only kind that tells a request's own number and
// the maker's error code.
cq_handle make_extended_cq(const mlx5_card& on, std::uint32_t entries) {
  ibv_cq_init_attr_ex attr{};
  attr.cqe = entries;
  attr.wc_flags = IBV_WC_EX_WITH_BYTE_LEN;
  ibv_cq_ex* const made = ibv_create_cq_ex(on.port.context.get(), &attr);
  if (made == nullptr)
    throw_error("ibv_create_cq_ex", on.port.name + ", " + std::to_string(entries) + " entries",
                errno);
  return cq_handle(ibv_cq_ex_to_cq(made));
}

qp_handle make_raw_qp(const mlx5_card& on, ibv_cq* cq, const tier_options& options,
                      std::uint32_t& max_inline) {
  pair_settings wanted{cq, options.blocks, options.max_inline, true};
  qp_handle out = make_mlx5_pair(on, wanted);
  max_inline = std::min(options.max_inline, wanted.max_inline);
  return out;
}

// Throws where the library does not know such queue pairs.
raw_way way_of(const mlx5_card& on, ibv_qp* qp, ibv_cq* cq) {
  std::string why = why_missing(on.lib.qp_to_qp_ex, "ibv_qp_to_qp_ex (libibverbs)");
  if (why.empty()) why = why_missing(on.lib.qp_ex_from_ibv_qp_ex, "mlx5dv_qp_ex_from_ibv_qp_ex");
  if (!why.empty()) throw backend_error("ibv: " + why);
  raw_way out;
  out.qp = on.lib.qp_to_qp_ex(qp);
  out.direct = out.qp != nullptr ? on.lib.qp_ex_from_ibv_qp_ex(out.qp) : nullptr;
  // An extended queue begins with what a plain one is.
  out.cq = reinterpret_cast<ibv_cq_ex*>(cq);
  if (out.direct == nullptr || out.direct->wr_raw_wqe == nullptr)
    throw backend_error("ibv: a queue pair of " + on.port.name + " accepts no raw work requests");
  return out;
}

}  // namespace

raw_queue::raw_queue(const mlx5_card& card, const tier_options& options)
    : queue_base(card, options),
      own_(raw_layout(options.blocks).size),
      cq_(make_extended_cq(card, options.blocks)),
      qp_(make_raw_qp(card, cq_.get(), options, here_.limits.max_inline)),
      maps_(options.maps) {
  const raw_layout layout(options.blocks);
  here_.ring.blocks = here_.cq.count = options.blocks;
  here_.bell.form = wqe::doorbell_form::mailbox;
  place_at(own_.at(0), layout, here_);
  const raw_way way = way_of(card, qp_.get(), cq_.get());
  prepare_here(reinterpret_cast<wqe::send_queue_state*>(own_.at(0)));
  forwarder_.emplace(way, here_);
  auto* const base = static_cast<std::byte*>(maps_.map(own_.at(0), own_.size()));
  place_at(base, layout, at_gpu_);
  if (options.state == nullptr) at_gpu_.state = reinterpret_cast<wqe::send_queue_state*>(base);
}

}  // namespace lci::ibv
