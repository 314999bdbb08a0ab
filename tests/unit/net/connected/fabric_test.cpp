// A fabric of parts that write down what they are asked.
#include "lci/net/connected/fabric.hpp"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <vector>

#include "lci/net/connected/connection.hpp"
#include "tests/support/must_fire.hpp"
#include "tests/unit/net/connected/listener.hpp"

namespace lci::net::connected {
namespace {

struct listed_queue {
  listed_queue(int index, const device_config& config) : index_(index), config_(config) {}
  const device_config& config() const noexcept { return config_; }
  int index() const noexcept { return index_; }
  connection* find(int rank) noexcept { return met.contains(rank) ? &some : nullptr; }
  const connection* find(int rank) const noexcept { return met.contains(rank) ? &some : nullptr; }
  void request(int rank) noexcept { requested.push_back(rank); }
  void tell_withdrawn(int rank, remote_key name) noexcept {
    withdrawn.emplace_back(rank, name.slot);
  }
  void let_go(int rank, bool has_failed) noexcept { given_up.emplace_back(rank, has_failed); }
  void leave_polling() noexcept { ++left; }
  std::size_t poll(sink&, std::size_t max) noexcept { return max; }
  bool is_drained() const noexcept { return is_empty; }
  void forget_users() noexcept { ++forgotten; }
  void end_questions() noexcept { ++ended; }

  std::set<int> met;
  std::vector<int> requested;
  std::vector<std::pair<int, std::uint32_t>> withdrawn;
  std::vector<std::pair<int, bool>> given_up;
  int left = 0;
  bool is_empty = true;
  int forgotten = 0;
  int ended = 0;
  connection some{1};

 private:
  const int index_;
  const device_config config_;
};
struct no_endpoint {
  static std::unique_ptr<net::endpoint> make(listed_queue&, bool) { return nullptr; }
};
struct listed_memory {
  std::uint64_t add(void*, std::size_t, mem::mem_kind, std::string&) { return ++last; }
  std::vector<int> remove(std::uint64_t key, remote_key* name) noexcept {
    *name = names[key];
    return readers;
  }
  void publish(remote_key name, std::uint64_t key) { names[key] = name; }
  remote_target target_of(remote_key) noexcept { return {}; }
  std::uint64_t last = 0;
  std::map<std::uint64_t, remote_key> names;
  std::vector<int> readers;
};
struct listed_calls {
  std::string address() const { return "nowhere"; }
  void add_queues(listed_queue& made) { devices.push_back(made.index()); }
  std::vector<int> devices;
};
struct listed_keys {
  remote_view find(int, remote_key, int device) noexcept {
    asked.push_back(device);
    return answer;
  }
  std::vector<int> asked;  // devices
  remote_view answer;
};

class fabric_of_parts final : public fabric<fabric_of_parts, listed_queue, no_endpoint> {
 public:
  explicit fabric_of_parts(const fabric_config& config) : config_(checked(config, "test")) {}
  const capabilities& caps() const noexcept override { return caps_; }
  std::string_view name() const noexcept override { return "test"; }
  network_names names() const override { return {}; }
  void leave() noexcept override {}
  const fabric_config& config() const noexcept { return config_; }
  listed_memory& memory() noexcept { return memory_; }
  listed_keys& keys() noexcept { return keys_; }
  listed_calls& calls() noexcept { return calls_; }
  const listed_calls& calls() const noexcept { return calls_; }
  device_list<listed_queue>& devices() noexcept { return devices_; }
  std::unique_ptr<listed_queue> make_queue(int index, const device_config& wanted) {
    device_config possible = wanted;
    possible.max_sends = std::min<std::size_t>(wanted.max_sends, 8);
    return std::make_unique<listed_queue>(index, possible);
  }

 private:
  const fabric_config config_;
  capabilities caps_;
  listed_memory memory_;
  listed_keys keys_;
  listed_calls calls_;
  device_list<listed_queue> devices_{"test"};
};

class fabric_test : public testing::Test {
 protected:
  fabric_test() {
    config_.book = &book_;
    config_.arena = &arena_;
    config_.regions = &regions_;
    all_ = std::make_unique<fabric_of_parts>(config_);
  }
  std::unique_ptr<net::device> make(int index) {
    device_config wanted;
    return all_->make_device(index, wanted);
  }
  listed_queue& queue(int index) {
    return all_->devices().get(index, [] { return std::unique_ptr<listed_queue>(); });
  }

  book_of_nowhere book_{0, 4};
  mem::arena arena_;
  mem::region_table regions_{arena_};
  fabric_config config_;
  std::unique_ptr<fabric_of_parts> all_;
};

TEST_F(fabric_test, checked__names_what_a_fabric_needs) {
  EXPECT_TRUE(test::throws_with<backend_error>([] { fabric_of_parts({}); }, {"test: ", "arena"}));
}

TEST_F(fabric_test, make_device__queues_are_made_once_and_outlive_it) {
  device_config wanted;
  wanted.max_sends = 64;
  for (int i = 0; i < 2; ++i) {
    const auto one = all_->make_device(3, wanted);
    EXPECT_EQ(wanted.max_sends, 8u) << "what there is of it";
    EXPECT_EQ(queue(3).left, i);
  }
  EXPECT_EQ(queue(3).left, 2) << "another thread may poll from now on";
  EXPECT_EQ(queue(3).ended, 2) << "nothing is asked over it any more";
  EXPECT_EQ(all_->calls().devices, std::vector<int>{3});
  for (const int nonsense : {-1, 1024})
    EXPECT_TRUE(test::throws_with<backend_error>(
        [&] { make(nonsense); }, {"test: device index " + std::to_string(nonsense)}));
}

TEST_F(fabric_test, make_device__what_a_device_leaves_is_nobodys) {
  device_config wanted;
  all_->make_device(3, wanted).reset();
  EXPECT_EQ(queue(3).forgotten, 0);
  queue(3).is_empty = false;
  all_->make_device(3, wanted).reset();
  EXPECT_EQ(queue(3).forgotten, 1);
}

TEST_F(fabric_test, let_go__is_for_every_device) {
  const auto one = make(0), other = make(5);
  all_->let_go(2, false);
  all_->let_go(1, true);
  for (const int index : {0, 5})
    EXPECT_EQ(queue(index).given_up, (std::vector<std::pair<int, bool>>{{2, false}, {1, true}}));
}

TEST_F(fabric_test, may_bring__only_a_rank_that_was_met) {
  const auto one = make(0);
  EXPECT_FALSE(one->may_bring(1));
  queue(0).met = {1};
  EXPECT_TRUE(one->may_bring(1));
}

TEST_F(fabric_test, connect__over_one_device_and_not_where_there_is_a_connection) {
  const auto first = make(0), second = make(1);
  all_->connect(0);
  all_->connect(1);
  queue(1).met = {2};
  all_->connect(2);
  EXPECT_EQ(queue(0).requested, std::vector<int>{1});
  EXPECT_TRUE(queue(1).requested.empty());
}

TEST_F(fabric_test, check_remote__asks_for_a_connection_where_nothing_is_known_yet) {
  const auto one = make(0);
  all_->keys().answer.what = remote_view::answer::not_connected;
  EXPECT_EQ(all_->check_remote(1, {1, 1}).what, remote_view::answer::not_connected);
  EXPECT_EQ(queue(0).requested, std::vector<int>{1});
  all_->keys().answer.what = remote_view::answer::unknown_key;
  all_->check_remote(1, {1, 1});
  EXPECT_EQ(queue(0).requested.size(), 1u);
  std::byte own[8];
  const mem::region_name name = regions_.insert(own, sizeof(own));
  EXPECT_EQ(all_->check_remote(0, {name.slot, name.generation}).size, sizeof(own));
  regions_.erase(name);
}

// Nobody may poll the others, here or at the peer.
TEST_F(fabric_test, check_remote__over_the_device_that_asks) {
  const auto first = make(0), second = make(1);
  all_->keys().answer.what = remote_view::answer::not_connected;
  queue(0).met = {1};
  EXPECT_EQ(all_->check_remote(1, {1, 1}, 1).what, remote_view::answer::not_connected);
  EXPECT_EQ(all_->keys().asked, std::vector<int>{1});
  EXPECT_EQ(queue(1).requested, std::vector<int>{1});
  queue(1).met = {1};
  all_->check_remote(1, {1, 1}, 1);
  all_->check_remote(1, {1, 1}, 7);  // there is none
  EXPECT_EQ(queue(1).requested.size(), 1u);
  EXPECT_TRUE(queue(0).requested.empty());
}

TEST_F(fabric_test, deregister__tells_whoever_keeps_it_over_every_device) {
  const auto first = make(0), second = make(5);
  std::string why_not;
  const std::uint64_t key = all_->register_region(nullptr, 0, mem::mem_kind::host, why_not);
  all_->publish({9, 1}, key);
  all_->memory().readers = {1, 3};
  all_->deregister_region(key);
  const std::vector<std::pair<int, std::uint32_t>> both{{1, 9}, {3, 9}};
  EXPECT_EQ(queue(0).withdrawn, both);
  EXPECT_EQ(queue(5).withdrawn, both);
}

}  // namespace
}  // namespace lci::net::connected
