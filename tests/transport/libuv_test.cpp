// A transport in a loop of libuv.
#include <uv.h>

#include "both_ends.hpp"

namespace transport_test {
namespace {

TEST(libuv, ping_pong_in_one_loop) {
  uv_loop_t loop;
  ASSERT_EQ(uv_loop_init(&loop), 0);
  both_ends e;
  uv_poll_t polls[2];
  lci::transport* const ends[] = {&e.a, &e.b};
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(uv_poll_init(&loop, &polls[i], ends[i]->event_fd()), 0);
    polls[i].data = ends[i];
    uv_poll_start(&polls[i], UV_READABLE, [](uv_poll_t* poll, int, int) {
      static_cast<lci::transport*>(poll->data)->process();
    });
  }
  std::vector<std::uint8_t> here = pattern(1000, 3), there(1000);
  lci::memory source(here.data(), here.size()), target(there.data(), there.size());
  e.b.connect(e.a.bind());
  int left = 1000;
  std::function<void(std::exception_ptr)> ping, pong;
  ping = [&](std::exception_ptr problem) {
    EXPECT_EQ(problem, nullptr);
    if (--left == 0) return uv_stop(&loop);
    e.b.next_write().on_done(pong);
    e.a.write(source.view(), target.remote(), true);
  };
  pong = [&](std::exception_ptr problem) {
    EXPECT_EQ(problem, nullptr);
    e.a.next_write().on_done(ping);
    e.b.write(target.view(), source.remote(), true);
  };
  ping(nullptr);
  uv_run(&loop, UV_RUN_DEFAULT);
  EXPECT_EQ(left, 0);
  EXPECT_EQ(there, here);
  for (uv_poll_t& one : polls) uv_close(reinterpret_cast<uv_handle_t*>(&one), nullptr);
  uv_run(&loop, UV_RUN_DEFAULT);
  EXPECT_EQ(uv_loop_close(&loop), 0);
}

}  // namespace
}  // namespace transport_test
