// How calls end that wait at the greatest depth of handlers: with an error where only another
// handler could bring what they wait for, whatever else is open; not because a peer is slow.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iterator>

#include "deepest.hpp"

namespace interface_test {
namespace {

constexpr const char* HELD_UP_LINE = "has received nothing for a while";

// What goes to stderr meanwhile is in a file, which other ranks can read, and in the end where it
// was to go.
class watched_log {
 public:
  watched_log() : path_(testing::TempDir() + "lci_log_" + std::to_string(getpid())) {
    const int file = open(path_.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    dup2(file, STDERR_FILENO);
    close(file);
  }
  ~watched_log() {
    dup2(before_, STDERR_FILENO);
    close(before_);
    std::fputs(text_in(path_).c_str(), stderr);
    unlink(path_.c_str());
  }
  watched_log(const watched_log&) = delete;
  watched_log& operator=(const watched_log&) = delete;
  const std::string& path() const { return path_; }
  static std::string text_in(const std::string& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }

 private:
  const std::string path_;
  const int before_ = dup(STDERR_FILENO);
};

// For a signal that the answer of the next rank brings, which is for a handler, and beside receives
// that stay. All ranks wait so at once, and that is why there is no answer.
TEST(nested_ends, for_the_answer_of_another_rank__in_an_error_also_beside_open_receives) {
  static lci::comp_t sync;
  static lci::rcomp_t answer;
  owned_comp made(lci::alloc_sync_x().threshold(1)());
  sync = made;
  owned_comp on_answer(lci::alloc_handler([](lci::status_t status) {
    std::free(status.buffer);
    static char byte;
    lci::comp_signal(sync, lci::status_t(&byte));
  }));
  owned_comp on_request(lci::alloc_handler([](lci::status_t status) {
    char byte = 0;
    lci::post_am_x(status.rank, &byte, 1, lci::COMP_NULL, answer).device(world().device)();
    std::free(status.buffer);
  }));
  answer = lci::register_rcomp(on_answer);
  const lci::rcomp_t request = lci::register_rcomp(on_request);
  static int handled;
  handled = 0;
  owned_comp queue(lci::alloc_cq()), counter(lci::alloc_counter()),
      other(lci::alloc_sync_x().threshold(1)()),
      handler(lci::alloc_handler([](lci::status_t) { ++handled; }));
  const lci::comp_t open[] = {queue, counter, other, handler};
  char bytes[std::size(open)];
  for (std::size_t i = 0; i < std::size(open); ++i)
    lci::post_recv_x(lci::ANY_SOURCE, &bytes[i], 1, 20 + i, open[i])
        .device(world().device)
        .allow_done(false)();
  char byte = 0;
  deepest here([&] {
    lci::post_am_x(world().next(), &byte, 1, lci::COMP_NULL, request).device(world().device)();
    const std::string text = text_thrown<lci::handler_depth_error>(
        [] { lci::sync_wait_x(sync, nullptr).device(world().device)(); });
    EXPECT_NE(text.find("only another handler can bring"), std::string::npos) << text;
  });
  lci::sync_wait_x(sync, nullptr).device(world().device)();
  barrier();
  for (std::size_t i = 0; i < std::size(open); ++i)
    lci::post_send_x(world().rank, &byte, 1, 20 + i, lci::COMP_NULL).device(world().device)();
  wait_until(
      [&] { return lci::cq_pop(queue).is_done() || lci::counter_get(counter) + handled == 2; });
  wait_until([&] { return lci::sync_test(other, nullptr); });
  wait_until([&] { return lci::counter_get(counter) + handled == 2; });
  barrier();
  lci::deregister_rcomp(request);
  lci::deregister_rcomp(answer);
}

// With LCI_ATTR_MAX_HANDLER_WAIT_S=2. Each rank waits for the others, and none can know of that.
TEST(nested_ends, for_a_peer_that_waits_as_well__in_an_error_once_the_program_allows_no_more) {
  if (world().n == 1) GTEST_SKIP() << "needs another rank";
  if (lci::get_g_runtime().get_attr_max_handler_wait_s() != 2)
    GTEST_SKIP() << "max_handler_wait_s is to be 2";
  waiting_handler others;
  owned_comp sync(lci::alloc_sync_x().threshold(1)()), numbered(lci::alloc_sync_x().threshold(1)());
  const lci::rcomp_t rcomp = lci::register_rcomp(numbered);
  const int to = world().next(), from = world().previous();
  char byte = 0, in = 0;
  deepest here([&] {
    others.send();
    const auto expect_end = [](const char* who, const std::function<void()>& wait) {
      const std::string text = text_thrown<lci::handler_depth_error>(wait);
      EXPECT_NE(text.find("max_handler_wait_s"), std::string::npos) << who << ": " << text;
      EXPECT_EQ(text.find("another type"), std::string::npos) << text;
    };
    const lci::device_t device = world().device;
    expect_end("post_recv",
               [&] { lci::post_recv_x(from, &in, 1, 31, lci::COMP_NULL).device(device)(); });
    expect_end("sync_wait for what a peer can name",
               [&] { lci::sync_wait_x(numbered, nullptr).device(device)(); });
    lci::post_recv_x(from, &in, 1, 30, sync).device(device).allow_done(false)();
    expect_end("sync_wait", [&] { lci::sync_wait_x(sync, nullptr).device(device)(); });
    expect_end("wait_drained", [&] { lci::wait_drained_x().device(device)(); });
    EXPECT_EQ(others.handled, 0);
  });
  barrier();
  lci::post_send_x(to, &byte, 1, 30, lci::COMP_NULL).device(world().device)();
  lci::sync_wait_x(sync, nullptr).device(world().device)();
  wait_until([&] { return others.handled == 1; });
  lci::deregister_rcomp(rcomp);
}

// With LCI_ATTR_MAX_HANDLER_WAIT_S=0. Rank 1 answers only when rank 0 has waited so long that it
// says so.
TEST(nested_ends, for_a_slow_peer__not_at_all) {
  if (world().n == 1) GTEST_SKIP() << "needs another rank";
  if (lci::get_g_runtime().get_attr_max_handler_wait_s() != 0)
    GTEST_SKIP() << "max_handler_wait_s is to be 0";
  waiting_handler others;
  inbox box;
  owned_comp sync(lci::alloc_sync_x().threshold(1)());
  char byte = 0;
  const auto wait = [&] {
    const watched_log log;
    std::string path = log.path();
    lci::post_am_x(1, path.data(), path.size(), lci::COMP_NULL, box.rcomp())
        .device(world().device)();
    others.send();
    lci::post_recv_x(1, &byte, 1, 32, sync).device(world().device).allow_done(false)();
    lci::sync_wait_x(sync, nullptr).device(world().device)();
    EXPECT_NE(log.text_in(path).find(HELD_UP_LINE), std::string::npos);
    EXPECT_EQ(others.handled, 0);
  };
  const auto be_slow = [&] {
    const lci::status_t got = pop(box.cq());
    const std::string path(static_cast<char*>(got.buffer), got.size);
    std::free(got.buffer);
    while (watched_log::text_in(path).find(HELD_UP_LINE) == std::string::npos) usleep(10000);
    lci::post_send_x(0, &byte, 1, 32, lci::COMP_NULL).device(world().device)();
  };
  {
    deepest here([&] {
      if (world().rank == 0) wait();
    });
    if (world().rank == 1) be_slow();
  }
  wait_until([&] { return world().rank != 0 || others.handled == 1; });
  barrier();
}

}  // namespace
}  // namespace interface_test
