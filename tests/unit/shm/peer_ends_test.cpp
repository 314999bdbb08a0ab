// When the end of a peer's process is noticed, and when it is not: real processes.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <thread>

#include "tests/unit/shm/pair.hpp"

namespace lci::shm {
namespace {

using test::pair;
using test::side;

constexpr int RANKS = 3;

// Shared by a test and its children.
struct ends_board {
  std::atomic<int> step;
  std::atomic<int> ready[RANKS];
  char address[RANKS][208];
};

class ends : public testing::Test {
 protected:
  ends()
      : b(static_cast<ends_board*>(mmap(nullptr, sizeof(ends_board), PROT_READ | PROT_WRITE,
                                        MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}
  ~ends() override {
    for (const pid_t child : children_) {
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    }
    munmap(b, sizeof(ends_board));
  }
  // A rank of its own, which has written down where it is, and knows rank 1.
  pid_t rank_in_child(int rank, const std::function<void(side&)>& body) {
    const pid_t child = fork();
    if (child != 0) return children_.emplace_back(child);
    test::addresses known(RANKS);
    side self(rank, known);
    std::strcpy(b->address[rank], known[static_cast<std::size_t>(rank)].c_str());
    b->ready[rank].store(1);
    wait_for_ready(1);
    known[1] = b->address[1];
    body(self);
    _exit(0);
  }
  void be_rank_1() {
    me = std::make_unique<side>(1, all);
    std::strcpy(b->address[1], all[1].c_str());
    b->ready[1].store(1);
    for (const int other : {0, 2}) {
      if (b->ready[other].load() < 0) continue;
      wait_for_ready(other);
      all[static_cast<std::size_t>(other)] = b->address[other];
    }
  }
  void wait_for_ready(int rank) const {
    while (b->ready[rank].load() == 0) sched_yield();
  }
  void wait_for_step(int step) const {
    while (b->step.load() < step) sched_yield();
  }
  bool until(const std::function<bool()>& done) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!done()) {
      if (std::chrono::steady_clock::now() > limit) return false;
      if (me->poll() == 0) sched_yield();
    }
    return true;
  }

  ends_board* const b;
  test::addresses all = test::addresses(RANKS);
  std::unique_ptr<side> me;

 private:
  std::vector<pid_t> children_;
};

// The child of a dead process keeps its sockets open, and lives on. It was made without the
// handlers of forks, one of which takes these from it.
TEST_F(ends, of_a_process_whose_child_lives_on__is_noticed) {
  b->ready[2].store(-1);
  rank_in_child(0, [this](side& zero) {
    while (zero.say(1, "hello") != errorcode_t::done) zero.poll();
    wait_for_step(1);
    if (_Fork() != 0) kill(getpid(), SIGKILL);
    while (b->step.load() < 2) usleep(1000);
  });
  be_rank_1();
  ASSERT_TRUE(until([&] { return me->seen.messages.size() == 1; }));
  b->step.store(1);
  EXPECT_TRUE(until([&] { return !me->seen.gone.empty(); }));
  b->step.store(2);
  ASSERT_EQ(me->seen.gone.size(), 1u);
  EXPECT_FALSE(me->seen.gone[0].orderly);
  EXPECT_EQ(me->say(0, "x"), errorcode_t::fatal);
}

// The kernel says that the process is over; the sockets may say nothing, since a child has them.
TEST_F(ends, that_can_be_seen__are_found_by_the_next_look) {
  b->ready[2].store(-1);
  const pid_t zero = rank_in_child(0, [this](side& self) {
    while (self.say(1, "hello") != errorcode_t::done) self.poll();
    wait_for_step(1);
    if (_Fork() != 0) kill(getpid(), SIGKILL);
    while (b->step.load() < 2) usleep(1000);
  });
  be_rank_1();
  ASSERT_TRUE(until([&] { return me->seen.messages.size() == 1; }));
  b->step.store(1);
  siginfo_t how;
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(zero), &how, WEXITED | WNOWAIT), 0);
  const std::uint64_t before = me->net->connections().looks();
  EXPECT_TRUE(until([&] {
    return me->net->connections().find(0)->has_ended() || me->net->connections().looks() > before;
  }));
  EXPECT_TRUE(me->net->connections().find(0)->has_ended()) << "one look has not found it";
  EXPECT_LE(me->net->connections().looks(), before + 1);
  EXPECT_TRUE(until([&] { return !me->seen.gone.empty(); }));
  b->step.store(2);
}

// In containers the process may not be visible; then its sockets have to do, so a child of it has
// none: not those of peers, nor that on which new ones call.
TEST_F(ends, fork__the_child_has_no_sockets) {
  const auto sockets = [] {
    int n = 0;
    for (int fd = 3; fd < 1000; ++fd) {
      struct stat what {};
      n += fstat(fd, &what) == 0 && S_ISSOCK(what.st_mode);
    }
    return n;
  };
  const int others = sockets();
  pair p;
  p.meet();
  EXPECT_GE(sockets(), others + 4) << "two that listen, two that are connected";
  const pid_t child = fork();
  if (child == 0) _exit(sockets() - others);
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(p.a.say(1, "still there"), errorcode_t::done);
  p.until([&] { return p.b.seen.messages.size() == 1; });
}

// What epoll says of a number may be older than the process that has it now. Rank 0 closes its
// sockets, rank 2 calls, rank 0 dies: one look hears of all three in this order, and by then the
// number that watched rank 0 watches rank 2.
TEST_F(ends, events_that_are_stale__are_not_taken_for_a_death) {
  const pid_t zero = rank_in_child(0, [this](side& self) {
    while (self.say(1, "hello") != errorcode_t::done) self.poll();
    wait_for_step(1);
    for (int fd = 3; fd < 100; ++fd) close(fd);
    b->step.store(2);
    pause();
  });
  rank_in_child(2, [this](side& self) {
    wait_for_step(3);
    while (self.say(1, "hello") != errorcode_t::done) self.poll();
    b->step.store(4);
    for (;;) self.poll();
  });
  be_rank_1();
  // Every number below those that rank 0 brings is taken, until one is given back.
  std::vector<int> spares;
  for (int i = 0; i < 64; ++i) spares.push_back(dup(STDERR_FILENO));
  ASSERT_TRUE(until([&] { return me->seen.messages.size() == 1; }));
  // What was ready stays in the list of events until a look finds that it is not any more.
  const std::uint64_t looks = me->net->connections().looks();
  ASSERT_TRUE(until([&] { return me->net->connections().looks() >= looks + 3; }));
  b->step.store(1);
  wait_for_step(2);
  b->step.store(3);
  wait_for_step(4);
  kill(zero, SIGKILL);
  siginfo_t how;
  waitid(P_PID, static_cast<id_t>(zero), &how, WEXITED | WNOWAIT);
  close(spares.front());
  ASSERT_TRUE(until([&] { return !me->seen.gone.empty() && me->seen.messages.size() == 2; }));
  for (int i = 0; i < 10000; ++i) me->poll();
  EXPECT_EQ(me->seen.gone.size(), 1u);
  EXPECT_EQ(me->seen.gone[0].rank, 0);
  for (std::size_t i = 1; i < spares.size(); ++i) close(spares[i]);
}

// A program that polled fast, and then seldom.
TEST(look, after_many_fast_polls__comes_within_a_bounded_number) {
  pair p;
  p.meet();
  for (int i = 0; i < 200'000; ++i) p.a.poll();
  for (int round = 0; round < 3; ++round) {
    const std::uint64_t before = p.a.net->connections().looks();
    std::uint32_t polls = 0;
    for (; p.a.net->connections().looks() == before && polls < 3 * inbox::MOST_POLLS_TO_LOOK;
         ++polls) {
      std::this_thread::sleep_for(std::chrono::microseconds(1100));
      p.a.poll();
    }
    EXPECT_LE(polls, inbox::MOST_POLLS_TO_LOOK);
  }
}

// Between two looks the sockets are left alone for a while, however fast the polls are: a look is a
// system call.
TEST(look, with_fast_polls__is_seldom) {
  pair p;
  p.meet();
  const std::uint64_t before = p.a.net->connections().looks();
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 1'000'000; ++i) p.a.poll();
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - begin);
  EXPECT_LE(p.a.net->connections().looks() - before, static_cast<std::uint64_t>(ms.count()) + 2);
}

}  // namespace
}  // namespace lci::shm
