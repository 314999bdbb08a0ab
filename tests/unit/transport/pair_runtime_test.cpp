// The runtimes of connections beside those of a job, in one process. Also run by lcrun with two
// ranks, which are then connected as well.
#include "lci/transport/pair_runtime.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstring>

#include "lci/base/log.hpp"
#include "lci/errors.hpp"
#include "lci/runtime/global.hpp"
#include "lci/runtime/runtime.hpp"
#include "tests/unit/transport/ends.hpp"

namespace lci::transports {
namespace {

using test::ends;
using test::pair_ptr;

class pair_runtime_test : public test::room_test {
 protected:
  // A message of the job, to this rank itself.
  static void send_to_self() {
    std::uint64_t out = 77, in = 0;
    comp_t done = alloc_counter();
    post_recv_x(get_rank_me(), &in, sizeof in, 3, done)();
    status_t status;
    do {
      status = post_send_x(get_rank_me(), &out, sizeof out, 3, done)();
      progress();
    } while (status.is_retry());
    while (in != out) progress();
    while (counter_get(done) < (status.is_done() ? 1 : 2)) progress();
    free_comp(&done);
  }
};

// One that is made by hand, without sockets: what the two say is carried over.
TEST_F(pair_runtime_test, heard__two_of_them_by_hand) {
  const global_attr_t defaults = defaults_of_pair(global_attr_t());
  pair_runtime a(0, defaults, {"shm"}), b(1, defaults, {});
  const std::string of_a = a.begin(), of_b = b.begin();
  EXPECT_FALSE(a.is_whole());
  EXPECT_FALSE(a.heard(of_b));
  EXPECT_FALSE(b.heard(of_a));
  EXPECT_TRUE(a.is_whole() && b.is_whole());
  EXPECT_NE(a.summary().find("1 peer over shm"), std::string::npos) << a.summary();
  EXPECT_EQ(a.runtime().p_impl->core.me, 0);
  EXPECT_EQ(b.runtime().p_impl->core.me, 1);
  // One device is all that it has.
  EXPECT_THROW(alloc_device_x().runtime(a.runtime())(), argument_error);
}

TEST_F(pair_runtime_test, begin__unfinished_ones_leave_nothing) {
  const global_attr_t defaults = defaults_of_pair(global_attr_t());
  for (int said = 0; said < 3; ++said) {
    pair_runtime one(0, defaults, {});
    if (said > 0) one.begin();
    if (said > 1) {
      EXPECT_THROW(one.heard("this is no introduction"), backend_error);
    }
    EXPECT_FALSE(one.is_whole());
  }
  pair_runtime other_version(1, defaults, {});
  std::string said = other_version.begin();
  said[0] = said[0] == '9' ? '8' : '9';
  EXPECT_THROW(other_version.heard(said), backend_error);
}

TEST_F(pair_runtime_test, beside_a_job__in_any_order) {
  if (get_rank_n() > 1) GTEST_SKIP() << "for one rank";
  // Of connections, of the job, of both, and what is there when each ends.
  {
    ends e;
    e.connect();
    EXPECT_EQ(get_rank_me(), -1) << "there is no job";
    g_runtime_init();
    EXPECT_EQ(get_rank_me(), 0);
    EXPECT_EQ(get_rank_n(), 1);
    send_to_self();
    test::put_a_word(e.at_root, e.at_joiner);
    g_runtime_fina();
    test::put_a_word(e.at_joiner, e.at_root);
  }
  g_runtime_init();
  {
    const runtime::made_so_far before = runtime::global().made;
    ends e;
    e.connect();
    EXPECT_EQ(runtime::global().made.devices, before.devices) << "the same on all ranks";
    EXPECT_EQ(runtime::global().made.endpoints, before.endpoints) << "the same on all ranks";
    EXPECT_EQ(runtime::global().made.net_contexts, before.net_contexts);
    send_to_self();
    test::put_a_word(e.at_root, e.at_joiner);
    EXPECT_EQ(get_rank_me(), 0);
    runtime_t second = alloc_runtime();
    e.at_root->close();
    send_to_self();
    free_runtime(&second);
  }
  send_to_self();
  g_runtime_fina();
}

TEST_F(pair_runtime_test, log_lines__speak_of_a_peer) {
  base::log::context& log = base::log::global();
  const int before = log.threshold();
  log.set_threshold(static_cast<int>(base::log::level::info));
  testing::internal::CaptureStderr();
  {
    ends e;
    e.connect();
    test::put_a_word(e.at_root, e.at_joiner);
    proto::gpu::path_log& of_root = e.at_root->runtime().p_impl->shared.gpu.paths;
    of_root.direct(1);
    of_root.through_host(1, "rank 1 is not on this machine");
  }
  log.set_threshold(before);
  const std::string said = testing::internal::GetCapturedStderr();
  for (const char* const line :
       {"a connection, host ", "GPU memory and the peer: copied directly",
        "GPU memory and the peer: through host memory, the peer is not on this machine"})
    EXPECT_NE(said.find(line), std::string::npos) << line << "\nin: " << said;
  EXPECT_EQ(said.find("rank "), std::string::npos) << said;
}

// A completion object that a program frees is forgotten by all runtimes, those of connections too.
TEST_F(pair_runtime_test, free_comp__is_noticed_by_the_runtimes_of_connections) {
  ends e;
  e.connect();
  comp_t queue = alloc_cq_x().runtime(e.at_root->runtime())();
  register_rcomp_x(queue).runtime(e.at_root->runtime())();
  proto::remote_comps& numbers = e.at_root->runtime().p_impl->core.rcomps;
  const comp_impl_t& object = *queue.p_impl;
  EXPECT_TRUE(numbers.has(object));
  free_comp(&queue);
  EXPECT_FALSE(numbers.has(object));
}

TEST_F(pair_runtime_test, fork__the_child_is_refused_and_its_end_is_not_noticed) {
  ends e;
  e.connect();
  const pid_t child = fork();
  if (child == 0) {
    bool is_refused = false;
    try {
      hub another(test::patient());
    } catch (const argument_error&) {
      is_refused = true;
    }
    e.at_root.reset();  // it is the parent's, and ends nothing of it
    e.at_joiner.reset();
    _exit(is_refused ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 0);
  for (int i = 0; i < 100; ++i) {
    e.root.progress();
    e.joiner.progress();
  }
  test::put_a_word(e.at_root, e.at_joiner);
  EXPECT_EQ(e.at_root->now(), pair::state::connected);
}

// Two ranks of a job that are connected as well: both have what is theirs.
TEST(pair_runtime_in_job, job_and_connection__at_once) {
  if (const auto why = hub::why_unsupported()) GTEST_SKIP() << *why;
  g_runtime_init();
  const int me = get_rank_me(), n = get_rank_n();
  if (n == 2) {
    hub mine(test::patient());
    std::array<char, 256> url{};
    if (me == 0) {
      const std::string text = mine.bind();
      std::memcpy(url.data(), text.data(), text.size());
    }
    broadcast(url.data(), url.size(), 0);
    pair_ptr one = me == 1 ? mine.connect(url.data()) : nullptr;
    while (one == nullptr || one->now() == pair::state::connecting) {
      mine.progress();
      if (one == nullptr) one = mine.accepted();
      progress();
    }
    ASSERT_EQ(one->now(), pair::state::connected) << one->why();
    EXPECT_EQ(get_rank_me(), me);
    // Over the connection, and through the job.
    std::uint64_t landed = 0, word = 40 + static_cast<std::uint64_t>(me);
    mr_t region =
        register_memory_x(&landed, sizeof landed).runtime(one->runtime()).device(one->device())();
    const rmr_t mine_to_write = get_rmr(region);
    rmr_t theirs;
    one->on_message = [&](std::string_view text) {
      std::memcpy(&theirs, text.data(), sizeof theirs);
    };
    for (const std::string& text : one->take_early()) one->on_message(text);
    one->tell({reinterpret_cast<const char*>(&mine_to_write), sizeof mine_to_write});
    while (theirs.is_empty()) mine.progress();
    comp_t done = alloc_sync_x().runtime(one->runtime())();
    status_t status;
    do {
      test::make_progress(one);
      status = post_put_x(1 - one->me(), &word, sizeof word, done, 0, theirs)
                   .runtime(one->runtime())
                   .device(one->device())();
    } while (status.is_retry());
    barrier();
    while (landed != 41u - static_cast<std::uint64_t>(me) ||
           (status.is_posted() && !sync_test(done, nullptr)))
      test::make_progress(one);
    // One of them leaves the connection, and the job goes on.
    barrier();
    free_comp(&done);
    deregister_memory(&region);
    if (me == 0) one->close();
    while (one->now() != pair::state::closed) mine.progress();
    EXPECT_EQ(one->problem(), nullptr) << one->why();
    barrier();
  }
  g_runtime_fina();
}

}  // namespace
}  // namespace lci::transports
