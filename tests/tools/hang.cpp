// Hangs in a known way, for the tests of the page of who waits for what: hang <way>. Ranks say
// "about to wait" before.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "lci.hpp"

namespace {

int me, n;
std::vector<char> large(1 << 20);
char small[64];

void about_to_wait(bool needs_barrier) {
  if (needs_barrier) lci::barrier_x()();
  std::printf("about to wait\n");
  std::fflush(stdout);
}

void receive(int from, lci::tag_t tag) {
  lci::post_recv_x(from, small, sizeof small, tag, lci::COMP_NULL)();
}

void send(int to, lci::tag_t tag) { lci::post_send_x(to, small, 8, tag, lci::COMP_NULL)(); }

// One rank waits for another tag than is sent.
void tag_mismatch() {
  if (me == 0) send(1, 7);
  if (me == 1) {
    lci::comp_t sync = lci::alloc_sync_x()();
    lci::post_recv_x(0, small, sizeof small, 8, sync)();
    lci::sync_wait_x(sync, nullptr)();
  }
  lci::barrier_x()();
}

// The message goes to another rank.
void wrong_peer() {
  if (me == 0) send(2, 5);
  if (me == 1) receive(0, 5);
  lci::barrier_x()();
}

void missing_from_barrier() {
  if (me != 2) return lci::barrier_x()();
  for (;;) ::pause();
}

void never_sent() {
  if (me == 1) receive(0, 3);
  for (;;) lci::progress_x()();
}

// Both receive first.
void each_other() { receive(1 - me, 4); }

void never_received() {
  if (me == 0) lci::post_send_x(1, large.data(), large.size(), 9, lci::COMP_NULL)();
  for (;;) lci::progress_x()();
}

// Nobody writes the data of the first messages, so that the others do not get their turn.
void large_active_messages() {
  lci::comp_t inbox = lci::alloc_cq_x()();
  lci::comp_t sent = lci::alloc_counter_x()();
  const lci::rcomp_t number = lci::register_rcomp_x(inbox)();
  lci::barrier_x()();
  if (me == 0) {
    for (int i = 0; i < 6; ++i) {
      while (lci::post_am_x(1, large.data(), large.size(), sent, number).tag(3)().is_retry())
        lci::progress_x()();
    }
    for (;;) ::pause();
  }
  for (;;) lci::progress_x()();
}

// One rank makes no progress from its start on, so that nobody can connect with it.
void still_connecting() {
  if (me == 1) {
    for (;;) ::pause();
  }
  send(1, 7);
  receive(1, 8);
}

void never_connected() {
  if (me == 0) receive(1, 8);
  for (;;) lci::progress_x()();
}

void no_progress() {
  if (me == 0) receive(1, 6);
  for (volatile unsigned i = 0;;) i = i + 1;
}

void stopped() {
  if (me == 1) ::raise(SIGSTOP);
  receive(1, 2);
}

// All packets are in the hands of the program, so that no more can be sent through one.
void no_packets() {
  if (me == 1) {
    for (;;) ::pause();
  }
  lci::packet_pool_t pool = lci::alloc_packet_pool_x().npackets(4)();
  while (lci::get_upacket_x().packet_pool(pool)() != nullptr) {
  }
  for (;;) {
    lci::post_send_x(1, large.data(), 2048, 1, lci::COMP_NULL_RETRY).packet_pool(pool)();
    lci::progress_x()();
  }
}

void other_collective() {
  if (me == 1)
    lci::broadcast_x(small, sizeof small, 2)();
  else
    lci::barrier_x()();
  lci::barrier_x()();
}

struct way {
  const char* name;
  void (*go)();
  bool needs_barrier = true;  // which connects the ranks
};
const way WAYS[] = {{"tag_mismatch", tag_mismatch},
                    {"wrong_peer", wrong_peer},
                    {"missing_from_barrier", missing_from_barrier},
                    {"never_sent", never_sent},
                    {"each_other", each_other},
                    {"never_received", never_received},
                    {"large_active_messages", large_active_messages},
                    {"still_connecting", still_connecting, false},
                    {"never_connected", never_connected, false},
                    {"no_progress", no_progress},
                    {"stopped", stopped},
                    {"no_packets", no_packets},
                    {"other_collective", other_collective}};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 1;
  lci::g_runtime_init_x()();
  me = lci::get_rank_me();
  n = lci::get_rank_n();
  for (const way& each : WAYS) {
    if (std::strcmp(each.name, argv[1]) != 0) continue;
    about_to_wait(each.needs_barrier);
    each.go();
  }
  lci::g_runtime_fina_x()();
  return 0;
}
