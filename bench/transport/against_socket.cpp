#include "against_socket.hpp"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <thread>
#include <vector>

#include "ends.hpp"

namespace transport_bench {

namespace {

constexpr int TURNS = 7;

// A stream through a plain socket of the loopback, as iperf3 does it: the sender sends, the
// receiver reads, and one byte comes back at the end.
double socket_stream(std::size_t size, int rounds) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof at;
  if (bind(listener, reinterpret_cast<sockaddr*>(&at), sizeof at) != 0) std::abort();
  getsockname(listener, reinterpret_cast<sockaddr*>(&at), &length);
  listen(listener, 1);
  std::thread reader([&] {
    const int from = accept(listener, nullptr, nullptr);
    std::vector<char> into(size);
    for (std::size_t left = size * static_cast<std::size_t>(rounds); left > 0;) {
      const ssize_t n = recv(from, into.data(), std::min(left, size), MSG_WAITALL);
      if (n <= 0) std::abort();
      left -= static_cast<std::size_t>(n);
    }
    send(from, "x", 1, 0);
    close(from);
  });
  const int to = socket(AF_INET, SOCK_STREAM, 0);
  if (connect(to, reinterpret_cast<sockaddr*>(&at), sizeof at) != 0) std::abort();
  const std::vector<char> bytes(size, 1);
  const double start = now_us();
  for (int i = 0; i < rounds; ++i)
    for (std::size_t sent = 0; sent < size;)
      sent += static_cast<std::size_t>(send(to, bytes.data() + sent, size - sent, 0));
  char last = 0;
  if (recv(to, &last, 1, 0) != 1) std::abort();
  const double us = (now_us() - start) / rounds;
  reader.join();
  close(to);
  close(listener);
  return us;
}

// Two ends of one process, with a thread for the one that answers. Memory of the same kind as the
// socket has.
class tcp_pair {
 public:
  explicit tcp_pair(std::size_t size)
      : from_(size, 1),
        to_(size, 1),
        a_(options(), from_.data(), size),
        b_(options(), to_.data(), size),
        there_(b_.memory.remote()) {
    b_.link.connect(a_.link.bind());
    while (!a_.link.connected() || !b_.link.connected()) a_.link.process(), b_.link.process();
    other_ = std::thread([this] { answer(b_, a_.memory.remote()); });
  }
  ~tcp_pair() {
    a_.link.write(a_.memory.view(0, 8), there_.slice(0, 8), true, 2).get();
    other_.join();
  }
  double microseconds(int rounds) { return stream(a_, there_, rounds); }
  std::string way() { return way_of(a_.link); }

 private:
  static lci::transport_options options() {
    lci::transport_options out;
    out.providers = {"ofi"};
    return out;
  }
  std::vector<char> from_, to_;
  end a_, b_;
  lci::remote_buffer there_;
  std::thread other_;
};

double median(std::vector<double> all) {
  std::sort(all.begin(), all.end());
  return all[all.size() / 2];
}

}  // namespace

void against_socket(std::size_t largest, bool is_quick) {
  const std::size_t bytes = std::size_t{is_quick ? 64u : 1024u} << 20;
  for (std::size_t size = 1 << 20; size <= largest; size *= 4) {
    const int rounds = static_cast<int>(std::max<std::size_t>(bytes / size, 4));
    tcp_pair pair(size);
    if (pair.way() != "net" && pair.way() != "tcp" && pair.way() != "sockets") {
      std::fprintf(stderr, "bench_transport: %s is not over TCP\n", pair.way().c_str());
      return;
    }
    pair.microseconds(rounds / 4 + 1);
    std::vector<double> ours, theirs, ratios;
    for (int turn = 0; turn < TURNS; ++turn) {
      ours.push_back(pair.microseconds(rounds));
      theirs.push_back(socket_stream(size, rounds));
      ratios.push_back(theirs.back() / ours.back());
    }
    std::sort(ratios.begin(), ratios.end());
    std::printf(
        "{\"bench\": \"transport\", \"what\": \"stream by turns with a socket\", \"bytes\": %zu, "
        "\"us\": %.1f, \"socket_us\": %.1f, \"ratio\": %.3f, \"low\": %.3f, \"high\": %.3f, "
        "\"way\": \"%s\"}\n",
        size, median(ours), median(theirs), ratios[TURNS / 2], ratios[1], ratios[TURNS - 2],
        pair.way().c_str());
    std::fflush(stdout);
  }
}

}  // namespace transport_bench
