// One-way latency and bandwidth between two processes: lcrun -n 2 latency [largest size] [rounds]
//
// Process 0 sends a window of messages and waits for an answer. A window of one, answered with the
// same kind of message, gives the latency, a large one the bandwidth. A get needs no answer: it
// fetches data itself.
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "keeping_allocator.hpp"
#include "lci.hpp"

namespace {

enum class kind_t { am, sendrecv, put, get };
constexpr char HEAD[] = "%9s %22s %22s %22s %22s\n", CELL[] = " %8.2f us %5.0f MB/s";
lci::comp_t arrived;  // counts messages from the peer, and gets that have completed
lci::comp_t sent;     // counts operations whose buffer may be reused
lci::rcomp_t for_am, for_put;
lci::rmr_t remote;  // the peer's `incoming`
std::vector<char> outgoing, incoming;
int me, peer;

void on_am(lci::status_t message) {
  // Up to this size, an active message for a zero_copy_am object is still in its packet.
  void* buffer = message.get_buffer();
  const bool in_packet = message.get_size() <= lci::get_max_bcopy_size();
  in_packet ? lci::put_upacket(buffer) : lci::get_allocator()->deallocate(buffer);
  lci::comp_signal(arrived, message);
}

// Posts until the library accepts; an operation that is done at once signals its object, too.
template <class Op>
void post(Op op) {
  op.allow_done(false);
  while (op().is_retry()) lci::progress();
}

void send(kind_t kind, size_t size) {
  char* data = outgoing.data();
  lci::post_put_x put(peer, data, size, sent, 0, remote);
  if (kind == kind_t::am) post(lci::post_am_x(peer, data, size, sent, for_am));
  if (kind == kind_t::sendrecv) post(lci::post_send_x(peer, data, size, 0, sent));
  if (kind == kind_t::put) post(put.remote_comp(for_put));
  if (kind == kind_t::get) post(lci::post_get_x(peer, data, size, arrived, 0, remote));
}

// Posts receives for `count` messages, all into one buffer, as their contents do not matter here.
void expect(kind_t kind, size_t size, int count) {
  for (int i = 0; kind == kind_t::sendrecv && i < count; ++i) {
    post(lci::post_recv_x(peer, incoming.data(), size, 0, arrived));
  }
}

void wait_for(lci::comp_t counter, int count) {
  while (lci::counter_get(counter) < count) lci::progress();
  lci::counter_set(counter, lci::counter_get(counter) - count);
}

// Seconds for `window` messages and an answer: the mean of `rounds`, from the least disturbed of
// several attempts.
double measure(kind_t kind, size_t size, size_t answer_size, int window, int rounds) {
  double best = 1e9;
  for (int attempt = 0; attempt < 4; ++attempt) {
    const auto start = std::chrono::steady_clock::now();
    for (int round = 0; round < rounds; ++round) {
      if (me == 0) {
        expect(kind, answer_size, 1);
        for (int i = 0; i < window; ++i) send(kind, size);
        wait_for(arrived, kind == kind_t::get ? window : 1);
        wait_for(sent, kind == kind_t::get ? 0 : window);
      } else if (kind != kind_t::get) {
        expect(kind, size, window);
        wait_for(arrived, window);
        send(kind, answer_size);
        wait_for(sent, 1);
      }
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    best = std::min(best, seconds.count() / rounds);
    lci::barrier();  // while process 0 gets, process 1 waits here and makes progress
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  const size_t largest = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 4 << 20;
  const size_t most_rounds = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 500;
  keeping_allocator_t allocator(largest);
  lci::g_runtime_init();
  lci::set_allocator(&allocator);  // for messages too large for a packet
  me = lci::get_rank_me(), peer = 1 - me;
  if (lci::get_rank_n() != 2) {
    if (me == 0) std::fputs("start two processes: lcrun -n 2 latency\n", stderr);
    lci::barrier();  // the message is printed before the first process, and with it the job, ends
    lci::g_runtime_fina();
    return 1;
  }
  arrived = lci::alloc_counter(), sent = lci::alloc_counter();
  lci::comp_t handler = lci::alloc_handler_x(on_am).zero_copy_am(true)();
  for_am = lci::register_rcomp(handler), for_put = lci::register_rcomp(arrived);
  outgoing.resize(largest), incoming.resize(largest);
  lci::mr_t region = lci::register_memory(incoming.data(), incoming.size());
  lci::rmr_t mine = lci::get_rmr(region), keys[2];
  lci::allgather(&mine, keys, sizeof(mine));
  remote = keys[peer];

  if (me == 0) std::printf(HEAD, "bytes", "message to handler", "send/receive", "put", "get");
  for (size_t size = 8; size <= largest; size *= 2) {
    if (me == 0) std::printf("%9zu", size);
    // Fewer rounds when one takes longer, and no more than a few MiB under way.
    const int rounds = int(std::max(size_t{4}, most_rounds * 4096 / std::max(size, size_t{4096})));
    const int window = int(std::clamp(size_t{8 << 20} / size, size_t{2}, size_t{32}));
    for (kind_t kind : {kind_t::am, kind_t::sendrecv, kind_t::put, kind_t::get}) {
      const double one_way = measure(kind, size, size, 1, rounds) / (kind == kind_t::get ? 1 : 2);
      const double stream = measure(kind, size, 8, window, std::max(2, rounds / window));
      if (me == 0) std::printf(CELL, one_way * 1e6, double(size) * window / stream / 1e6);
    }
    if (me == 0) std::puts(""), std::fflush(stdout);
  }
  for (lci::comp_t* comp : {&arrived, &sent, &handler}) lci::free_comp(comp);
  lci::deregister_memory(&region);
  lci::g_runtime_fina();
}
