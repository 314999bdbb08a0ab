// What is known of peers' registrations, with peers that answer when the test says so.
#include "lci/net/connected/key_cache.hpp"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <utility>
#include <vector>

namespace lci::net::connected {
namespace {

using said = remote_view::answer;

struct some_queues {
  connection* find(int rank) noexcept { return all[static_cast<std::size_t>(rank)]; }
  int index() const noexcept { return number; }
  int number = 0;
  std::array<connection*, 4> all{};
};

template <bool may_drop>
class asking_cache final
    : public key_cache<asking_cache<may_drop>, std::size_t, key_request, some_queues> {
  using base = key_cache<asking_cache<may_drop>, std::size_t, key_request, some_queues>;

 public:
  static constexpr bool MAY_DROP_SENT = may_drop;
  asking_cache() : base(4) {}
  // size 0: there is none.
  void answer(int rank, remote_key name, std::size_t size, int device = 0) {
    const std::lock_guard lock(this->lock_);
    if (!this->settle_locked(rank, name, device)) return;
    this->keep_locked(rank, name, size != 0 ? std::optional(size) : std::nullopt);
  }
  std::vector<int> asked;  // ranks
  bool is_busy = false;
  int dropped = 0;
  std::function<void()> then;  // while one is asked for; the lock may be held

 private:
  friend base;
  static bool is_name(remote_key name) noexcept { return name.slot < 100; }
  static remote_view view_of(std::size_t size) noexcept {
    remote_view out;
    out.what = said::ok;
    out.size = size;
    return out;
  }
  bool ask(some_queues&, const key_request& what) {
    // Where the answer needs nothing of the request, others may look up meanwhile.
    const bool is_free = this->lock_.try_lock();
    if (is_free) this->lock_.unlock();
    EXPECT_EQ(is_free, may_drop);
    if (then) std::exchange(then, {})();
    if (!is_busy) asked.push_back(what.rank);
    return !is_busy;
  }
  void drop(key_request&) noexcept { ++dropped; }
};

template <class Cache>
class key_cache_test : public testing::Test {
 protected:
  key_cache_test() {
    for (connection* one : {&first_, &second_}) one->move(connection::stage::ready);
    queues_.all = {nullptr, &first_, &second_, nullptr};
  }
  ~key_cache_test() override {
    EXPECT_FALSE(keys_.is_open(0) || keys_.is_open(1)) << "something is counted still";
  }
  said find(int rank, remote_key name, int device = 0) {
    return keys_.find(rank, name, device).what;
  }

  connection first_{1}, second_{2};
  some_queues queues_;
  Cache keys_;
};
using both_kinds = testing::Types<asking_cache<true>, asking_cache<false>>;
TYPED_TEST_SUITE(key_cache_test, both_kinds);

TYPED_TEST(key_cache_test, find__asks_once_and_keeps_the_answer) {
  for (int i = 0; i < 3; ++i) EXPECT_EQ(this->find(1, {5, 7}), said::not_connected);
  EXPECT_TRUE(this->keys_.is_open(0));
  this->keys_.serve(this->queues_);
  this->keys_.serve(this->queues_);
  EXPECT_EQ(this->keys_.asked, std::vector<int>{1});
  EXPECT_FALSE(this->keys_.is_open(0));
  this->keys_.answer(1, {5, 7}, 64);
  EXPECT_EQ(this->find(1, {5, 7}), said::ok);
  EXPECT_EQ(this->keys_.find(1, {5, 7}, 0).size, 64u);
  EXPECT_EQ(this->keys_.asked.size(), 1u);
  EXPECT_EQ(this->keys_.dropped, 1);
}

TYPED_TEST(key_cache_test, find__unknown_is_told_once_and_then_asked_again) {
  for (const remote_key none : {remote_key{}, remote_key{5, 0}, remote_key{100, 1}})
    EXPECT_EQ(this->find(1, none), said::unknown_key);
  for (int i = 1; i <= 2; ++i) {
    EXPECT_EQ(this->find(1, {5, 7}), said::not_connected);
    this->keys_.serve(this->queues_);
    EXPECT_EQ(this->keys_.asked.size(), static_cast<std::size_t>(i));
    this->keys_.answer(1, {5, 7}, 0);
    EXPECT_EQ(this->find(1, {5, 7}), said::unknown_key);
  }
}

TYPED_TEST(key_cache_test, find__another_generation_of_a_slot_is_another_registration) {
  EXPECT_EQ(this->find(1, {5, 7}), said::not_connected);
  this->keys_.serve(this->queues_);
  this->keys_.answer(1, {5, 7}, 64);
  EXPECT_EQ(this->find(1, {5, 8}), said::not_connected);
  EXPECT_EQ(this->find(2, {5, 7}), said::not_connected);
  this->keys_.forget(1);
  this->keys_.forget(2);
}

TYPED_TEST(key_cache_test, find__without_room_is_asked_later) {
  EXPECT_EQ(this->find(1, {5, 7}), said::not_connected);
  this->keys_.is_busy = true;
  this->keys_.serve(this->queues_);
  EXPECT_TRUE(this->keys_.is_open(0)) << "the network did not take it";
  this->keys_.is_busy = false;
  this->keys_.serve(this->queues_);
  EXPECT_EQ(this->keys_.asked, std::vector<int>{1});
}

// As many as there are, at a peer that will not answer: those at others go on.
TYPED_TEST(key_cache_test, serve__only_over_connections_of_that_device) {
  connection calling(1);
  this->queues_.all[1] = &calling;
  EXPECT_EQ(this->find(1, {5, 7}), said::not_connected);
  EXPECT_EQ(this->find(2, {5, 7}), said::not_connected);
  EXPECT_EQ(this->find(3, {5, 7}), said::not_connected);
  this->keys_.serve(this->queues_);
  EXPECT_EQ(this->keys_.asked, std::vector<int>{2});
  calling.move(connection::stage::failed);
  this->keys_.serve(this->queues_);
  EXPECT_EQ(this->keys_.asked, std::vector<int>{2});
  EXPECT_EQ(this->keys_.dropped, 1) << "nobody will answer";
  this->keys_.forget(3);
}

// The peer may poll another device never, or not any more, and so may this rank.
TYPED_TEST(key_cache_test, serve__not_what_is_asked_for_on_another_device) {
  some_queues other = this->queues_;
  other.number = 1;
  EXPECT_EQ(this->find(1, {5, 7}), said::not_connected);
  EXPECT_EQ(this->find(2, {6, 7}, 1), said::not_connected);
  this->keys_.serve(other);
  EXPECT_EQ(this->keys_.asked, std::vector<int>{2});
  this->keys_.serve(this->queues_);
  EXPECT_EQ(this->keys_.asked, (std::vector<int>{2, 1}));
  this->keys_.answer(1, {5, 7}, 64);
  this->keys_.answer(2, {6, 7}, 64, 1);
  EXPECT_EQ(this->find(1, {5, 7}, 1), said::ok) << "what one device has heard, all know";
}

// The first question may have gone to a device that its peer has freed.
TYPED_TEST(key_cache_test, find__what_was_asked_on_one_device_is_asked_on_another_too) {
  some_queues other = this->queues_;
  other.number = 1;
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(this->find(1, {5, 7}), said::not_connected);
    this->keys_.serve(this->queues_);
  }
  EXPECT_EQ(this->find(1, {5, 7}, 1), said::not_connected);
  this->keys_.serve(other);
  EXPECT_EQ(this->keys_.asked, (std::vector<int>{1, 1}));
  this->keys_.answer(1, {5, 7}, 64, 1);
  EXPECT_EQ(this->find(1, {5, 7}), said::ok);
  this->keys_.withdraw(1, {5, 7});
  this->keys_.answer(1, {5, 7}, 64);  // from before
  EXPECT_EQ(this->find(1, {5, 7}), said::not_connected);
  this->keys_.forget(1);
}

TYPED_TEST(key_cache_test, find__what_another_device_has_to_ask_makes_no_work) {
  EXPECT_EQ(this->find(1, {5, 7}, 1), said::not_connected);
  EXPECT_FALSE(this->keys_.is_open(0));
  EXPECT_TRUE(this->keys_.is_open(1));
  this->keys_.end_of(1);
  EXPECT_FALSE(this->keys_.is_open(1));
}

TYPED_TEST(key_cache_test, end_of__what_was_not_asked_on_that_device_never_is) {
  EXPECT_EQ(this->find(1, {5, 7}), said::not_connected);
  EXPECT_EQ(this->find(1, {6, 7}, 1), said::not_connected);
  this->keys_.end_of(1);
  EXPECT_EQ(this->keys_.dropped, 1);
  this->keys_.serve(this->queues_);
  EXPECT_FALSE(this->keys_.is_open(0));
  this->keys_.end_of(0);
  EXPECT_EQ(this->keys_.dropped, 1) << "the answer may be on its way";
}

TYPED_TEST(key_cache_test, withdraw__what_is_known_and_what_is_asked_for) {
  EXPECT_EQ(this->find(1, {5, 7}), said::not_connected);
  this->keys_.serve(this->queues_);
  this->keys_.answer(1, {5, 7}, 64);
  this->keys_.withdraw(1, {5, 6});
  EXPECT_EQ(this->find(1, {5, 7}), said::ok) << "that was another one";
  this->keys_.withdraw(1, {5, 7});
  EXPECT_EQ(this->find(1, {5, 7}), said::not_connected);
  this->keys_.serve(this->queues_);
  this->keys_.withdraw(1, {5, 7});
  this->keys_.answer(1, {5, 7}, 64);  // it was on its way
  EXPECT_EQ(this->find(1, {5, 7}), said::not_connected);
  this->keys_.forget(1);
}

TYPED_TEST(key_cache_test, withdraw__a_row_that_comes_behind_it_is_not_kept) {
  EXPECT_EQ(this->find(1, {5, 7}), said::not_connected);
  this->keys_.serve(this->queues_);
  this->keys_.withdraw(1, {5, 7});
  EXPECT_EQ(this->find(1, {5, 7}), said::not_connected);
  this->keys_.serve(this->queues_);
  this->keys_.answer(1, {5, 7}, 64);
  EXPECT_EQ(this->find(1, {5, 7}), said::not_connected);
  this->keys_.serve(this->queues_);
  this->keys_.answer(1, {5, 7}, 0);
  EXPECT_EQ(this->find(1, {5, 7}), said::unknown_key);
}

TYPED_TEST(key_cache_test, withdraw__everything_that_a_peer_may_have_said) {
  for (const int rank : {1, 2}) {
    EXPECT_EQ(this->find(rank, {5, 7}), said::not_connected);
    this->keys_.serve(this->queues_);
    this->keys_.answer(rank, {5, 7}, 64);
  }
  EXPECT_EQ(this->find(1, {6, 7}), said::not_connected);
  this->keys_.serve(this->queues_);
  this->keys_.withdraw(1, {});
  EXPECT_EQ(this->find(1, {5, 7}), said::not_connected);
  EXPECT_EQ(this->find(2, {5, 7}), said::ok);
  this->keys_.answer(1, {6, 7}, 64);  // it was on its way
  EXPECT_EQ(this->find(1, {6, 7}), said::not_connected);
  this->keys_.forget(1);
}

// The program asks again while the old answer is on its way.
TYPED_TEST(key_cache_test, outdate__an_answer_on_its_way_is_not_that_to_a_later_request) {
  for (const int rank : {1, 2}) EXPECT_EQ(this->find(rank, {5, 7}), said::not_connected);
  EXPECT_EQ(this->find(1, {6, 7}), said::not_connected);
  this->keys_.serve(this->queues_);
  this->keys_.answer(1, {6, 7}, 64);
  this->keys_.outdate(1);
  EXPECT_EQ(this->find(1, {6, 7}), said::not_connected) << "what was known";
  EXPECT_EQ(this->find(1, {5, 7}), said::not_connected);
  this->keys_.serve(this->queues_);
  EXPECT_EQ(this->keys_.asked.size(), 4u) << "one is on its way";
  this->keys_.answer(1, {5, 7}, 64);
  EXPECT_EQ(this->find(1, {5, 7}), said::not_connected);
  this->keys_.serve(this->queues_);
  this->keys_.answer(1, {5, 7}, 64);
  EXPECT_EQ(this->find(1, {5, 7}), said::ok);
  this->keys_.answer(2, {5, 7}, 64);
  EXPECT_EQ(this->find(2, {5, 7}), said::ok) << "that is another rank";
  this->keys_.forget(1);
}

// The network did not take it: the answer is to what is sent later.
TYPED_TEST(key_cache_test, outdate__while_it_is_refused_by_the_network) {
  if (!TypeParam::MAY_DROP_SENT) return;  // that comes one after the other
  this->keys_.is_busy = true;
  this->keys_.then = [&] { this->keys_.outdate(1); };
  EXPECT_EQ(this->find(1, {5, 7}), said::not_connected);
  this->keys_.serve(this->queues_);
  this->keys_.is_busy = false;
  this->keys_.serve(this->queues_);
  this->keys_.answer(1, {5, 7}, 64);
  EXPECT_EQ(this->find(1, {5, 7}), said::ok);
  this->keys_.forget(1);
}

TYPED_TEST(key_cache_test, forget__keeps_only_what_the_network_still_works_on) {
  EXPECT_EQ(this->find(1, {5, 7}), said::not_connected);
  this->keys_.serve(this->queues_);
  EXPECT_EQ(this->find(1, {6, 7}), said::not_connected);
  this->keys_.forget(1);
  EXPECT_EQ(this->keys_.dropped, TypeParam::MAY_DROP_SENT ? 2 : 1);
}

}  // namespace
}  // namespace lci::net::connected
