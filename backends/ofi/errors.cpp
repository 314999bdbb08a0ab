#include "backends/ofi/errors.hpp"

#include <cerrno>

#include "backends/ofi/library.hpp"
#include "lci/base/log.hpp"
#include "lci/errors.hpp"

namespace lci::ofi {
namespace {

int positive(long code) noexcept { return static_cast<int>(code < 0 ? -code : code); }

}  // namespace

void throw_error(std::string_view call, std::string_view what, long code) {
  throw backend_error("ofi: " + std::string(call) + " on " + std::string(what) + ": " +
                      library().strerror(positive(code)));
}

bool is_again(long code) noexcept {
  return code == -FI_EAGAIN || code == -FI_ENOMEM || code == -FI_ENOBUFS;
}

std::string_view meaning_of(int code) noexcept {
  switch (code) {
    case 0:
      return "done";
    case FI_ECONNREFUSED:
      return "connection refused: the peer's process has ended, or its port is blocked";
    case FI_ECONNRESET:
    case EPIPE:
    case FI_ESHUTDOWN:
      return "the connection was reset: the peer's process has ended";
    case FI_ECONNABORTED:
      return "the connection was aborted by this side's network";
    case FI_ENOTCONN:
      return "not connected: the peer was lost before";
    case FI_EHOSTUNREACH:
    case FI_EHOSTDOWN:
    case FI_ENETUNREACH:
    case FI_ENETDOWN:
      return "no route to the peer's host";
    case FI_ETIMEDOUT:
      return "no reply in time: the peer died or the network is down";
    case FI_ECANCELED:
      return "cancelled: the connection had failed before";
    case FI_ETRUNC:
      return "a message did not fit the receive buffer: the peer uses other packet sizes";
    case FI_EOVERRUN:
      return "the completion queue overflowed";
    case FI_ENORX:
      return "the peer posted no receive in time";
    case FI_EACCES:
    case FI_EPERM:
      return "access refused: the remote key is wrong or withdrawn, or the range is outside";
    case FI_EKEYREJECTED:
    case FI_ENOKEY:
    case FI_EINVAL:
      return "the operation was refused: the remote key is wrong or withdrawn, or the range is "
             "outside";
    case FI_EADDRNOTAVAIL:
    case FI_ENOAV:
      return "the peer's address is not known to the provider";
    case FI_EIO:
    case FI_EREMOTEIO:
      return "input/output error of the provider or its card";
    case FI_EMSGSIZE:
      return "the message is longer than the provider's limit";
    case FI_ENOMEM:
    case FI_ENOBUFS:
      return "the provider is out of memory";
    default:
      return "the provider reports an error that lci has no word for";
  }
}

void report_teardown(int code) noexcept {
  base::log::warn("ofi", "an object could not be closed: %s", library().strerror(positive(code)));
}

}  // namespace lci::ofi
