// Active messages at the target: whose the buffer is, tags of every width, remote completion
// numbers.
#include <atomic>
#include <mutex>
#include <set>

#include "world.hpp"

namespace interface_test {
namespace {

// Knows which buffers it has given out.
class counting_allocator : public lci::allocator_base_t {
 public:
  void* allocate(std::size_t size) override {
    void* p = std::malloc(size + 1);
    const std::lock_guard lock(mutex_);
    live_.insert(p);
    ++given_;
    return p;
  }
  void deallocate(void* p) override {
    {
      const std::lock_guard lock(mutex_);
      if (live_.erase(p) == 0) ++foreign_;
    }
    std::free(p);
  }
  bool owns(void* p) {
    const std::lock_guard lock(mutex_);
    return live_.count(p) != 0;
  }
  std::size_t live() {
    const std::lock_guard lock(mutex_);
    return live_.size();
  }
  int given() const { return given_; }
  int foreign() const { return foreign_; }

 private:
  std::mutex mutex_;
  std::set<void*> live_;
  int given_ = 0;
  int foreign_ = 0;
};

struct am_setting {
  size_at size;
  bool zero_copy;
  lci::tag_t tag;
};

class am : public testing::TestWithParam<am_setting> {};

// The table of who owns the buffer, for messages to oneself and to the next rank.
TEST_P(am, buffer__comes_from_where_the_interface_says) {
  const auto [size_class, zero_copy, tag] = GetParam();
  const std::size_t size = bytes(size_class);
  counting_allocator allocator;
  lci::allocator_base_t* const before = lci::get_allocator();
  lci::set_allocator(&allocator);
  {
    inbox box(zero_copy);
    for (const int to : {world().rank, world().next()}) {
      const int from = to == world().rank ? to : world().previous();
      owned_comp sent(lci::alloc_counter());
      std::vector<char> out = pattern(size, static_cast<std::uint64_t>(world().rank));
      const lci::status_t answer = insist(
          lci::post_am_x(to, out.data(), size, sent, box.rcomp()).device(world().device).tag(tag));
      const lci::status_t got = pop(box.cq());
      EXPECT_EQ(got.rank, from);
      EXPECT_EQ(got.tag, tag);
      EXPECT_EQ(got.size, size);
      EXPECT_EQ(got.user_context, nullptr);
      ASSERT_NE(got.buffer, nullptr);
      EXPECT_EQ(difference(got.buffer, size, static_cast<std::uint64_t>(from)), "");
      const bool in_packet = !allocator.owns(got.buffer);
      EXPECT_EQ(in_packet, zero_copy && size <= world().bcopy);
      if (in_packet) {
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(got.buffer) % LCI_CACHE_LINE, 0u);
        lci::put_upacket(got.buffer);
      } else {
        lci::get_allocator()->deallocate(got.buffer);
      }
      wait_until([&] { return lci::counter_get(sent) == (answer.is_posted() ? 1 : 0); });
      barrier();
    }
  }
  lci::set_allocator(before);
  EXPECT_EQ(allocator.live(), 0u);
  EXPECT_EQ(allocator.foreign(), 0);
}

// A counter keeps no status, so that nobody else could free the buffer.
TEST_P(am, counter__gives_the_buffer_back) {
  const auto [size_class, zero_copy, tag] = GetParam();
  counting_allocator allocator;
  lci::allocator_base_t* const before = lci::get_allocator();
  const lci::global_attr_t defaults = lci::get_g_default_attr();
  lci::global_attr_t changed = defaults;
  changed.zero_copy_am = zero_copy;
  lci::set_g_default_attr(changed);
  owned_comp arrived(lci::alloc_counter());
  lci::set_g_default_attr(defaults);
  ASSERT_EQ(lci::comp_t(arrived).get_attr_zero_copy_am(), zero_copy);
  lci::set_allocator(&allocator);
  const lci::rcomp_t rcomp = lci::register_rcomp(arrived);
  barrier();
  std::vector<char> out = pattern(bytes(size_class), 5);
  for (const int to : {world().rank, world().next()})
    insist(lci::post_am_x(to, out.data(), out.size(), lci::COMP_NULL, rcomp)
               .device(world().device)
               .tag(tag));
  wait_until([&] { return lci::counter_get(arrived) == 2; });
  EXPECT_EQ(allocator.live(), 0u);
  EXPECT_EQ(allocator.foreign(), 0);
  barrier();
  lci::deregister_rcomp(rcomp);
  lci::set_allocator(before);
}

// As the one that a synchronizer has no room for.
TEST_P(am, synchronizer_that_is_full__gives_the_buffer_back) {
  const auto [size_class, zero_copy, all_of_tag] = GetParam();
  const lci::tag_t tag = all_of_tag;
  counting_allocator allocator;
  lci::allocator_base_t* const before = lci::get_allocator();
  owned_comp arrived(lci::alloc_sync_x().threshold(1).zero_copy_am(zero_copy)());
  const lci::rcomp_t rcomp = lci::register_rcomp(arrived);
  lci::comp_signal(arrived, lci::status_t(lci::errorcode_t::done));
  lci::set_allocator(&allocator);
  barrier();
  std::vector<char> out = pattern(bytes(size_class), 5);
  const std::string text = text_thrown<lci::argument_error>([&] {
    insist(lci::post_am_x(world().rank, out.data(), out.size(), lci::COMP_NULL, rcomp)
               .device(world().device)
               .tag(tag));
    while (true) progress();
  });
  EXPECT_NE(text.find("threshold"), std::string::npos) << text;
  EXPECT_EQ(allocator.live(), 0u);
  lci::sync_test(arrived, nullptr);
  barrier();
  lci::deregister_rcomp(rcomp);
  lci::set_allocator(before);
}

std::vector<am_setting> am_settings() {
  std::vector<am_setting> all;
  for (const size_at size : ALL_SIZES)
    for (const bool zero_copy : {false, true})
      for (const lci::tag_t tag :
           {lci::tag_t{0}, lci::tag_t{65535}, lci::tag_t{65536}, lci::ANY_TAG - 1})
        all.push_back({size, zero_copy, tag});
  return all;
}

INSTANTIATE_TEST_SUITE_P(all, am, testing::ValuesIn(am_settings()), [](const auto& param) {
  return std::string(name_of(param.param.size)) + (param.param.zero_copy ? "_zero_copy" : "_copy") +
         "_tag" + std::to_string(param.param.tag);
});

// A packet that was received may be sent on from where it lies.
TEST(am_packets, received_packet__is_sent_on_without_a_copy) {
  inbox box(true);
  std::vector<char> out = pattern(1000, 3);
  lci::post_am_x(world().next(), out.data(), out.size(), lci::COMP_NULL, box.rcomp())
      .device(world().device)();
  for (int hop = 0; hop < 3; ++hop) {
    const lci::status_t got = pop(box.cq());
    ASSERT_EQ(difference(got.buffer, got.size, 3), "") << "hop " << hop;
    lci::post_am_x(world().next(), got.buffer, got.size, lci::COMP_NULL, box.rcomp())
        .device(world().device)();
  }
  const lci::status_t got = pop(box.cq());
  EXPECT_EQ(difference(got.buffer, got.size, 3), "");
  lci::put_upacket(got.buffer);
  barrier();
}

// A receiver that keeps what it gets must not stop the others, and gets more once it gives back.
TEST(am_packets, receiver_holds_many_packets__and_returns_them_in_any_order) {
  constexpr std::size_t HOLD = 600;
  inbox box(true);
  std::vector<lci::status_t> held;
  std::vector<char> out = pattern(300, 4);
  std::size_t sent = 0;
  wait_until([&] {
    if (sent < HOLD) {
      const lci::status_t answer =
          lci::post_am_x(world().next(), out.data(), out.size(), lci::COMP_NULL_RETRY, box.rcomp())
              .device(world().device)();
      sent += answer.is_done() ? 1 : 0;
    }
    const lci::status_t got = lci::cq_pop(box.cq());
    if (got.is_done()) held.push_back(got);
    return held.size() == HOLD && sent == HOLD;
  });
  for (std::size_t i = 0; i < HOLD; ++i) {
    const lci::status_t& got = held[i * 7 % HOLD];
    EXPECT_EQ(difference(got.buffer, got.size, 4), "");
    lci::put_upacket(got.buffer);
  }
  barrier();
}

TEST(am_packets, posted_from_inside_a_handler) {
  static lci::rcomp_t back;
  static lci::comp_t answered;
  static std::atomic<int> pongs;
  pongs = 0;
  lci::comp_t pong = lci::alloc_handler([](lci::status_t status) {
    std::free(status.buffer);
    ++pongs;
  });
  lci::comp_t ping = lci::alloc_handler([](lci::status_t status) {
    // Whatever cannot leave now is kept by the library, which a handler must not wait for.
    const lci::status_t answer =
        lci::post_am_x(status.rank, status.buffer, status.size, answered, back)
            .device(world().device)
            .allow_retry(false)
            .user_context(status.buffer)();
    if (answer.is_done()) std::free(status.buffer);
  });
  answered = lci::alloc_handler([](lci::status_t status) { std::free(status.user_context); });
  back = lci::register_rcomp(pong);
  const lci::rcomp_t there = lci::register_rcomp(ping);
  barrier();
  std::vector<char> out(200);
  for (int i = 0; i < 500; ++i)
    insist(lci::post_am_x(world().next(), out.data(), out.size(), lci::COMP_NULL_RETRY, there)
               .device(world().device));
  wait_until([] { return pongs == 500; });
  barrier();
  lci::deregister_rcomp(there);
  lci::deregister_rcomp(back);
  lci::free_comp(&ping);
  lci::free_comp(&pong);
  lci::free_comp(&answered);
}

TEST(rcomp, numbers__are_handed_out_in_the_order_of_calls_and_agree_between_ranks) {
  owned_comp a(lci::alloc_counter()), b(lci::alloc_counter());
  const lci::rcomp_t first = lci::register_rcomp(a), second = lci::register_rcomp(b);
  EXPECT_EQ(second, first + 1);
  std::vector<lci::rcomp_t> all(static_cast<std::size_t>(world().n));
  lci::allgather_x(&first, all.data(), sizeof first).device(world().device)();
  for (const lci::rcomp_t other : all) EXPECT_EQ(other, first);
  lci::deregister_rcomp(first);
  lci::deregister_rcomp(second);
}

TEST(rcomp, reserved__are_used_by_name_only) {
  owned_comp a(lci::alloc_cq()), b(lci::alloc_counter());
  const lci::rcomp_t first = lci::reserve_rcomps(3);
  EXPECT_EQ(lci::register_rcomp_x(a).rcomp(first + 2)(), first + 2);
  const lci::rcomp_t chosen = lci::register_rcomp(b);
  EXPECT_EQ(chosen, first + 3);
  barrier();
  char byte = 1;
  lci::post_am_x(world().next(), &byte, 1, lci::COMP_NULL, first + 2).device(world().device)();
  lci::status_t got;
  wait_until([&] { return (got = lci::cq_pop(a)).is_done(); });
  std::free(got.buffer);
  EXPECT_EQ(lci::counter_get(b), 0);
  barrier();
  lci::deregister_rcomp(first + 2);
  lci::deregister_rcomp(chosen);
}

TEST(rcomp, limits__are_what_the_attributes_say) {
  const lci::runtime_t runtime = lci::get_g_runtime();
  // At the default widths 65535 and 32767, which clients count on.
  EXPECT_EQ(runtime.get_attr_max_imm_tag(), (1u << runtime.get_attr_imm_nbits_tag()) - 1);
  EXPECT_EQ(runtime.get_attr_max_imm_rcomp(), (1u << runtime.get_attr_imm_nbits_rcomp()) - 1);
  EXPECT_EQ(lci::global_attr_t().imm_nbits_tag, 16);
  EXPECT_EQ(lci::global_attr_t().imm_nbits_rcomp, 15);
  EXPECT_GT(static_cast<int>(runtime.get_attr_max_tag()), 0) << "clients store it in an int";
}

}  // namespace
}  // namespace interface_test
