// What the environment says about a TCP rendezvous, torchrun style.
// Callers: the tcp bootstrap. Threads: any, as for getenv().
// Always true: address and port come from the same pair of variables, never from two; a key file
// that others may read is refused.
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace lci::boot {

struct tcp_variables {
  int rank = 0;
  int size = 1;
  std::string address;  // as written: a name or a number
  int port = 0;         // 1..65535
  std::string source;   // "MASTER_ADDR" and so on: which variable gave the address
  std::chrono::milliseconds limit{60'000};  // for each wait
  std::string secret;                       // of LCT_PMI_TCP_KEY or the file; empty = none
};

// The variables, if RANK, WORLD_SIZE and one pair are set and valid; otherwise nothing, and `why`
// says what is missing or wrong. The first complete pair of LCT_MASTER_*, LCI_MASTER_* and
// MASTER_* wins.
std::optional<tcp_variables> read_tcp_variables(std::string& why);

}  // namespace lci::boot
