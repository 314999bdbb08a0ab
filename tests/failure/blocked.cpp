// The last rank dies while the others wait for it in every way that there is, each in a thread of
// its own: all of them must be told, with the rank, and go on with each other. Run under
// lcrun --keep-going, three ranks, as
//   blocked <call>...
// with any of the names below, progress among them if there are several; the output says what each
// thread heard.
#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "lci.hpp"
#include "tests/failure/told.hpp"
#include "tests/support/in_thread.hpp"
#include "tests/support/watchdog.hpp"

namespace {

int me, last, other;
constexpr lci::tag_t SILENCE = 11, GREETING = 12, TALK = 13;  // nothing is sent with the first

// Of receives that nothing arrives for.
std::deque<lci::comp_t> hopeless;

lci::comp_t make_hopeless() {
  static std::deque<char> bytes;
  bytes.emplace_back();
  hopeless.push_back(lci::alloc_sync());
  lci::post_recv_x(last, &bytes.back(), 1, SILENCE, hopeless.back()).allow_done(false)();
  return hopeless.back();
}

struct call {
  std::string name;
  std::function<void(lci::comp_t)> wait;
};

[[noreturn]] void progress_for_ever(lci::comp_t) {
  for (;; sched_yield()) lci::progress();
}

void receive_from(int rank) {
  char byte;
  lci::post_recv(rank, &byte, 1, SILENCE + 10, lci::COMP_NULL);
}

const std::vector<call> CALLS = {
    {"progress", progress_for_ever},
    {"sync_wait", [](lci::comp_t done) { lci::sync_wait(done, nullptr); }},
    {"sync_wait_idle",
     [](lci::comp_t done) { lci::sync_wait_x(done, nullptr).do_progress(false)(); }},
    {"barrier", [](lci::comp_t) { lci::barrier(); }},
    {"wait_drained", [](lci::comp_t) { lci::wait_drained(); }},
    {"receive", [](lci::comp_t) { receive_from(last); }},
    {"receive_any", [](lci::comp_t) { receive_from(lci::ANY_SOURCE); }},
};

// The rank of which the call was told; -1: it came back.
int heard_in(const std::string& name, const std::function<void()>& action) {
  return lci::test::told_by(action, [&](const lci::peer_failure_error& error) {
    std::printf("rank %d, %s heard: %s\n", me, name.c_str(), error.what());
  });
}

// One thread in one call.
class waiting_thread {
 public:
  explicit waiting_thread(const call& what)
      : done_(make_hopeless()), thread_([this, &what] {
          has_begun_.store(true);
          heard_of_ = heard_in(what.name, [&] { what.wait(done_); });
        }) {}
  // Whether it is inside the call. Everything spins, so who has used so much of a processor is.
  bool is_inside() {
    clockid_t clock;
    timespec used{};
    return has_begun_.load() && pthread_getcpuclockid(thread_.native_handle(), &clock) == 0 &&
           clock_gettime(clock, &used) == 0 && (used.tv_sec > 0 || used.tv_nsec > 10'000'000);
  }
  int join() {
    thread_.join();
    return heard_of_;
  }

 private:
  const lci::comp_t done_;
  std::atomic<bool> has_begun_{false};
  int heard_of_ = -1;
  std::thread thread_;  // last: uses the others
};

// The last rank dies when it has this of all others. Not in a blocking call, which might hear of
// it.
void greet() {
  static char byte = 0;
  const lci::comp_t done = lci::alloc_sync();
  while (lci::post_send(last, &byte, 1, GREETING, done).is_retry()) lci::progress();
}

void exchange(int with, char* bytes, lci::comp_t done = lci::alloc_sync()) {
  lci::post_recv_x(with, bytes, 1, TALK, done).allow_done(false)();
  lci::post_send(with, &bytes[1], 1, TALK, lci::COMP_NULL);
  lci::sync_wait(done, nullptr);
}

// The living go on: what has been told is not told again, and who needs the dead is refused.
bool goes_on() {
  char bytes[2] = {0, static_cast<char>('a' + me)};
  bool is_well = heard_in("exchange", [&] {
                   for (int i = 0; i < 20; ++i) exchange(other, bytes);
                   if (me == 1) lci::post_send(other, &bytes[1], 1, TALK, lci::COMP_NULL);
                   if (me == 0) lci::post_recv(lci::ANY_SOURCE, bytes, 1, TALK, lci::COMP_NULL);
                 }) == -1;
  is_well = is_well && bytes[0] == 'a' + other;
  return heard_in("barrier of the living", [] { lci::barrier(); }) == last &&
         heard_in("receive from the dead", [] { receive_from(last); }) == last &&
         heard_in("progress of the living",
                  [] {
                    for (int i = 0; i < 1000; ++i) lci::progress();
                  }) == -1 &&
         is_well;
}

// A thread that comes when others have been told, and has operations with the dead to wait for.
bool comes_later() {
  bool is_well = true;
  const auto expect = [&](const char* what, int rank, const std::function<void()>& wait) {
    is_well = heard_in(what, wait) == rank && is_well;
  };
  for (const lci::comp_t done : hopeless) {
    expect("later sync_wait", last, [&] { lci::sync_wait(done, nullptr); });
    expect("later idle sync_wait", last,
           [&] { lci::sync_wait_x(done, nullptr).do_progress(false)(); });
  }
  expect("later wait_drained", -1, [] { lci::wait_drained(); });
  char bytes[2] = {0, 1};
  if (!hopeless.empty()) {
    expect("exchange with an object of before", -1,
           [&] { exchange(other, bytes, hopeless.front()); });
    hopeless.pop_front();
  }
  return is_well;
}

bool wait_in_threads(const std::vector<call>& calls) {
  std::deque<waiting_thread> threads;
  for (const call& what : calls) threads.emplace_back(what);
  for (waiting_thread& one : threads)
    while (!one.is_inside()) sched_yield();
  greet();
  bool is_well = true;
  for (waiting_thread& one : threads) is_well = one.join() == last && is_well;
  return is_well;
}

}  // namespace

int main(int argc, char** argv) {
  lci::g_runtime_init();
  me = lci::get_rank_me();
  last = lci::get_rank_n() - 1;
  other = 1 - me;
  lci::test::watchdog dog("waits for one that dies, rank " + std::to_string(me));
  std::vector<call> calls;
  for (const call& one : CALLS)
    for (int i = 1; i < argc; ++i)
      if (one.name == argv[i]) calls.push_back(one);
  if (me == last) {
    char byte;
    for (int from = 0; from < last; ++from)
      lci::post_recv(from, &byte, 1, GREETING, lci::COMP_NULL);
    std::raise(SIGKILL);
  }
  // One call alone: in this thread, which then has been told.
  const bool is_alone = calls.size() == 1;
  bool is_well;
  if (is_alone) {
    const lci::comp_t done = make_hopeless();
    greet();
    is_well = heard_in(calls[0].name, [&] { calls[0].wait(done); }) == last;
  } else {
    is_well = wait_in_threads(calls);
  }
  is_well = goes_on() && is_well;
  is_well = comes_later() && is_well;
  lci::test::in_thread([&] { is_well = comes_later() && is_well; });
  lci::g_runtime_fina();
  std::printf("rank %d ended%s\n", me, is_well ? " well" : ", but not as it should");
  return is_well ? 0 : 1;
}
