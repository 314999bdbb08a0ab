// A transport in a loop of asio: its descriptor is watched, and process() is called when it fires.
#include <asio.hpp>

#include "both_ends.hpp"

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
  std::vector<std::uint8_t> here = pattern(100000, 3), there(100000);
  lci::memory source(here.data(), here.size()), target(there.data(), there.size());
  e.b.connect(e.a.bind());
  int left = 1000;
  std::function<void(std::exception_ptr)> ping, pong;
  ping = [&](std::exception_ptr problem) {
    EXPECT_EQ(problem, nullptr);
    if (--left == 0) return loop.stop();
    e.b.next_write().on_done(pong);
    e.a.write(source.view(), target.remote(), true);
  };
  pong = [&](std::exception_ptr problem) {
    EXPECT_EQ(problem, nullptr);
    e.a.next_write().on_done(ping);
    e.b.write(target.view(), source.remote(), true);
  };
  ping(nullptr);
  loop.run();
  EXPECT_EQ(left, 0);
  EXPECT_EQ(there, here);
}

}  // namespace
}  // namespace transport_test
