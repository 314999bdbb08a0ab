// A transport in a loop of libuv.
#include <uv.h>

#include "loop_ping_pong.hpp"

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
  loop_ping_pong game(e, 1000, [&] { uv_stop(&loop); });
  game.start();
  uv_run(&loop, UV_RUN_DEFAULT);
  game.expect_done();
  for (uv_poll_t& one : polls) uv_close(reinterpret_cast<uv_handle_t*>(&one), nullptr);
  uv_run(&loop, UV_RUN_DEFAULT);
  EXPECT_EQ(uv_loop_close(&loop), 0);
}

}  // namespace
}  // namespace transport_test
