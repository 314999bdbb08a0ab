// Steps of all ranks: what the devices that exist already do while one waits. One rank over shared
// memory, whose bootstrap waits as long as a test likes.
#include "lci/runtime/meeting.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "lci.hpp"
#include "lci/boot/local.hpp"
#include "lci/runtime/device.hpp"
#include "lci/runtime/global.hpp"
#include "lci/runtime/job.hpp"
#include "lci/runtime/runtime.hpp"

namespace lci::runtime {
namespace {

class waiting_bootstrap final : public boot::bootstrap {
 public:
  const char* name() const noexcept override { return "waiting"; }
  int rank() const noexcept override { return 0; }
  int size() const noexcept override { return 1; }
  void put(const std::string& key, const std::string& value) override { real_.put(key, value); }
  void fence() override { real_.fence(); }
  void fence_with(boot::meanwhile* work) override {
    with_work.push_back(work != nullptr);
    if (work != nullptr) wait(*work);
    fence();
  }
  std::string get(int rank, const std::string& key) override { return real_.get(rank, key); }

  std::function<void(boot::meanwhile&)> wait = [](boot::meanwhile&) {};
  std::vector<bool> with_work;  // of each fence

 private:
  boot::local_bootstrap real_;
};

int handled = 0;
void count_handled(status_t message) {
  ++handled;
  std::free(message.get_buffer());
}

class meeting_test : public testing::Test {
 protected:
  meeting_test() {
    auto made = std::make_unique<waiting_bootstrap>();
    boot_ = made.get();
    global_state& g = global();
    g.bootstrap = std::move(made);
    g.rank = 0;
    g.size = 1;
    g.initialized = 1;
    g_default_attr.shm_enable = true;
    handled = 0;
    owner_ = make_runtime();
    mine_ = runtime_t(owner_);
    queue_ = alloc_cq_x().runtime(mine_)();
    handler_ = alloc_handler_x(&count_handled).runtime(mine_)();
    number_ = register_rcomp_x(handler_).runtime(mine_)();
  }
  ~meeting_test() override {
    deregister_rcomp_x(number_).runtime(mine_)();
    free_comp(&handler_);
    free_comp(&queue_);
    free_runtime(owner_);
    finalize();
    g_default_attr = before_;
  }
  static runtime_impl_t* make_runtime() {
    auto* const out = base::make_live<runtime_impl_t>(runtime_attr_t(), "");
    global().runtimes.add(*out);
    return out;
  }
  static void free_runtime(runtime_impl_t* one) {
    global().runtimes.remove(*one);
    base::free_live(one, "runtime");
  }
  void make_and_free_device() {
    device_t made = alloc_device_x().runtime(mine_)();
    free_device_x(&made).runtime(mine_)();
  }
  // A message for the handler, and one for a receive, whose object is queue_.
  void send_both() {
    post_am_x(0, text_, sizeof text_, COMP_NULL, number_).runtime(mine_)();
    ASSERT_TRUE(post_recv_x(0, got_, sizeof got_, 1, queue_)
                    .runtime(mine_)
                    .allow_done(false)()
                    .is_posted());
    post_send_x(0, text_, sizeof text_, 1, COMP_NULL).runtime(mine_)();
  }
  bool is_received() { return cq_pop_x(queue_).runtime(mine_)().is_done(); }
  void expect_both_while(const std::function<void()>& all_ranks) {
    bool is_seen = false;
    boot_->wait = [&](boot::meanwhile& work) {
      while (!is_seen) {
        work.progress();
        is_seen = is_received();
      }
      // The message for the handler came first.
      EXPECT_EQ(handled, 0);
    };
    send_both();
    all_ranks();
    boot_->wait = [](boot::meanwhile&) {};
    EXPECT_TRUE(is_seen);
    EXPECT_EQ(handled, 0);
    while (handled == 0) progress_x().runtime(mine_)();
    EXPECT_EQ(handled, 1);
  }

  const global_attr_t before_ = g_default_attr;
  waiting_bootstrap* boot_ = nullptr;
  runtime_impl_t* owner_ = nullptr;
  runtime_t mine_;
  comp_t queue_, handler_;
  rcomp_t number_ = 0;
  char text_[8] = "message", got_[8];
};

TEST_F(meeting_test, first_device__there_is_nothing_to_do_meanwhile) {
  ASSERT_FALSE(boot_->with_work.empty());
  for (const bool one : boot_->with_work) EXPECT_FALSE(one);
}

TEST_F(meeting_test, progress__of_a_device_while_another_is_made) {
  expect_both_while([&] { make_and_free_device(); });
}

// Its number is free on all ranks, which is agreed on in a fence of its own.
TEST_F(meeting_test, progress__while_ranks_agree_on_a_number) {
  progress_x().runtime(mine_)();
  make_and_free_device();
  make_and_free_device();
  boot_->with_work.clear();
  make_and_free_device();
  EXPECT_EQ(boot_->with_work, (std::vector<bool>{true, true}));
}

TEST_F(meeting_test, progress__while_a_net_context_is_made) {
  expect_both_while([&] {
    net_context_t made = alloc_net_context_x().runtime(mine_)();
    free_net_context_x(&made).runtime(mine_)();
  });
}

TEST_F(meeting_test, progress__while_another_runtime_is_made) {
  expect_both_while([&] { free_runtime(make_runtime()); });
}

TEST_F(meeting_test, progress__what_it_finds_wrong_is_thrown_by_the_next_call) {
  boot_->wait = [&](boot::meanwhile& work) {
    while (!owner_->default_device.p_impl->queues.engine().errors.has_problems()) work.progress();
  };
  ASSERT_TRUE(post_recv_x(0, got_, 1, 1, queue_).runtime(mine_).allow_done(false)().is_posted());
  post_send_x(0, text_, sizeof text_, 1, COMP_NULL).runtime(mine_)();
  EXPECT_NO_THROW(make_and_free_device());
  EXPECT_THROW(progress_x().runtime(mine_)(), truncation_error);
}

TEST_F(meeting_test, is_all_out__with_nothing_under_way) {
  progress_x().runtime(mine_)();
  bool is_out = false;
  boot_->wait = [&](boot::meanwhile& work) { is_out = work.is_all_out(); };
  make_and_free_device();
  EXPECT_TRUE(is_out);
}

TEST_F(meeting_test, is_all_out__not_while_a_message_waits_for_its_receive) {
  std::vector<char> out(1 << 20, 'o'), in(out.size());
  ASSERT_TRUE(post_send_x(0, out.data(), out.size(), 1, queue_).runtime(mine_)().is_posted());
  bool is_out = true;
  boot_->wait = [&](boot::meanwhile& work) { is_out = work.is_all_out(); };
  make_and_free_device();
  EXPECT_FALSE(is_out);
  boot_->wait = [](boot::meanwhile&) {};
  post_recv_x(0, in.data(), in.size(), 1, COMP_NULL).runtime(mine_)();
  while (!is_received()) progress_x().runtime(mine_)();
  EXPECT_EQ(in, out);
}

// What comes for the raw calls is not for progress.
TEST_F(meeting_test, progress__none_of_devices_that_are_used_raw) {
  device_t raw = alloc_device_x().runtime(mine_)();
  EXPECT_FALSE(raw.p_impl->is_for_progress()) << "nothing was done with it";
  net_post_recv_x(got_, sizeof got_, MR_HOST).device(raw).runtime(mine_)();
  ASSERT_TRUE(
      net_post_send_x(0, text_, sizeof text_, MR_HOST).device(raw).runtime(mine_)().is_posted());
  ASSERT_TRUE(post_recv_x(0, text_, 1, 2, queue_).runtime(mine_)().is_posted());
  bool is_made = false;
  boot_->wait = [&](boot::meanwhile& work) {
    is_made = true;
    for (int i = 0; i < 100; ++i) work.progress();
  };
  make_and_free_device();
  EXPECT_TRUE(is_made);
  std::size_t entries = 0;
  net_status_t seen[2];
  while (entries < 2) entries += net_poll_cq_x(2, seen).device(raw).runtime(mine_)();
  EXPECT_EQ(std::memcmp(got_, text_, sizeof text_), 0);
  post_send_x(0, text_, 1, 2, COMP_NULL).runtime(mine_)();
  while (!is_received()) progress_x().runtime(mine_)();
  free_device_x(&raw).runtime(mine_)();
}

TEST_F(meeting_test, lock__is_held_by_this_thread_until_its_end) {
  bool is_asked = false;
  boot_->wait = [&](boot::meanwhile&) {
    is_asked = true;
    EXPECT_EQ(global().meeting_thread.load(), base::thread_id());
  };
  progress_x().runtime(mine_)();
  make_and_free_device();
  EXPECT_TRUE(is_asked);
  EXPECT_EQ(global().meeting_thread.load(), global_state::NO_THREAD);
  EXPECT_TRUE(global().bootstrap_lock.try_lock());
  global().bootstrap_lock.unlock();
}

}  // namespace
}  // namespace lci::runtime
