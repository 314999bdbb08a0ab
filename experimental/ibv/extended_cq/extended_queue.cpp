// Completions read field by field, which spares the driver to fill in what nobody reads
// (docs/decisions/0017-way-of-a-message-over-verbs.md). Always true: nothing is read between a
// poll's start and its end but fields, so a driver may hold a lock there.
#include "backends/ibv/extended_queue.hpp"

#include <cerrno>

#include "backends/ibv/connection.hpp"

namespace lci::ibv {
namespace {

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

int poll_extended(ibv_cq_ex* queue, ibv_wc* out, int most) noexcept {
  ibv_poll_cq_attr nothing{};
  if (const int rc = ibv_start_poll(queue, &nothing); rc != 0) return rc == ENOENT ? 0 : -1;
  int n = 0;
  // An error of the next one comes again when the next poll starts.
  do read(queue, out[n]);
  while (++n < most && ibv_next_poll(queue) == 0);
  ibv_end_poll(queue);
  return n;
}

}  // namespace

extended_queue make_extended_queue(const chosen_port& card, std::uint32_t size) {
  ibv_cq_init_attr_ex wanted{};
  wanted.cqe = size;
  wanted.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_QP_NUM;
  // Not single-threaded: while one thread polls, another one may make it grow.
  return {ibv_create_cq_ex(card.context.get(), &wanted), &poll_extended};
}

}  // namespace lci::ibv
