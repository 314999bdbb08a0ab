// A rank ends before anybody has talked to it, so that no network can tell: the others hear of it
// through the bootstrap, in an error unless it left. From then on every post to it is
// refused, and leaves nothing behind. Run under lcrun --keep-going as
//   unmet <kill | exit | leave | ask | fork>
// fork: a child of it lives on, and has what it had open.
// ask: it is killed, and the others, which have nothing to do with it, are told only when they ask.
// The output says what each rank heard.
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "lci.hpp"
#include "lci/runtime/device.hpp"
#include "lci/runtime/runtime.hpp"
#include "tests/failure/told.hpp"
#include "tests/support/watchdog.hpp"

namespace {

// How the caller wants to hear of the end, which decides how a post may wait.
struct way_to_post {
  const char* name;
  lci::comp_t comp;
  bool allow_retry;
};

// All posts to a rank that is gone, of sizes that go inline, in a packet and after a rendezvous.
class posts_to_the_dead {
 public:
  explicit posts_to_the_dead(int rank) : rank_(rank) {}
  ~posts_to_the_dead() {
    lci::deregister_memory(&mr_);
    lci::deregister_rcomp(number_);
    lci::free_comp(&done_);
  }
  posts_to_the_dead(const posts_to_the_dead&) = delete;
  posts_to_the_dead& operator=(const posts_to_the_dead&) = delete;

  void try_all() {
    const way_to_post ways[] = {{"posted", done_, true},
                                {"posted without retry", done_, false},
                                {"blocking", lci::COMP_NULL, false},
                                {"blocking or retry", lci::COMP_NULL_RETRY, true}};
    for (const std::size_t size : {std::size_t{0}, std::size_t{8}, std::size_t{3000}, room_.size()})
      for (const way_to_post& way : ways) try_all_of(size, way);
  }
  // Whether all were refused, and nothing of them is left. Nobody may be sending anything.
  bool are_refused() {
    for (int round = 0; round < 100; ++round) lci::progress();
    pool().reclaim();
    expect(lci::cq_pop(done_).is_retry(), "a refused post has signalled its completion object");
    expect(pool().outstanding() == packets_before_, "a refused post has kept a packet");
    expect(lci::get_default_device().get_impl()->queues.is_drained(), "a refused post is open");
    expect(runtime().default_matching_engine.get_impl()->match.engine().size() == 0,
           "a refused receive waits for its message");
    return refused_ > 0 && !has_failed_;
  }
  int refused() const { return refused_; }

 private:
  static lci::runtime_impl_t& runtime() { return *lci::get_g_runtime().get_impl(); }
  static lci::mem::packet_pool& pool() { return runtime().default_packet_pool.get_impl()->packets; }
  void expect(bool holds, const std::string& what) {
    if (holds) return;
    std::printf("rank %d: %s\n", lci::get_rank_me(), what.c_str());
    has_failed_ = true;
  }

  void try_all_of(std::size_t size, const way_to_post& way) {
    void* const at = room_.data();
    try_one("send", size, way, lci::post_send_x(rank_, at, size, 7, way.comp));
    try_one("receive", size, way, lci::post_recv_x(rank_, at, size, 7, way.comp));
    try_one("active message", size, way, lci::post_am_x(rank_, at, size, way.comp, number_));
    // Nobody is asked whether a rank that is gone knows the key.
    const lci::rmr_t key = lci::get_rmr(mr_);
    try_one("put", size, way, lci::post_put_x(rank_, at, size, way.comp, 0, key));
    try_one("signal", size, way,
            lci::post_put_x(rank_, at, size, way.comp, 0, key).remote_comp(number_));
    try_one("get", size, way, lci::post_get_x(rank_, at, size, way.comp, 0, key));
  }

  template <class Op>
  void try_one(const std::string& kind, std::size_t size, const way_to_post& way, Op&& op) {
    const std::string what = kind + " of " + std::to_string(size) + " bytes, " + way.name;
    const int told = lci::test::told_by([&] {
      const lci::status_t answer = op.allow_retry(way.allow_retry)();
      expect(false, "could post to the dead: " + what + ", which answered " +
                        lci::get_errorcode_str(answer.error.errorcode));
    });
    if (told == -1) return;
    expect(told == rank_, what + " named rank " + std::to_string(told));
    ++refused_;
  }

  const int rank_;
  const std::size_t packets_before_ = pool().outstanding();
  int refused_ = 0;
  bool has_failed_ = false;
  std::vector<char> room_ = std::vector<char>(100000);
  lci::comp_t done_ = lci::alloc_cq();
  lci::rcomp_t number_ = lci::register_rcomp(done_);
  lci::mr_t mr_ = lci::register_memory(room_.data(), room_.size());
};

// The living go on.
bool exchange_with(int other) {
  int in = -1, mine = lci::get_rank_me();
  lci::comp_t done = lci::alloc_sync();
  const lci::status_t got = lci::post_recv(other, &in, sizeof(in), 7, done);
  while (lci::post_send(other, &mine, sizeof(mine), 7, lci::COMP_NULL_RETRY).is_retry())
    lci::progress();
  if (!got.is_done())
    while (!lci::sync_test(done, nullptr)) lci::progress();
  lci::free_comp(&done);
  return in == other;
}

// The rank whose death was heard of; -1: of none, or what follows it went wrong.
int listen(int last, bool is_for_ever, bool asks) {
  // That a rank left is no error for whom has nothing to do with it, however long one
  // listens: more than twice as long as it takes to hear of a death.
  const auto enough = std::chrono::steady_clock::now() + std::chrono::milliseconds(2500);
  const int me = lci::get_rank_me();
  posts_to_the_dead posts(last);
  try {
    while (me != last && (is_for_ever || std::chrono::steady_clock::now() < enough) &&
           (!asks || lci::get_failed_ranks().empty()))
      lci::progress();
    if (asks && me != last) lci::post_send(last, nullptr, 0, 7, lci::COMP_NULL);
  } catch (const lci::peer_failure_error& error) {
    std::printf("rank %d heard: %s\n", me, error.what());
    posts.try_all();
    if (!exchange_with(1 - me) || !posts.are_refused()) return -1;
    std::printf("rank %d: all %d posts to rank %d are refused\n", me, posts.refused(), last);
    return error.failed_rank();
  }
  return -1;
}

// A child that lives as long as the job.
void leave_a_child() {
  const pid_t launcher = getppid();
  if (fork() != 0) return;
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) close(fd);
  while (kill(launcher, 0) == 0) usleep(10000);
  _exit(0);
}

}  // namespace

int main(int, char** argv) {
  const std::string_view way = argv[1];
  const bool asks = way == "ask";
  lci::g_runtime_init_x().failure_notice(asks ? lci::attr_failure_notice_t::own
                                              : lci::attr_failure_notice_t::all)();
  const int me = lci::get_rank_me(), last = lci::get_rank_n() - 1;
  lci::test::watchdog dog("a death that no network sees, rank " + std::to_string(me));
  if (me == last && way == "fork") leave_a_child();
  if (me == last && (way == "kill" || way == "fork" || asks)) std::raise(SIGKILL);
  if (me == last && way == "exit") std::_Exit(3);
  const int heard_of = listen(last, way != "leave", asks);
  lci::g_runtime_fina();
  std::printf("rank %d ended\n", me);
  const int expected = me == last || way == "leave" ? -1 : last;
  return heard_of == expected ? 0 : 1;
}
