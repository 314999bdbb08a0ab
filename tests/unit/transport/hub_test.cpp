// Two hubs in one process and one thread: how connections come to be, and what comes of them.
#include "lci/transport/hub.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lci.hpp"

namespace lci::transports {
namespace {

using testing::HasSubstr;
using pair_ptr = std::shared_ptr<pair>;

// Makes both move until is_over() says so; false: it never does, although nothing happens any more.
template <class Fn>
bool run(std::vector<hub*> hubs, Fn&& is_over) {
  for (int idle = 0; idle < 20000;) {
    if (is_over()) return true;
    bool did = false;
    for (hub* one : hubs) did |= one->progress();
    idle = did ? 0 : idle + 1;
    if (!did) usleep(100);
  }
  return false;
}

class hub_test : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = hub::why_unsupported()) GTEST_SKIP() << *why;
  }
};

struct ends {
  explicit ends(const setup_options& of_root = {}, const setup_options& of_joiner = {})
      : root(of_root), joiner(of_joiner) {}
  void connect() {
    at_joiner = joiner.connect(root.bind());
    ASSERT_TRUE(run({&root, &joiner}, [&] {
      if (at_root == nullptr) at_root = root.accepted();
      return at_root != nullptr && at_joiner->now() != pair::state::connecting;
    })) << at_joiner->describe();
    ASSERT_EQ(at_joiner->now(), pair::state::connected) << at_joiner->why();
    ASSERT_EQ(at_root->now(), pair::state::connected) << at_root->why();
  }
  hub root, joiner;
  pair_ptr at_root, at_joiner;
};

// A word is put from one to the other.
void put_a_word(const pair_ptr& from, const pair_ptr& to) {
  std::uint64_t word = 0x1234567890, landed = 0;
  mr_t region =
      register_memory_x(&landed, sizeof landed).runtime(to->runtime()).device(to->device())();
  const rmr_t name = get_rmr(region);
  comp_t done = alloc_sync_x().runtime(from->runtime())();
  status_t status = post_put_x(1 - from->me(), &word, sizeof word, done, 0, name)
                        .runtime(from->runtime())
                        .device(from->device())();
  for (int i = 0; landed != word; ++i) {
    ASSERT_LT(i, 1'000'000);
    if (status.is_retry())
      status = post_put_x(1 - from->me(), &word, sizeof word, done, 0, name)
                   .runtime(from->runtime())
                   .device(from->device())();
    progress_x().runtime(from->runtime()).device(from->device())();
    progress_x().runtime(to->runtime()).device(to->device())();
  }
  if (status.is_posted())
    while (!sync_test(done, nullptr)) {
      progress_x().runtime(from->runtime()).device(from->device())();
      progress_x().runtime(to->runtime()).device(to->device())();
    }
  free_comp(&done);
  deregister_memory(&region);
}

TEST_F(hub_test, connect__in_one_process_and_one_thread) {
  ends e;
  e.connect();
  EXPECT_EQ(e.at_root->me(), 0);
  EXPECT_EQ(e.at_joiner->me(), 1);
  EXPECT_THAT(e.at_root->describe(), HasSubstr("1 peer over"));
  put_a_word(e.at_joiner, e.at_root);
  put_a_word(e.at_root, e.at_joiner);
}

}  // namespace
}  // namespace lci::transports
