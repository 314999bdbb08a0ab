// Names of enumerators, for programs and messages.
// Called by programs and by code that builds messages for people. Threads: any; everything is
// immutable. Always true: a name is the spelling of the enumerator. No `default` in the switches,
// so that the compiler points here when an enumerator is added.

#include "lci/collective.hpp"
#include "lci/net.hpp"
#include "lci/status.hpp"

namespace lci {

const char* get_errorcode_str(errorcode_t errorcode) {
  switch (errorcode) {
    case errorcode_t::done_min:
      return "done_min";
    case errorcode_t::done:
      return "done";
    case errorcode_t::done_backlog:
      return "done_backlog";
    case errorcode_t::done_max:
      return "done_max";
    case errorcode_t::posted_min:
      return "posted_min";
    case errorcode_t::posted:
      return "posted";
    case errorcode_t::posted_backlog:
      return "posted_backlog";
    case errorcode_t::posted_max:
      return "posted_max";
    case errorcode_t::retry_min:
      return "retry_min";
    case errorcode_t::retry:
      return "retry";
    case errorcode_t::retry_init:
      return "retry_init";
    case errorcode_t::retry_lock:
      return "retry_lock";
    case errorcode_t::retry_nopacket:
      return "retry_nopacket";
    case errorcode_t::retry_nomem:
      return "retry_nomem";
    case errorcode_t::retry_backlog:
      return "retry_backlog";
    case errorcode_t::retry_max:
      return "retry_max";
    case errorcode_t::fatal:
      return "fatal";
  }
  return "unknown";
}

const char* get_net_opcode_str(net_opcode_t opcode) {
  switch (opcode) {
    case net_opcode_t::SEND:
      return "SEND";
    case net_opcode_t::RECV:
      return "RECV";
    case net_opcode_t::WRITE:
      return "WRITE";
    case net_opcode_t::REMOTE_WRITE:
      return "REMOTE_WRITE";
    case net_opcode_t::READ:
      return "READ";
    case net_opcode_t::ERROR:
      return "ERROR";
  }
  return "unknown";
}

namespace {

// The three algorithm enumerations have the same enumerators.
template <class Algorithm>
const char* algorithm_str(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::none:
      return "none";
    case Algorithm::direct:
      return "direct";
    case Algorithm::tree:
      return "tree";
    case Algorithm::ring:
      return "ring";
  }
  return "unknown";
}

}  // namespace

const char* get_broadcast_algorithm_str(broadcast_algorithm_t algorithm) {
  return algorithm_str(algorithm);
}
const char* get_reduce_scatter_algorithm_str(reduce_scatter_algorithm_t algorithm) {
  return algorithm_str(algorithm);
}
// Keeps programs working that were written against the declaration with the wrong enumeration.
const char* get_reduce_scatter_algorithm_str(broadcast_algorithm_t algorithm) {
  return algorithm_str(algorithm);
}
const char* get_allreduce_algorithm_str(allreduce_algorithm_t algorithm) {
  return algorithm_str(algorithm);
}
const char* get_allreduce_algorithm_str(broadcast_algorithm_t algorithm) {
  return algorithm_str(algorithm);
}

}  // namespace lci
