// Transports in a loop of libuv: their descriptors are watched, and process() is called when one
// fires.
#include <uv.h>

#include <vector>

#include "idle.hpp"
#include "loop_ping_pong.hpp"

namespace transport_test {
namespace {

class watching_loop {
 public:
  explicit watching_loop(const std::vector<lci::transport*>& ends) : polls_(ends.size()) {
    EXPECT_EQ(uv_loop_init(&loop), 0);
    loop.data = this;
    uv_timer_init(&loop, &end_);
    for (std::size_t i = 0; i < ends.size(); ++i) {
      EXPECT_EQ(uv_poll_init(&loop, &polls_[i], ends[i]->event_fd()), 0);
      polls_[i].data = ends[i];
      uv_poll_start(&polls_[i], UV_READABLE, [](uv_poll_t* poll, int, int) {
        ++static_cast<watching_loop*>(poll->loop->data)->called_;
        static_cast<lci::transport*>(poll->data)->process();
      });
    }
  }
  ~watching_loop() {
    for (uv_poll_t& one : polls_) uv_close(reinterpret_cast<uv_handle_t*>(&one), nullptr);
    uv_close(reinterpret_cast<uv_handle_t*>(&end_), nullptr);
    uv_run(&loop, UV_RUN_DEFAULT);
    EXPECT_EQ(uv_loop_close(&loop), 0);
  }
  // How often a transport was called meanwhile.
  int run_for(std::uint64_t ms) {
    called_ = 0;
    // The time of the loop is that of its last turn.
    uv_update_time(&loop);
    uv_timer_start(
        &end_, [](uv_timer_t* timer) { uv_stop(timer->loop); }, ms, 0);
    uv_run(&loop, UV_RUN_DEFAULT);
    return called_;
  }
  uv_loop_t loop;

 private:
  std::vector<uv_poll_t> polls_;
  uv_timer_t end_;
  int called_ = 0;
};

TEST(libuv, ping_pong_in_one_loop) {
  both_ends e;
  watching_loop watched({&e.a, &e.b});
  loop_ping_pong game(e, 1000, [&] { uv_stop(&watched.loop); });
  game.start();
  uv_run(&watched.loop, UV_RUN_DEFAULT);
  game.expect_done();
}

// As in a loop of asio.
TEST(libuv, idle__no_handler_is_called) {
  const int transports = most_transports(is_heavy());
  RecordProperty("transports", transports);
  const int threads_before = threads_now();
  const idle_ends ends(transports);
  watching_loop watched(ends.all());
  // What is under way ends.
  while (watched.run_for(500) != 0) {
  }
  EXPECT_EQ(timers_armed(), 0);
  const thread_use before = used_by_this_thread();
  EXPECT_EQ(watched.run_for(1000 * static_cast<std::uint64_t>(idle_seconds())), 0);
  const thread_use after = used_by_this_thread();
  RecordProperty("processor_us", static_cast<int>(after.processor_us - before.processor_us));
  RecordProperty("sleeps", static_cast<int>(after.sleeps - before.sleeps));
  EXPECT_EQ(threads_now(), threads_before);
}

}  // namespace
}  // namespace transport_test
