// Handlers that post and make progress themselves, in storms: nothing is lost, damaged or stuck,
// and none is deeper inside of others than attribute max_handler_depth says.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <thread>

#include "world.hpp"

namespace interface_test {
namespace {

// How a handler sends on.
enum class way { comp_null, retry_in_a_loop, no_retry };
constexpr way ALL_WAYS[] = {way::comp_null, way::retry_in_a_loop, way::no_retry};
const char* name_of(way how) {
  constexpr const char* NAMES[] = {"comp_null", "retry_in_a_loop", "no_retry"};
  return NAMES[static_cast<int>(how)];
}

// A round of progress that gives no processor away: there may be many.
void poll_once() { lci::progress_x().device(world().device)(); }

struct hop_t {
  std::uint64_t left;  // handlers to come
  std::uint64_t seed;  // of the bytes behind this
};

// Messages that go round the ranks: each handler sends its message on and makes progress, until it
// was handled as often as it says.
class chain {
 public:
  chain(way how, bool zero_copy) : how_(how), zero_copy_(zero_copy) {
    current_ = this;
    handler_ = lci::alloc_handler_x(on_hop).zero_copy_am(zero_copy)();
    rcomp_ = lci::register_rcomp(handler_);
    barrier();
  }
  ~chain() {
    barrier();
    lci::deregister_rcomp(rcomp_);
    lci::free_comp(&handler_);
    current_ = nullptr;
  }
  chain(const chain&) = delete;
  chain& operator=(const chain&) = delete;

  // `flying` messages of each rank at a time, `hops` handlers for each. All ranks do the same, so
  // as many end here as begin here.
  void run(std::size_t size, std::uint64_t flying, std::uint64_t hops) {
    for (std::uint64_t i = 0; i < flying; ++i) {
      std::vector<char> out(size);
      const std::vector<char> rest = pattern(size - sizeof(hop_t), i);
      const hop_t hop{hops - 1, i};
      std::memcpy(out.data(), &hop, sizeof hop);
      std::copy(rest.begin(), rest.end(), out.begin() + sizeof hop);
      lci::post_am_x(world().next(), out.data(), size, lci::COMP_NULL, rcomp_)
          .device(world().device)();
    }
    wait_until([&] {
      take_completed();
      return ended_ == flying && under_way_ == 0;
    });
    barrier();
    // What was sent on for others meanwhile.
    wait_until([&] {
      take_completed();
      return under_way_ == 0;
    });
    EXPECT_EQ(handled_, flying * hops);
    EXPECT_EQ(damaged_, 0);
    EXPECT_LE(deepest_, lci::get_g_runtime().get_attr_max_handler_depth());
  }
  int deepest() const { return deepest_; }

 private:
  static void on_hop(lci::status_t status) {
    chain& c = *current_;
    ++inside_;
    c.deepest_ = std::max(c.deepest_, inside_);
    c.handle(status);
    if (c.zero_copy_ && status.size <= world().bcopy)
      lci::put_upacket(status.buffer);
    else
      lci::get_allocator()->deallocate(status.buffer);
    --inside_;
  }

  void handle(const lci::status_t& status) {
    ++handled_;
    hop_t hop;
    std::memcpy(&hop, status.buffer, sizeof hop);
    const char* const rest = static_cast<const char*>(status.buffer) + sizeof hop;
    if (hop.left % 16 == 0 && difference(rest, status.size - sizeof hop, hop.seed) != "")
      ++damaged_;
    if (hop.left == 0) {
      ++ended_;
      return;
    }
    --hop.left;
    std::memcpy(status.buffer, &hop, sizeof hop);
    // In a copy: where a packet comes from must not matter.
    const auto* const bytes = static_cast<const char*>(status.buffer);
    auto out = std::make_unique<std::vector<char>>(bytes, bytes + status.size);
    const auto post = [&](lci::comp_t comp) {
      return lci::post_am_x(world().next(), out->data(), out->size(), comp, rcomp_)
          .device(world().device);
    };
    if (how_ == way::comp_null) post(lci::COMP_NULL)();
    if (how_ == way::retry_in_a_loop)
      while (post(lci::COMP_NULL_RETRY)().is_retry()) progress();
    if (how_ == way::no_retry) {
      const lci::status_t answer = post(completed_).allow_retry(false).user_context(out.get())();
      if (answer.is_retry()) ++damaged_;
      if (answer.is_posted()) {
        out.release();  // take_completed() frees it
        ++under_way_;
      }
      take_completed();
    }
    poll_once();
  }

  void take_completed() {
    for (lci::status_t one = lci::cq_pop(completed_); one.is_done();
         one = lci::cq_pop(completed_)) {
      delete static_cast<std::vector<char>*>(one.user_context);
      --under_way_;
    }
  }

  static chain* current_;
  static int inside_;  // how deep the one thread of these tests is in its handlers
  const way how_;
  const bool zero_copy_;
  lci::comp_t handler_;
  lci::rcomp_t rcomp_ = 0;
  owned_comp completed_{lci::alloc_cq()};  // of posts that may not answer retry
  std::uint64_t ended_ = 0, handled_ = 0, under_way_ = 0;
  int damaged_ = 0, deepest_ = 0;
};

chain* chain::current_ = nullptr;
int chain::inside_ = 0;

struct storm_setting {
  way how;
  size_at size;
  bool zero_copy;
};
class storm : public testing::TestWithParam<storm_setting> {};

TEST_P(storm, handlers_that_send_on_and_make_progress__all_arrive) {
  const auto [how, size_class, zero_copy] = GetParam();
  const std::size_t size = std::max(bytes(size_class), sizeof(hop_t));
  const bool is_large = size > world().bcopy;
  chain messages(how, zero_copy);
  messages.run(size, is_large ? 40 : 300, is_large ? 5 : 10);
  // The next message is there for sure when a handler looks only if it has not far to go: between
  // ranks, and where it is asked for first, that is chance.
  if (world().n == 1 && !is_large) {
    EXPECT_GT(messages.deepest(), 1) << "nothing was nested";
  }
}

std::vector<storm_setting> storm_settings() {
  std::vector<storm_setting> all;
  for (const way how : ALL_WAYS)
    for (const size_at size : {size_at::one, size_at::inject_1, size_at::bcopy_12, size_at::kib_64})
      for (const bool zero_copy : {false, true}) all.push_back({how, size, zero_copy});
  return all;
}

INSTANTIATE_TEST_SUITE_P(all, storm, testing::ValuesIn(storm_settings()), [](const auto& param) {
  return std::string(name_of(param.param.how)) + "_" + name_of(param.param.size) +
         (param.param.zero_copy ? "_zero_copy" : "_copy");
});

// Alone one message goes round; between processes each hop would wait for the system to let the
// other one run, so there are more of them.
TEST(nesting, hundred_thousand_handlers__of_messages_that_go_round) {
  const std::uint64_t flying = world().n == 1 ? 1 : 100;
  chain(way::comp_null, false).run(sizeof(hop_t), flying, 100000 / flying);
}

// What a rank has sent is handled in the order in which it was sent, whether it had to wait for its
// turn or came later; and a handler that waits sees all that its wait needs.
TEST(nesting, order__is_kept_between_those_that_waited_and_newer_ones) {
  static std::uint64_t expected, out_of_order;
  static std::uint32_t inside;
  expected = out_of_order = inside = 0;
  constexpr std::uint64_t COUNT = 1000;
  owned_comp handler(lci::alloc_handler([](lci::status_t status) {
    if (status.get_tag() != expected++) ++out_of_order;
    std::free(status.buffer);
    ++inside;
    for (std::uint64_t i = 0; i < 1 + status.get_tag() % 3; ++i) poll_once();
    --inside;
  }));
  const lci::rcomp_t rcomp = lci::register_rcomp(handler);
  barrier();
  const std::vector<char> out(300);
  for (std::uint64_t i = 0; i < COUNT; ++i) {
    insist(lci::post_am_x(world().next(), const_cast<char*>(out.data()), i % 2 == 0 ? 8 : 300,
                          lci::COMP_NULL_RETRY, rcomp)
               .device(world().device)
               .tag(i));
  }
  wait_until([] { return expected == COUNT; });
  EXPECT_EQ(out_of_order, 0u);
  barrier();
  lci::deregister_rcomp(rcomp);
}

// Several threads: whoever is not too deep may run what waits for its turn.
TEST(nesting, many_threads__nothing_is_lost) {
  static std::atomic<std::uint64_t> handled;
  static lci::rcomp_t rcomp;
  static std::atomic<int> too_deep;
  static thread_local int inside;
  handled = 0;
  too_deep = 0;
  constexpr std::uint64_t HOPS = 50, PER_THREAD = 60;
  owned_comp handler(lci::alloc_handler([](lci::status_t status) {
    if (++inside > lci::get_g_runtime().get_attr_max_handler_depth()) ++too_deep;
    ++handled;
    const lci::tag_t left = status.get_tag();
    std::free(status.buffer);
    char byte = 0;
    if (left != 0)
      while (lci::post_am_x(world().next(), &byte, 1, lci::COMP_NULL_RETRY, rcomp)
                 .device(world().device)
                 .tag(left - 1)()
                 .is_retry())
        progress();
    poll_once();
    --inside;
  }));
  rcomp = lci::register_rcomp(handler);
  barrier();
  const std::uint64_t all = HOPS * PER_THREAD * static_cast<std::uint64_t>(world().threads);
  std::vector<std::thread> threads;
  for (int t = 0; t < world().threads; ++t)
    threads.emplace_back([&] {
      char byte = 0;
      for (std::uint64_t i = 0; i < PER_THREAD; ++i)
        lci::post_am_x(world().next(), &byte, 1, lci::COMP_NULL, rcomp)
            .device(world().device)
            .tag(HOPS - 1)();
      while (handled < all) progress();
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(handled, all);
  EXPECT_EQ(too_deep, 0);
  barrier();
  lci::deregister_rcomp(rcomp);
}

}  // namespace
}  // namespace interface_test
