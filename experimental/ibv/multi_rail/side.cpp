#include "experimental/ibv/multi_rail/side.hpp"

#include <algorithm>

#include "backends/ibv/queue_pair.hpp"

namespace lci::ibv {
namespace {

constexpr std::uint32_t CONNECTIONS_OF_A_SIDE = 4;

std::uint32_t first_entries(const rail& on, std::uint32_t depth) {
  return std::min(depth * CONNECTIONS_OF_A_SIDE,
                  static_cast<std::uint32_t>(on.card.limits.max_cqe));
}

}  // namespace

side::side(const rail& on, std::uint32_t depth, std::size_t ranks)
    : rail_(on),
      depth_(std::min(depth, static_cast<std::uint32_t>(on.card.limits.max_qp_wr))),
      cq_(on.card, first_entries(on, depth_)),
      by_qpn_(ranks),
      connections_(ranks) {}

connection& side::make_connection(int rank) {
  if (connection* const known = find(rank); known != nullptr) return *known;
  cq_.make_room(store_.size() + 1, depth_);
  ibv_qp_init_attr made{};
  made.send_cq = made.recv_cq = cq_.queue();
  made.cap.max_send_wr = depth_;
  made.cap.max_recv_wr = made.cap.max_recv_sge = 1;  // of which nothing is ever posted
  made.cap.max_send_sge = 2;
  qp_handle qp = make_queue_pair(rail_.card, rail_.pd.get(), made, rank);
  store_.push_back(std::make_unique<connection>(rank, std::move(qp), 0, depth_, 0));
  connection& out = *store_.back();
  by_qpn_.enter(out);
  // edge ibv.side: partner is find().
  connections_[static_cast<std::size_t>(rank)].store(&out, std::memory_order_release);
  return out;
}

}  // namespace lci::ibv
