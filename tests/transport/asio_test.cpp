// A transport in a loop of asio: its descriptor is watched, and process() is called when it fires.
#include <asio.hpp>

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

}  // namespace
}  // namespace transport_test
