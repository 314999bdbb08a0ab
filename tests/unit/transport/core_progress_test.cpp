// What a transport whose thread makes progress tells its peer, and the threads that wait.
#include <atomic>
#include <chrono>
#include <future>
#include <thread>
#include <variant>

#include "ends.hpp"
#include "lci/transport.hpp"
#include "lci/transport/core.hpp"
#include "lci/transport/messages.hpp"

namespace lci::transports::test {
namespace {

class core_progress_test : public room_test {};

// The thread would poll for ever otherwise.
TEST_F(core_progress_test, serve__falls_asleep_after_the_program_has_spun) {
  transport_options options;
  options.timeout_s = 600;
  options.progress_thread = true;
  transport one(options);
  hub other(patient());
  const pair_ptr peer = other.connect(one.bind());
  std::vector<bell> heard;
  peer->on_message = [&](std::string_view bytes) {
    const auto message = decode(bytes);
    if (message && std::holds_alternative<bell>(*message))
      heard.push_back(std::get<bell>(*message));
  };
  ASSERT_TRUE(run({&other}, [&] { return is_settled(peer) && one.connected(); })) << peer->why();
  const auto is_told_awake = [&] { return !heard.empty() && heard.back().is_awake; };
  const auto spin = [&] {
    for (int i = 0; i < 1000; ++i) one.process();
    return other.progress();
  };
  ASSERT_TRUE(lci::test::move_until(spin, is_told_awake));
  // From now on only the thread calls it.
  EXPECT_TRUE(run({&other}, [&] { return !is_told_awake(); }));
}

// After that nothing happens on this transport.
TEST_F(core_progress_test, serve__who_waits_learns_of_an_end_by_this_side) {
  hub other(patient());
  transport_options options;
  options.timeout_s = 600;
  const auto one = std::make_shared<core>(options);
  one->start_thread();
  const std::shared_ptr<link> called = one->connect(other.bind());
  const transfer note = one->next_note();
  std::atomic<int> looks{0};
  std::future<bool> over = std::async(std::launch::async, [&] {
    return one->wait_until(-1, [&] {
      looks.fetch_add(1, std::memory_order_relaxed);
      return note.is_done();
    });
  });
  // It has the lock from its first look until it sleeps.
  while (looks.load(std::memory_order_relaxed) == 0) std::this_thread::yield();
  one->close(*called);
  EXPECT_EQ(over.wait_for(std::chrono::minutes(2)), std::future_status::ready);
  one->shut_down();  // it ends in any case
  EXPECT_TRUE(over.get());
  EXPECT_THROW(note.get(), peer_failure_error);
}

}  // namespace
}  // namespace lci::transports::test
