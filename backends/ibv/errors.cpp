#include "backends/ibv/errors.hpp"

#include <cstring>

#include "lci/base/log.hpp"
#include "lci/errors.hpp"

namespace lci::ibv {

void throw_error(std::string_view call, std::string_view what, int error) {
  throw backend_error("ibv: " + std::string(call) + " on " + std::string(what) + ": " +
                      std::strerror(error));
}

std::string_view meaning_of(ibv_wc_status status) noexcept {
  switch (status) {
    case IBV_WC_SUCCESS:
      return "done";
    case IBV_WC_LOC_LEN_ERR:
      return "local length error: a message did not fit the receive buffer or the device's limit";
    case IBV_WC_LOC_QP_OP_ERR:
      return "local queue pair error: no route to the peer, or an invalid work request";
    case IBV_WC_LOC_EEC_OP_ERR:
      return "local end-to-end context error";
    case IBV_WC_LOC_PROT_ERR:
      return "local protection error: the buffer is not, or no longer, registered";
    case IBV_WC_WR_FLUSH_ERR:
      return "flushed: the connection had failed before";
    case IBV_WC_MW_BIND_ERR:
      return "memory window bind error";
    case IBV_WC_BAD_RESP_ERR:
      return "bad response: the peer's card answered with what was not asked for";
    case IBV_WC_LOC_ACCESS_ERR:
      return "local access error: a peer wrote into receive memory that does not allow it";
    case IBV_WC_REM_INV_REQ_ERR:
      return "remote invalid request: the peer's card refused the operation or its length";
    case IBV_WC_REM_ACCESS_ERR:
      return "remote access error: the remote key is wrong or withdrawn, or the range is outside";
    case IBV_WC_REM_OP_ERR:
      return "remote operation error: the peer's card could not finish the operation";
    case IBV_WC_RETRY_EXC_ERR:
      return "no acknowledgement: the peer died or the link is down";
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return "the peer posted no receive in time";
    case IBV_WC_LOC_RDD_VIOL_ERR:
      return "local domain violation";
    case IBV_WC_REM_INV_RD_REQ_ERR:
      return "remote invalid domain request";
    case IBV_WC_REM_ABORT_ERR:
      return "the peer's card aborted the operation";
    case IBV_WC_INV_EECN_ERR:
      return "invalid end-to-end context number";
    case IBV_WC_INV_EEC_STATE_ERR:
      return "invalid end-to-end context state";
    case IBV_WC_FATAL_ERR:
      return "fatal error of the card";
    case IBV_WC_RESP_TIMEOUT_ERR:
      return "no response in time";
    case IBV_WC_GENERAL_ERR:
      return "general error of the transport";
    case IBV_WC_TM_ERR:
      return "tag matching error of the card";
    case IBV_WC_TM_RNDV_INCOMPLETE:
      return "the card left a rendezvous to the program";
    default:
      return "unknown completion status";
  }
}

void report_teardown(int error) noexcept {
  base::log::warn("ibv", "an object could not be destroyed: %s", std::strerror(error));
}

}  // namespace lci::ibv
