// What a call tells of a rank that is lost. Threads: functions only.
#pragma once

#include "lci/errors.hpp"

namespace lci::test {

// The rank that `call` throws about, after hears(error); -1: it came back.
template <class Call, class Hears>
int told_by(Call&& call, Hears&& hears) {
  try {
    call();
    return -1;
  } catch (const peer_failure_error& error) {
    hears(error);
    return error.failed_rank();
  }
}
template <class Call>
int told_by(Call&& call) {
  return told_by(call, [](const auto&) {});
}

}  // namespace lci::test
