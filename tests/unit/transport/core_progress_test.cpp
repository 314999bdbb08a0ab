// What a peer is told by a transport whose thread makes progress.
#include <variant>

#include "ends.hpp"
#include "lci/transport.hpp"
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

}  // namespace
}  // namespace lci::transports::test
