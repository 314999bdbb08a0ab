// A transport in a loop of asio: its descriptor is watched, and process() is called when it fires.
#include <asio.hpp>
#include <chrono>

#include "idle.hpp"
#include "loop_ping_pong.hpp"

namespace transport_test {
namespace {

struct watched {
  watched(asio::io_context& loop, lci::transport& of) : of(of), descriptor(loop, of.event_fd()) {
    watch();
  }
  ~watched() { descriptor.release(); }
  void watch() {
    descriptor.async_wait(asio::posix::stream_descriptor::wait_read, [this](std::error_code error) {
      if (error) return;
      of.process();
      watch();
    });
  }
  lci::transport& of;
  asio::posix::stream_descriptor descriptor;
};

TEST(asio, ping_pong_in_one_loop) {
  asio::io_context loop;
  both_ends e;
  watched a(loop, e.a), b(loop, e.b);
  loop_ping_pong game(e, 100000, [&] { loop.stop(); });
  game.start();
  loop.run();
  game.expect_done();
}

// All that a transport does in such a program is done by a handler, since it has no thread.
TEST(asio, idle__no_handler_is_called) {
  const int transports = most_transports(is_heavy());
  RecordProperty("transports", transports);
  const int threads_before = threads_now();
  asio::io_context loop;
  const idle_ends ends(transports);
  std::vector<std::unique_ptr<watched>> all;
  for (lci::transport* one : ends.all()) all.push_back(std::make_unique<watched>(loop, *one));
  // What is under way ends.
  while (loop.run_for(std::chrono::milliseconds(500)) != 0) {
  }
  EXPECT_EQ(timers_armed(), 0);
  const thread_use before = used_by_this_thread();
  EXPECT_EQ(loop.run_for(std::chrono::seconds(idle_seconds())), 0u);
  const thread_use after = used_by_this_thread();
  RecordProperty("processor_us", static_cast<int>(after.processor_us - before.processor_us));
  RecordProperty("sleeps", static_cast<int>(after.sleeps - before.sleeps));
  EXPECT_EQ(threads_now(), threads_before);
}

}  // namespace
}  // namespace transport_test
