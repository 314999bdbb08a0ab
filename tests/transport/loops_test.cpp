// Event loops: nothing is lost however a side sleeps, and a side to which nothing comes sleeps.
#include <poll.h>
#include <sys/epoll.h>

#include <fstream>
#include <functional>
#include <random>
#include <thread>

#include "idle.hpp"

namespace transport_test {
namespace {

// Far beyond anything that is not lost.
constexpr int LOST_MS = 60000;

struct loop {
  explicit loop(lci::transport& of) : of(of), fd(epoll_create1(EPOLL_CLOEXEC)) {
    epoll_event event{};
    event.events = EPOLLIN;
    EXPECT_EQ(epoll_ctl(fd, EPOLL_CTL_ADD, of.event_fd(), &event), 0);
  }
  ~loop() { close(fd); }
  // One turn; false: nothing woke it.
  bool turn() {
    epoll_event event{};
    ++turns;
    if (epoll_wait(fd, &event, 1, LOST_MS) <= 0) return false;
    of.process();
    return true;
  }
  lci::transport& of;
  const int fd;
  std::uint64_t turns = 0;
};

// Sends `count` notifications in bursts, with pauses of all lengths.
void send_at_random(lci::transport& from, const lci::memory_view& local,
                    const lci::remote_buffer& remote, int count) {
  std::mt19937 random(5);
  for (int sent = 0; sent < count;) {
    const int burst = 1 + static_cast<int>(random() % 40);
    lci::transfer last;
    for (int i = 0; i < burst && sent < count; ++i, ++sent)
      last = from.write(local, remote, true, static_cast<std::uint64_t>(sent % 60000));
    if (random() % 4 != 0) last.get();
    if (random() % 8 == 0) usleep(random() % 300);
  }
  while (from.process()) {
  }
}

TEST(loops, epoll__every_notification_arrives) {
  both_ends e;
  e.connect();
  std::vector<std::uint8_t> bytes(64), there(64);
  lci::memory source(bytes.data(), 64), target(there.data(), 64);
  const int count = lci::test::IS_SANITIZED ? 10000 : 100000;
  std::thread sender(
      [&] { send_at_random(e.a, source.view(0, 8), target.remote().slice(0, 8), count); });
  loop at(e.b);
  lci::notification note;
  std::uint64_t sum = 0;
  bool is_lost = false;
  for (int got = 0; got < count && !is_lost;) {
    is_lost = !at.turn();
    for (; e.b.wait_for_write(0, &note); ++got) sum += note.tag;
  }
  sender.join();
  std::uint64_t expected = 0;
  for (int i = 0; i < count; ++i) expected += static_cast<std::uint64_t>(i % 60000);
  EXPECT_FALSE(is_lost) << e.b.describe();
  EXPECT_EQ(sum, expected);
  EXPECT_EQ(note.count, static_cast<std::uint64_t>(count));
}

// The receiver changes between sleeping in the loop, spinning in process(), and waiting.
TEST(loops, every_way_to_wait_in_turn) {
  both_ends e;
  e.connect();
  std::vector<std::uint8_t> bytes(64), there(64);
  lci::memory source(bytes.data(), 64), target(there.data(), 64);
  const int count = 20000;
  std::thread sender(
      [&] { send_at_random(e.a, source.view(0, 8), target.remote().slice(0, 8), count); });
  loop at(e.b);
  std::mt19937 random(6);
  lci::notification note;
  bool is_lost = false;
  for (int got = 0; got < count && !is_lost;) {
    switch (random() % 3) {
      case 0:
        is_lost = !at.turn();
        break;
      case 1:
        for (int i = 0; i < 200; ++i) e.b.process();
        break;
      default:
        is_lost = !e.b.wait_for_write(LOST_MS / 1000, &note);
        ++got;
    }
    while (e.b.wait_for_write(0, &note)) ++got;
  }
  sender.join();
  EXPECT_FALSE(is_lost) << e.b.describe();
}

// Both sides in one loop of one thread, which sleeps between all steps.
TEST(loops, both_sides_in_one_loop) {
  both_ends e;
  const int fd = epoll_create1(EPOLL_CLOEXEC);
  for (lci::transport* one : {&e.a, &e.b}) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.ptr = one;
    ASSERT_EQ(epoll_ctl(fd, EPOLL_CTL_ADD, one->event_fd(), &event), 0);
  }
  std::vector<std::uint8_t> here = pattern(3 << 20, 3), there(3 << 20);
  lci::memory source(here.data(), here.size()), target(there.data(), there.size());
  e.b.connect(e.a.bind());
  int rounds = 0;
  std::function<void(std::exception_ptr)> next = [&](std::exception_ptr problem) {
    EXPECT_EQ(problem, nullptr);
    if (++rounds == 20) return;
    e.b.next_write().on_done(next);
    e.a.write(source.view(), target.remote(), true);
  };
  next(nullptr);
  while (rounds < 20) {
    epoll_event events[2];
    const int n = epoll_wait(fd, events, 2, LOST_MS);
    ASSERT_GT(n, 0) << e.a.describe() << e.b.describe();
    for (int i = 0; i < n; ++i) static_cast<lci::transport*>(events[i].data.ptr)->process();
  }
  EXPECT_EQ(there, here);
  close(fd);
}

bool is_woken(lci::transport& one) {
  pollfd at{one.event_fd(), POLLIN, 0};
  return poll(&at, 1, LOST_MS) == 1;
}

// Nothing of the peer's comes, and yet there is something to do.
TEST(loops, woken_by_an_end_of_this_side) {
  std::string nobody;
  {
    lci::transport gone(usual());
    nobody = gone.bind();
  }
  lci::transport a(usual()), b(usual());
  const lci::transfer waiting = a.next_write();
  a.connect(nobody);  // refused at once
  while (!waiting.is_done()) {
    ASSERT_TRUE(is_woken(a));
    a.process();
  }
  EXPECT_THROW(waiting.get(), lci::peer_failure_error);
  lci::transport::peer peer = b.connect(a.bind());
  ASSERT_TRUE(run({&a, &b}, [&] { return a.connected() && b.connected(); }));
  while (a.process() || b.process()) {
  }
  const lci::transfer last = b.next_write();
  peer.close();
  while (!last.is_done()) {
    ASSERT_TRUE(is_woken(b));
    b.process();
  }
  EXPECT_THROW(last.get(), lci::peer_failure_error);
}

// Each in its loop, until nothing has come and no timer is left, also none that has just fired.
void serve_until_quiet(both_ends& e) {
  for (;;) {
    const bool has_timer = timers_armed() != 0;
    pollfd all[] = {{e.a.event_fd(), POLLIN, 0}, {e.b.event_fd(), POLLIN, 0}};
    const int woken = poll(all, 2, has_timer ? LOST_MS : 0);
    if (woken == 0 && !has_timer) return;
    ASSERT_GT(woken, 0);
    if (all[0].revents != 0) e.a.process();
    if (all[1].revents != 0) e.b.process();
  }
}

// The timer of an operation that has ended long before its limit.
TEST(loops, woken_after_a_spin__with_a_timer_far_ahead) {
  lci::transport_options options = usual();
  options.spin_s = 10;  // no wait here sleeps
  both_ends e(options);
  e.connect();
  std::vector<std::uint8_t> bytes(64), there(64);
  lci::memory source(bytes.data(), 64), target(there.data(), 64);
  ASSERT_TRUE(e.run_both(e.a.write(source.view(), target.remote())));
  serve_until_quiet(e);
  lci::transfer_options limited;
  limited.limit_s = 1e6;
  lci::key_options unknown;
  unknown.can_read = false;
  EXPECT_TRUE(e.b.write(target.view(), source.remote(unknown), limited).cancel());
  EXPECT_EQ(timers_armed(), 1);
  while (e.a.process() || e.b.process()) {
  }
  lci::notification note;
  EXPECT_FALSE(e.b.wait_for_write(0.05, &note));
  // The peer has heard that this side is awake, and does not wake it.
  for (int i = 0; i < 10; ++i) e.a.process();
  const lci::transfer told = e.a.write(source.view(), target.remote(), true, 9);
  do {
    ASSERT_TRUE(is_woken(e.b));
    e.b.process();
    e.a.process();
  } while (!e.b.wait_for_write(0, &note));
  EXPECT_EQ(note.tag, 9u);
}

std::size_t resident_bytes() {
  std::ifstream pages("/proc/self/statm");
  std::size_t all = 0, resident = 0;
  pages >> all >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

TEST(loops, idle__no_wake_ups_and_no_threads) {
  const bool are_heavy = is_heavy();
  const int transports = most_transports(are_heavy);
  RecordProperty("transports", transports);
  const int threads_before = threads_now();
  const std::size_t resident_before = resident_bytes();
  const int fd = epoll_create1(EPOLL_CLOEXEC);
  const idle_ends ends(transports);
  const std::vector<lci::transport*> all = ends.all();
  for (lci::transport* one : all) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.ptr = one;
    ASSERT_EQ(epoll_ctl(fd, EPOLL_CTL_ADD, one->event_fd(), &event), 0);
  }
  EXPECT_EQ(threads_now(), threads_before);
  const std::size_t each = (resident_bytes() - resident_before) / all.size();
  RecordProperty("bytes_each", std::to_string(each));
  EXPECT_TRUE(are_heavy || each < std::size_t{10} << 20) << each;
  // What is under way ends; then the loop is never woken.
  const auto serve = [&](int ms) {
    int woken = 0;
    epoll_event events[20];
    for (int n = 0; (n = epoll_wait(fd, events, 20, ms)) > 0; ++woken)
      for (int i = 0; i < n; ++i) static_cast<lci::transport*>(events[i].data.ptr)->process();
    return woken;
  };
  EXPECT_LT(serve(500), 1000000);
  EXPECT_EQ(timers_armed(), 0);
  const thread_use before = used_by_this_thread();
  EXPECT_EQ(serve(1000 * idle_seconds()), 0);
  const thread_use after = used_by_this_thread();
  RecordProperty("processor_us", static_cast<int>(after.processor_us - before.processor_us));
  RecordProperty("sleeps", static_cast<int>(after.sleeps - before.sleeps));
  EXPECT_EQ(threads_now(), threads_before);
  close(fd);
}

}  // namespace
}  // namespace transport_test
