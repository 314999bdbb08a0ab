// One of two processes is killed at each step of a set-up, on either side, and the other goes on:
// it hears of the end at once, by a typed error, and nothing is left behind. The other is one
// process for all of them, which counts its descriptors after each.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <cstring>

#include "lci/errors.hpp"
#include "lci/net/provider.hpp"
#include "lci/transport/hub.hpp"
#include "tests/support/process_harness.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/unit/transport/ends.hpp"

namespace lci::transports {
namespace {

using lci::test::child_process;
using lci::test::ENDED_WELL;
using lci::test::KILLED;
using test::pair_ptr;

// The names that pair and hub give their steps.
constexpr const char* STEPS_OF_JOINER[] = {"calling the peer",
                                           "agreeing on keys",
                                           "waiting to be let in",
                                           "waiting for the settings of the peer",
                                           "opening networks",
                                           "waiting for the device of the peer",
                                           "connected",
                                           "met"};
constexpr const char* STEPS_OF_ROOT[] = {"a stranger is answered",
                                         "waiting for the settings of the peer",
                                         "opening networks",
                                         "waiting for the device of the peer",
                                         "connected",
                                         "met"};

// Of the process that is to die.
const char* deadly_step = "";
child_process* deadly_child = nullptr;
[[noreturn]] void die() {
  deadly_child->reach("dead");
  std::raise(SIGKILL);
  std::abort();
}
void die_at(const char* step) {
  if (std::strcmp(step, deadly_step) == 0) die();
}

setup_options options_for(const std::string& provider) {
  setup_options out = test::patient();  // no end is found by waiting
  out.providers = {provider};
  return out;
}

// Connects, has the devices meet, and dies at its step, if it was not in the set-up.
int be_killed(child_process& me, bool is_root, const char* step, const std::string& provider) {
  const std::string turn = "go." + std::to_string(me.rank());
  while (!me.has_reached(0, turn)) usleep(1000);  // of many, one has its turn
  deadly_step = step;
  deadly_child = &me;
  setup_options options = options_for(provider);
  options.on_step = &die_at;
  hub mine(options);
  pair_ptr one;
  if (is_root)
    me.publish("url", mine.bind());
  else
    one = mine.connect(me.lookup(0, "url"));
  while (one == nullptr || one->now() == pair::state::connecting) {
    mine.progress();
    if (one == nullptr) one = mine.accepted();
  }
  if (one->now() != pair::state::connected) return 1;
  // The peer names a word, which is written: the devices have met.
  rmr_t to;
  bool is_told = false;
  one->on_message = [&](std::string_view text) {
    std::memcpy(&to, text.data(), sizeof to);
    is_told = true;
  };
  for (const std::string& text : one->take_early()) one->on_message(text);
  while (!is_told) mine.progress();
  std::uint64_t word = 5;
  comp_t done = alloc_sync_x().runtime(one->runtime())();
  status_t status;
  do {
    test::make_progress(one);
    status = post_put_x(1 - one->me(), &word, sizeof word, done, 0, to)
                 .runtime(one->runtime())
                 .device(one->device())();
  } while (status.is_retry());
  while (status.is_posted() && !sync_test(done, nullptr)) test::make_progress(one);
  die();
}

void expect_typed(const pair_ptr& one) {
  ASSERT_NE(one->problem(), nullptr) << one->why();
  EXPECT_THROW(std::rethrow_exception(one->problem()), peer_failure_error) << one->why();
}

// Goes through all of them.
int survive(child_process& me, bool is_root, int victims, const std::string& provider) {
  hub mine(options_for(provider));
  if (is_root) me.publish("url", mine.bind());
  std::size_t descriptors = 0;
  for (int who = 1; who <= victims; ++who) {
    me.reach("go." + std::to_string(who));
    pair_ptr one;
    if (!is_root) {
      std::string url;
      while ((url = me.lookup(who, "url")).empty()) usleep(100);
      one = mine.connect(url);
      EXPECT_TRUE(test::run({&mine}, [&] { return one->now() != pair::state::connecting; }))
          << one->describe();
    } else {
      // It comes, and goes: as a stranger, in set-up, or in use.
      while (one == nullptr && !me.has_reached(who, "dead")) {
        mine.progress();
        one = mine.accepted();
      }
      EXPECT_TRUE(test::run(
          {&mine}, [&] { return one || mine.strangers_now() + mine.under_way_now() == 0; }));
      if (one == nullptr) one = mine.accepted();
    }
    if (one != nullptr && one->now() == pair::state::connected) {
      std::uint64_t landed = 0;
      mr_t region =
          register_memory_x(&landed, sizeof landed).runtime(one->runtime()).device(one->device())();
      const rmr_t name = get_rmr(region);
      one->tell({reinterpret_cast<const char*>(&name), sizeof name});
      EXPECT_TRUE(test::run({&mine}, [&] {
        if (one->now() == pair::state::connected) {
          try {
            test::make_progress(one);
          } catch (const peer_failure_error&) {  // a network may know it first
          }
        }
        return one->now() == pair::state::closed;
      })) << one->describe();
      deregister_memory(&region);
    }
    if (one != nullptr) {
      expect_typed(one);
      one.reset();
    }
    EXPECT_TRUE(test::run({&mine}, [&] { return mine.strangers_now() == 0; }));
    const std::size_t now = lci::test::open_descriptors().size();
    if (who == 8) descriptors = now;  // what is opened at first use is open
    if (who > 8) {
      EXPECT_EQ(now, descriptors) << "after victim " << who;
    }
  }
  return 0;
}

// Why that network cannot be used here; empty if it can. The library without a card is inside one
// process.
std::string why_not(const std::string& name) {
  for (const net::provider& one : net::providers())
    if (one.name == name) return one.probe();
  return "this build has no " + name;
}

class hub_deaths_test : public testing::TestWithParam<std::pair<const char*, bool>> {
 protected:
  void SetUp() override {
    if (const auto why = hub::why_unsupported()) GTEST_SKIP() << *why;
    if (const std::string why = why_not(GetParam().first); !why.empty()) GTEST_SKIP() << why;
  }
};

TEST_P(hub_deaths_test, kill__at_each_step) {
  if (lci::test::HAS_THREAD_SANITIZER) GTEST_SKIP() << "processes of one thread each";
  const auto& [name, root] = GetParam();
  const std::vector<const char*> steps =
      root ? std::vector<const char*>(std::begin(STEPS_OF_ROOT), std::end(STEPS_OF_ROOT))
           : std::vector<const char*>(std::begin(STEPS_OF_JOINER), std::end(STEPS_OF_JOINER));
  const bool is_quick = std::strcmp(name, "shm") == 0;
  const char* const wanted = std::getenv("LCI_TEST_ROUNDS");
  const int sets = wanted != nullptr ? std::atoi(wanted) : 1;
  const int most = lci::test::IS_SANITIZED ? 24 : 48;
  const int victims = is_quick ? most : static_cast<int>(steps.size()) + 8;
  for (int set = 0; set < sets; ++set) {
    const std::string network = name;
    lci::test::processes all(
        victims + 1,
        [&, is_root = root](child_process& me) {
          const auto at = static_cast<std::size_t>(me.rank() - 1) % steps.size();
          return me.rank() == 0 ? survive(me, !is_root, victims, network)
                                : be_killed(me, is_root, steps[at], network);
        },
        800);
    std::vector<lci::test::process_end> ends(static_cast<std::size_t>(victims) + 1, KILLED);
    ends[0] = ENDED_WELL;
    all.expect_ends(ends);
  }
}

INSTANTIATE_TEST_SUITE_P(of_the_joiner_shm, hub_deaths_test,
                         testing::Values(std::pair<const char*, bool>("shm", false)));
INSTANTIATE_TEST_SUITE_P(of_the_root_shm, hub_deaths_test,
                         testing::Values(std::pair<const char*, bool>("shm", true)));
INSTANTIATE_TEST_SUITE_P(of_the_joiner_ofi, hub_deaths_test,
                         testing::Values(std::pair<const char*, bool>("ofi", false)));
INSTANTIATE_TEST_SUITE_P(of_the_root_ofi, hub_deaths_test,
                         testing::Values(std::pair<const char*, bool>("ofi", true)));
INSTANTIATE_TEST_SUITE_P(of_the_joiner_ibv, hub_deaths_test,
                         testing::Values(std::pair<const char*, bool>("ibv", false)));
INSTANTIATE_TEST_SUITE_P(of_the_root_ibv, hub_deaths_test,
                         testing::Values(std::pair<const char*, bool>("ibv", true)));

}  // namespace
}  // namespace lci::transports
