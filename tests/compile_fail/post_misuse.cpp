// Misuse of posts. Each case must be refused with a message that says what is wrong.
#include "lci.hpp"

lci::status_t misuse(lci::device_t device, lci::comp_t comp, void* buffer, lci::rmr_t rmr) {
  lci::post_send_x send(0, buffer, 8, 1, comp);
  lci::post_recv_x recv(0, buffer, 8, 1, comp);
  lci::post_am_x am(0, buffer, 8, comp, 1);
  lci::post_put_x put(0, buffer, 8, comp, 0, rmr);
  send.device(device).matching_policy(lci::matching_policy_t::tag_only);
#ifdef UNKNOWN_SETTER
  // case UNKNOWN_SETTER expect: no member named .*matching_polciy
  send.matching_polciy(lci::matching_policy_t::tag_only);
#endif
#ifdef MATCHING_POLICY_ON_AM
  // case MATCHING_POLICY_ON_AM expect: no member named .*matching_policy
  am.matching_policy(lci::matching_policy_t::tag_only);
#endif
#ifdef REMOTE_DISP_ON_SEND
  // case REMOTE_DISP_ON_SEND expect: no member named .*remote_disp
  send.remote_disp(8);
#endif
#ifdef REMOTE_COMP_ON_RECV
  // case REMOTE_COMP_ON_RECV expect: no member named .*remote_comp
  recv.remote_comp(1);
#endif
#ifdef DIRECTION_ON_SEND
  // case DIRECTION_ON_SEND expect: no member named .*direction
  send.direction(lci::direction_t::IN);
#endif
#ifdef MISSING_ARGUMENT
  // case MISSING_ARGUMENT expect: no matching (function|constructor)
  lci::post_send_x incomplete(0, buffer, 8, 1);
#endif
#ifdef DEVICE_AS_ENDPOINT
  // case DEVICE_AS_ENDPOINT expect: (cannot convert|no viable conversion).*endpoint_t
  send.endpoint(device);
#endif
#ifdef POINTER_AS_TAG
  // case POINTER_AS_TAG expect: (invalid conversion|cannot initialize).*(tag_t|unsigned long)
  send.tag(buffer);
#endif
#ifdef CONST_BUFFER
  // case CONST_BUFFER expect: (invalid conversion|no matching (constructor|function))
  lci::post_send_x constant(0, static_cast<const void*>(buffer), 8, 1, comp);
#endif
#ifdef NUMBER_AS_POLICY
  // case NUMBER_AS_POLICY expect: (cannot convert|cannot initialize).*matching_policy_t
  send.matching_policy(2);
#endif
  put.call();
  am.call();
  recv.call();
  return send.call();
}
