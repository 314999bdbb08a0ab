// What people read of the two tables.
#include "lci/proto/host/rendezvous.hpp"

namespace lci::proto {

const char* name_of(send_state s) noexcept {
  switch (s) {
    case send_state::rts_sent:
      return "rts_sent";
    case send_state::writing:
      return "writing";
    case send_state::finished:
      return "finished";
    case send_state::failed:
      return "failed";
  }
  return "?";
}

const char* name_of(send_event e) noexcept {
  switch (e) {
    case send_event::rtr:
      return "rtr";
    case send_event::unreachable:
      return "unreachable";
    case send_event::written:
      return "written";
    case send_event::write_failed:
      return "write_failed";
    case send_event::peer_ended:
      return "peer_ended";
  }
  return "?";
}

const char* name_of(recv_state s) noexcept {
  switch (s) {
    case recv_state::rtr_sent:
      return "rtr_sent";
    case recv_state::finished:
      return "finished";
    case recv_state::restaged:
      return "restaged";
    case recv_state::failed:
      return "failed";
  }
  return "?";
}

const char* name_of(recv_event e) noexcept {
  switch (e) {
    case recv_event::fin:
      return "fin";
    case recv_event::restage:
      return "restage";
    case recv_event::peer_ended:
      return "peer_ended";
  }
  return "?";
}

}  // namespace lci::proto
