// What a program asks of a hub and of the connections made by it. Callers: hub, pair. Threads: a
// value.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace lci::transports {

using clock = std::chrono::steady_clock;

struct setup_options {
  std::string address = "127.0.0.1";  // where to listen: a number; loopback unless told otherwise
  int port = 0;                       // 0: any
  // A secret that both ends were given by other means; then no URL names it. Empty: each URL has
  // one of its own.
  std::string key;
  double valid_s = 0;                  // of a URL; 0: as long as the hub
  int uses = 0;                        // of a URL; 0: any number of peers
  std::vector<std::string> providers;  // allowed: "shm", "ibv", "ofi"; empty: all
  bool use_gpu = true;
  double timeout_s = 10;  // of one set-up, and of a stranger
  // For tests. Null: the clock; the steps of a set-up are not reported.
  clock::time_point (*now)() = nullptr;
  void (*on_step)(const char* name) = nullptr;
};

}  // namespace lci::transports
