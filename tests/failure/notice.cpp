// The last of three ranks goes, and the others look at what they are told of it. Run under lcrun
// --keep-going as
//   notice own   it dies. Rank 0 has a receive from it and hears in progress; rank 1 has nothing to
//                do with it, goes on, and is told when it asks
//   notice all   the same with failure_notice `all`: both hear in progress
//   notice left  it takes leave. A receive from it that no message can meet any more ends
//   notice left_unmet  the same of a rank that nobody has met, of which no network can tell
//   notice left_root  it takes leave while the root of a blocking broadcast has much for it
//   notice end   it dies, and the others end while they send to each other what nobody receives
//   notice met   it dies while a blocking receive has met its message already
#include <sched.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "lci.hpp"
#include "tests/failure/told.hpp"
#include "tests/support/running_clock.hpp"
#include "tests/support/watchdog.hpp"

namespace {

using lci::test::told_by;

constexpr int LAST = 2;
constexpr lci::tag_t SILENCE = 11, WORD = 12, TALK = 13,
                     LARGE = 14;  // nothing is sent by the first

int me;
bool is_well = true;

void expect(bool holds, const char* what) {
  if (holds) return;
  std::printf("rank %d: not so: %s\n", me, what);
  is_well = false;
}

int told_by_progress() {
  return told_by([] { lci::progress(); });
}

void send_to(int rank, lci::tag_t tag) {
  static char byte = 0;
  while (lci::post_send(rank, &byte, 1, tag, lci::COMP_NULL_RETRY).is_retry()) lci::progress();
}

lci::comp_t receive_from(int rank, lci::tag_t tag) {
  static std::vector<char> bytes(16);
  const lci::comp_t done = lci::alloc_sync();
  lci::post_recv_x(rank, &bytes[tag], 1, tag, done).allow_done(false)();
  return done;
}

// The living go on with each other, and nothing more is told.
void go_on() {
  const lci::comp_t arrived = receive_from(1 - me, TALK);
  send_to(1 - me, TALK);
  expect(told_by([&] { lci::sync_wait(arrived, nullptr); }) == -1, "the living exchange messages");
  for (int i = 0; i < 1000; ++i) expect(told_by_progress() == -1, "progress has told everything");
}

void lose_the_last(bool is_all) {
  const std::vector<int> lost{LAST};
  // Everybody has met it, and an open receive of any source is nobody's loss.
  const lci::comp_t anything = receive_from(lci::ANY_SOURCE, SILENCE);
  lci::comp_t from_last;
  if (me == 0) from_last = receive_from(LAST, SILENCE);
  send_to(LAST, WORD);
  int told = -1;
  while (lci::get_failed_ranks().empty() && told == -1) told = told_by_progress();
  for (int i = 0; i < 1000 && told == -1; ++i) told = told_by_progress();
  expect(lci::get_failed_ranks() == lost, "who asks is told");
  expect(told == (me == 0 || is_all ? LAST : -1), "progress tells those whom it concerns");
  expect(told_by([] { send_to(LAST, WORD); }) == LAST, "a post to it is refused");
  expect(told_by([] { receive_from(LAST, SILENCE); }) == LAST, "a receive from it is refused");
  if (me == 0)
    expect(told_by([&] { lci::sync_wait(from_last, nullptr); }) == LAST, "its receive has ended");
  go_on();
  expect(told_by([] { lci::barrier(); }) == LAST, "a barrier needs everybody");
  expect(!lci::sync_test(anything, nullptr), "nothing was sent");
}

// The end of the last rank that takes leave is that of its process.
void leave_to(int rank) {
  send_to(rank, WORD);
  lci::g_runtime_fina();
}

void see_it_leave() {
  lci::comp_t word, silence;
  if (me == 0) {
    silence = receive_from(LAST, SILENCE);
    word = receive_from(LAST, WORD);
  }
  send_to(LAST, WORD);
  if (me == 0) {
    int told = -1;
    while (told == -1) told = told_by_progress();
    expect(lci::sync_test(word, nullptr), "what it had sent arrives first");
    expect(told == LAST, "progress tells that a receive from it has ended");
    expect(told_by([&] { lci::sync_wait(silence, nullptr); }) == LAST, "so does its object");
    expect(told_by([] { lci::wait_drained(); }) == -1, "nothing is open");
    expect(told_by([] { receive_from(LAST, SILENCE); }) == LAST, "a later one is refused");
    char byte;
    expect(told_by([&] { lci::post_recv(LAST, &byte, 1, SILENCE, lci::COMP_NULL); }) == LAST,
           "and one that waits");
  }
  go_on();
  expect(lci::get_failed_ranks().empty(), "it has not failed");
}

std::vector<char> large(1 << 20);

// Receives were posted before it left, or are posted behind that; one of them waits in its call.
void see_a_stranger_leave() {
  char byte;
  if (me == 0) {
    const lci::comp_t silence = receive_from(LAST, SILENCE);
    int told = -1;
    while (told == -1) told = told_by_progress();
    expect(told == LAST, "progress tells that a receive from it has ended");
    expect(told_by([&] { lci::sync_wait(silence, nullptr); }) == LAST, "so does its object");
  }
  expect(told_by([&] { lci::post_recv(LAST, &byte, 1, SILENCE, lci::COMP_NULL); }) == LAST,
         "a receive that waits ends");
  expect(told_by([] { receive_from(LAST, SILENCE); }) == LAST, "a later one is refused");
  expect(told_by([] { send_to(LAST, WORD); }) == LAST, "and so is a post to it");
  expect(told_by([] { lci::wait_drained(); }) == -1, "nothing is open");
  go_on();
  expect(lci::get_failed_ranks().empty(), "it has not failed");
}

// In the broadcast nothing comes from the last rank, and only the root has something for it.
void broadcast_to_who_leaves() {
  send_to(LAST, WORD);
  const int told = told_by([] {
    lci::broadcast_x(large.data(), large.size(), 0).algorithm(lci::broadcast_algorithm_t::direct)();
  });
  expect(me != 0 || told == LAST, "the broadcast ends at its root");
  go_on();
  expect(lci::get_failed_ranks().empty(), "it has not failed");
}

// Not only until the launcher has waited for it.
bool is_running(int pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string number, name, state;
  return stat >> number >> name >> state && state != "Z" && state != "X";
}

volatile bool has_come = false;
int last_pid = 0;

void receive_what_has_come() {
  lci::barrier();
  if (me == 1) send_to(0, WORD);  // it waits for nobody any more
  if (me == 0) {
    lci::sync_wait(receive_from(1, WORD), nullptr);
    while (!has_come) lci::progress();
    kill(last_pid, SIGKILL);
    while (is_running(last_pid)) sched_yield();
    // Its request is here; its bytes will never be, unless it could still give them.
    const int told =
        told_by([] { lci::post_recv(LAST, large.data(), large.size(), LARGE, lci::COMP_NULL); });
    expect(told == LAST, "the receive ends");
  }
  while (lci::get_failed_ranks().empty()) told_by_progress();
  go_on();
}

// Who ends after a death does not wait long for others that have heard of it as well. Before it was
// said that they have, each waited 10 s for the other.
void end_without_receives() {
  send_to(LAST, WORD);
  while (lci::get_failed_ranks().empty()) told_by_progress();
  const lci::comp_t never = lci::alloc_sync();
  while (lci::post_send(1 - me, large.data(), large.size(), LARGE, never).is_retry())
    told_by_progress();
  const lci::test::running_clock clock;
  lci::g_runtime_fina();
  expect(clock.ms() < 5000, "it ends soon");
}

void be_the_last(std::string_view scene, lci::rcomp_t sent) {
  if (scene == "met") {
    lci::barrier();
    const lci::comp_t done = lci::alloc_sync();
    while (lci::post_send(0, large.data(), large.size(), LARGE, done).is_retry()) lci::progress();
    int pid = getpid();
    while (lci::post_am(0, &pid, sizeof(pid), lci::COMP_NULL_RETRY, sent).is_retry())
      lci::progress();
    for (;;) pause();
  }
  char byte;
  for (int from = 0; from < LAST; ++from) lci::post_recv(from, &byte, 1, WORD, lci::COMP_NULL);
  if (scene == "left") return leave_to(0);
  if (scene == "left_root") return lci::g_runtime_fina();
  std::raise(SIGKILL);
}

}  // namespace

int main(int, char** argv) {
  lci::g_runtime_init();
  const std::string_view scene = argv[1];
  me = lci::get_rank_me();
  lci::test::watchdog dog("a rank that goes, rank " + std::to_string(me));
  const lci::rcomp_t sent = lci::register_rcomp(lci::alloc_handler([](lci::status_t status) {
    last_pid = *static_cast<int*>(status.buffer);
    std::free(status.buffer);
    has_come = true;
  }));
  if (me == LAST && scene == "left_unmet") {
    lci::g_runtime_fina();
    return 0;
  }
  if (me == LAST) {
    be_the_last(scene, sent);
    return 0;
  }
  if (scene == "left")
    see_it_leave();
  else if (scene == "left_unmet")
    see_a_stranger_leave();
  else if (scene == "left_root")
    broadcast_to_who_leaves();
  else if (scene == "met")
    receive_what_has_come();
  else if (scene == "end")
    end_without_receives();
  else
    lose_the_last(scene == "all");
  if (scene != "end") lci::g_runtime_fina();
  std::printf("rank %d ended%s\n", me, is_well ? " well" : ", but not as it should");
  return is_well ? 0 : 1;
}
