// Two programs on two hosts that were started separately: one listens at its own address, the other
// calls it, both write into each other's memory, and then the second one, or its whole host, is
// gone.
//   hosts.sh 2 1 none transport_hosts killed|silent|idle
// killed: while the first one writes. silent: no packet comes any more. idle: likewise, and the
// first one only waits.
// The hosts are named host0 and host1, at 10.88.N.2; $HOME is a folder that both see.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "lci/errors.hpp"
#include "lci/transport.hpp"
#include "tests/transport/pattern.hpp"
#include "tests/transport/usual_options.hpp"

namespace {

using transport_test::pattern;

constexpr std::size_t SIZE = 4 << 20;
constexpr std::uint64_t NAME = 1, ANSWER = 2, ALL = 3;

void demand(bool is_so, const std::string& what) {
  if (!is_so) throw std::runtime_error(what);
}

std::string in_home(const char* name) { return std::string(std::getenv("HOME")) + "/" + name; }
// Readers see all of it or nothing.
void publish(const char* name, const std::string& text) {
  const std::string path = in_home(name), part = path + ".part";
  std::ofstream(part) << text;
  demand(std::rename(part.c_str(), path.c_str()) == 0, "rename");
}
std::string lookup(const char* name) {
  for (;;) {
    std::ifstream in(in_home(name));
    std::stringstream text;
    if (in && text << in.rdbuf()) return text.str();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

// Until it hears that the other one is gone, by a typed error.
template <class Fn>
void repeat(lci::transport& one, Fn&& what) {
  for (int times = 0;; ++times) {
    try {
      what();
    } catch (const lci::peer_failure_error& lost) {
      std::printf("host0: heard of it at call %d: %s\n", times, lost.what());
      while (!one.peers().empty()) one.process();
      return;
    }
  }
}

// The same for who only waits. One that listens goes on waiting for others.
void wait_until_lost(lci::transport& one) {
  const lci::transport::peer other = one.peers().front();
  int times = 0;
  for (; !one.peers().empty(); ++times) one.wait_for_write(1, nullptr);
  std::printf("host0: heard of it at call %d: %s\n", times, other.why_closed().c_str());
}

void listen(const std::string& end) {
  lci::transport_options options = transport_test::usual();
  options.address = "10.88.0.2";
  std::vector<std::uint8_t> bytes(SIZE), source = pattern(SIZE, 2);
  lci::memory memory(bytes.data(), SIZE), answer(source.data(), SIZE);
  lci::transport one(options);
  publish("memory", memory.remote().to_string());
  publish("url", one.bind());
  demand(one.wait_for_write().tag == NAME, "the first notification");
  const lci::remote_buffer there =
      lci::remote_buffer::parse(reinterpret_cast<const char*>(bytes.data()));
  const std::string ways = one.describe();
  std::printf("%s\n", ways.c_str());
  demand(ways.find("over ofi") != std::string::npos, "a network between hosts");
  demand(ways.find("shm: ") != std::string::npos, "why not by shared memory");
  one.write(answer.view(), there, true, ANSWER).get();
  demand(one.wait_for_write().tag == ALL, "the last notification");
  demand(bytes == pattern(SIZE, 3), "what the other host has written");
  std::printf("host0: %zu bytes written there and as many here\n", SIZE);
  publish("go", "now");
  if (end == "idle") return wait_until_lost(one);
  repeat(one, [&] { one.write(answer.view(), there).get(); });
}

void call(const std::string& end) {
  std::vector<std::uint8_t> bytes(SIZE), source(SIZE);
  lci::memory memory(bytes.data(), SIZE), from(source.data(), SIZE);
  lci::transport one(transport_test::usual());
  one.connect(lookup("url"));
  const lci::remote_buffer there = lci::remote_buffer::parse(lookup("memory"));
  const std::string name = memory.remote().to_string();
  std::memcpy(source.data(), name.c_str(), name.size() + 1);
  one.write(from.view(0, 1024), there.slice(0, 1024), true, NAME).get();
  demand(one.wait_for_write().tag == ANSWER, "the answer");
  demand(bytes == pattern(SIZE, 2), "what the first host has written");
  const std::vector<std::uint8_t> last = pattern(SIZE, 3);
  std::copy(last.begin(), last.end(), source.begin());
  one.write(from.view(), there, true, ALL).get();
  lookup("go");
  for (int i = 0; i < 100; ++i) one.process();
  if (end == "killed") std::raise(SIGKILL);
  // Its packets go nowhere, and nobody says so.
  demand(std::system("ip link set eth0 down") == 0, "ip link set eth0 down");
  lookup("over");
  std::_Exit(0);  // the end of a transport would wait for its peer
}

}  // namespace

int main(int argc, char** argv) try {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  char host[64] = "";
  ::gethostname(host, sizeof host - 1);
  demand(argc == 2, "killed, silent or idle?");
  if (std::strcmp(host, "host1") == 0) call(argv[1]);
  listen(argv[1]);
  publish("over", "now");
  return 0;
} catch (const std::exception& e) {
  std::printf("transport_hosts: %s\n", e.what());
  return 1;
}
