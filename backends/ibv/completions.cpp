#include "backends/ibv/completions.hpp"

#include <algorithm>
#include <cerrno>

#include "backends/ibv/link.hpp"
#include "lci/base/env.hpp"
#include "lci/base/log.hpp"
#include "lci/errors.hpp"

namespace lci::ibv {
namespace {

// Null where it is not asked for, or the card offers none.
ibv_cq_ex* make_extended(const chosen_port& card, std::uint32_t size) {
  if (base::env::find("LCI_IBV_EXTENDED_CQ").value_or("0") == "0") return nullptr;
  ibv_cq_init_attr_ex wanted{};
  wanted.cqe = size;
  wanted.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_QP_NUM;
  // Not single-threaded: while one thread polls, another one may make it grow.
  return ibv_create_cq_ex(card.context.get(), &wanted);
}

void read(ibv_cq_ex* from, ibv_wc& out) noexcept {
  out.wr_id = from->wr_id;
  out.status = from->status;
  out.qp_num = ibv_wc_read_qp_num(from);
  if (out.status != IBV_WC_SUCCESS || !is_receive(out.wr_id)) return;
  out.opcode = ibv_wc_read_opcode(from);
  out.byte_len = ibv_wc_read_byte_len(from);
  out.wc_flags = ibv_wc_read_wc_flags(from);
  if ((out.wc_flags & IBV_WC_WITH_IMM) != 0) out.imm_data = ibv_wc_read_imm_data(from);
}

}  // namespace

completions::completions(const chosen_port& card, std::uint32_t size)
    : card_(card), size_(size), extended_(make_extended(card, size)) {
  cq_.reset(extended_ != nullptr ? ibv_cq_ex_to_cq(extended_)
                                 : library().create_cq(card.context.get(), static_cast<int>(size),
                                                       nullptr, nullptr, 0));
  if (!cq_)
    throw_error("ibv_create_cq", card.name + ", " + std::to_string(size) + " entries", errno);
  base::log::debug("ibv", "%s: %s completion queue of %u entries", card.name.c_str(),
                   extended_ != nullptr ? "extended" : "plain", size);
}

void completions::make_room(std::size_t peers, std::uint32_t depth, std::uint32_t others) {
  const std::size_t wanted = others + depth * peers;
  if (wanted <= size_) return;
  const auto most = static_cast<std::size_t>(card_.limits.max_cqe);
  if (wanted > most)
    throw backend_error("ibv: the completion queue of " + card_.name + " holds " +
                        std::to_string(most) + " entries, too few for " + std::to_string(peers) +
                        " peers with net_max_sends " + std::to_string(depth));
  const auto next = static_cast<std::uint32_t>(
      std::min(std::max(wanted, 2 * static_cast<std::size_t>(size_)), most));
  if (const int rc = library().resize_cq(cq_.get(), static_cast<int>(next)); rc != 0)
    throw_error("ibv_resize_cq", card_.name + ", to " + std::to_string(next), rc);
  size_ = next;
}

int completions::poll_extended(ibv_wc* out, int most) noexcept {
  ibv_poll_cq_attr nothing{};
  if (const int rc = ibv_start_poll(extended_, &nothing); rc != 0) return rc == ENOENT ? 0 : -1;
  int n = 0;
  // An error of the next one comes again when the next poll starts.
  do read(extended_, out[n]);
  while (++n < most && ibv_next_poll(extended_) == 0);
  ibv_end_poll(extended_);
  return n;
}

}  // namespace lci::ibv
