#include "lci/wqe/c_face.h"

#include "lci/wqe/c_face_calls.hpp"

namespace {

using lci::wqe::status;

constexpr bool same(lci_wqe_status_t a, status b) { return a == static_cast<int>(b); }
static_assert(same(LCI_WQE_OK, status::ok) && same(LCI_WQE_NOTHING, status::nothing) &&
              same(LCI_WQE_FAILED, status::failed) &&
              same(LCI_WQE_BAD_OPCODE, status::bad_opcode) &&
              same(LCI_WQE_BAD_LENGTH, status::bad_length) &&
              same(LCI_WQE_BAD_QPN, status::bad_qpn) &&
              same(LCI_WQE_TOO_MANY_OCTOWORDS, status::too_many_octowords) &&
              same(LCI_WQE_BAD_RING, status::bad_ring) &&
              same(LCI_WQE_LONGER_THAN_RING, status::longer_than_ring) &&
              same(LCI_WQE_INLINE_TOO_LONG, status::inline_too_long) &&
              same(LCI_WQE_INLINE_FROM_DEVICE, status::inline_from_device) &&
              same(LCI_WQE_INLINE_WITHOUT_MEANING, status::inline_without_meaning) &&
              same(LCI_WQE_BAD_ATOMIC_LENGTH, status::bad_atomic_length) &&
              same(LCI_WQE_MISALIGNED_ATOMIC, status::misaligned_atomic) &&
              same(LCI_WQE_BAD_ENTRY_COUNT, status::bad_entry_count) &&
              same(LCI_WQE_BAD_CQE_SIZE, status::bad_cqe_size) &&
              same(LCI_WQE_BAD_FENCE, status::bad_fence) &&
              same(LCI_WQE_BAD_DOORBELL_FORM, status::bad_doorbell_form) &&
              same(LCI_WQE_NO_GPU, status::no_gpu) && same(LCI_WQE_CUDA_ERROR, status::cuda_error));

constexpr bool same(lci_wqe_opcode_t a, lci::wqe::opcode b) { return a == static_cast<int>(b); }
using lci::wqe::opcode;
static_assert(same(LCI_WQE_NOP, opcode::nop) && same(LCI_WQE_SEND_INVAL, opcode::send_inval) &&
              same(LCI_WQE_RDMA_WRITE, opcode::rdma_write) &&
              same(LCI_WQE_RDMA_WRITE_IMM, opcode::rdma_write_imm) &&
              same(LCI_WQE_SEND, opcode::send) && same(LCI_WQE_SEND_IMM, opcode::send_imm) &&
              same(LCI_WQE_RDMA_READ, opcode::rdma_read) &&
              same(LCI_WQE_ATOMIC_CS, opcode::atomic_cs) &&
              same(LCI_WQE_ATOMIC_FA, opcode::atomic_fa) &&
              same(LCI_WQE_ATOMIC_MASKED_CS, opcode::atomic_masked_cs) &&
              same(LCI_WQE_ATOMIC_MASKED_FA, opcode::atomic_masked_fa) &&
              same(LCI_WQE_DUMP, opcode::dump));

constexpr bool same(lci_wqe_fence_t a, lci::wqe::fence_mode b) { return a == static_cast<int>(b); }
using lci::wqe::fence_mode;
static_assert(same(LCI_WQE_FENCE_NONE, fence_mode::none) &&
              same(LCI_WQE_FENCE_SMALL, fence_mode::small) &&
              same(LCI_WQE_FENCE_FULL, fence_mode::full));

constexpr bool same(lci_doorbell_form_t a, lci::wqe::doorbell_form b) {
  return a == static_cast<int>(b);
}
using lci::wqe::doorbell_form;
static_assert(same(LCI_DOORBELL_EIGHT_BYTES, doorbell_form::eight_bytes) &&
              same(LCI_DOORBELL_SYNTHESIZED, doorbell_form::synthesized) &&
              same(LCI_DOORBELL_BLUEFLAME, doorbell_form::blueflame) &&
              same(LCI_DOORBELL_MAILBOX, doorbell_form::mailbox));

}  // namespace

int64_t lci_send_wqe(lci_send_wqe_params_t params) { return lci::wqe::c_face::send(params); }
int64_t lci_recv_wqe(lci_recv_wqe_params_t params) { return lci::wqe::c_face::receive(params); }
int64_t lci_db_ring(lci_db_ring_params_t params) { return lci::wqe::c_face::ring(params); }
int64_t lci_cqe_poll(lci_cqe_poll_params_t params) { return lci::wqe::c_face::poll(params); }

const char* lci_wqe_text(int64_t answer) {
  return lci::wqe::text_of(answer >= 0 ? status::ok : static_cast<status>(answer));
}
