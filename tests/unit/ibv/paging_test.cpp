// On-demand paging: what is registered how, and what is left where the card cannot.
#include "backends/ibv/paging.hpp"

#include <cstring>

#include "lci/base/log.hpp"
#include "tests/unit/ibv/world.hpp"

namespace lci::ibv {
namespace {

using odp = attr_ibv_odp_strategy_t;
using hint = attr_ibv_prefetch_strategy_t;

class paging_test : public on_a_card {
 protected:
  static void with_card(bool explicitly, bool implicitly) {
    test::fake_ibv_config config;
    config.devices[0].has_paging = explicitly;
    config.devices[0].has_implicit_paging = implicitly;
    card().reset(config);
  }
  void with_settings(odp wanted, hint ahead = hint::none, bool keeps = false) {
    world_ = open(2, 1, [=](net::fabric_config& config) {
      config.ibv_odp = wanted;
      config.ibv_prefetch = ahead;
      config.use_reg_cache = keeps;
    });
  }
  std::uint64_t add(std::vector<std::byte>& memory, int rank = 0) {
    std::string why_not;
    return at(rank).register_region(memory.data(), memory.size(), mem::mem_kind::host, why_not);
  }
  static std::size_t on_demand() {
    std::size_t n = 0;
    for (const test::fake_region& one : card().registrations())
      n += (one.access & IBV_ACCESS_ON_DEMAND) != 0 ? 1 : 0;
    return n;
  }
  // Moves bytes from one rank's memory to the other's.
  void put() {
    std::vector<std::byte> from = test::pattern(5000, 3), to(5000);
    const std::uint64_t key = add(from);
    const net::remote_key name = world_->at(1).expose(to.data(), to.size());
    world_->learn(0, 1, name);
    test::op_fate fate;
    net::net_op op;
    op.rank = 1;
    op.buffer = from.data();
    op.size = from.size();
    op.local_key = key;
    op.remote = name;
    op.context = &fate;
    world_->post([&] { return world_->at(0).to().put(op); });
    ASSERT_TRUE(world_->until([&] { return fate.signals() == 1; }, "the completion"));
    EXPECT_EQ(from, to);
    at(0).deregister_region(key);
    world_->at(1).hide(name);
  }

  std::unique_ptr<test::group> world_;
  std::vector<std::byte> memory_ = std::vector<std::byte>(5000);
};

TEST_F(paging_test, explicit_odp__memory_of_programs_and_nothing_else) {
  with_card(true, false);
  with_settings(odp::explicit_odp);
  meet(*world_, 0, 1);
  EXPECT_EQ(on_demand(), 0u) << "packets and rows are pinned";
  const std::uint64_t key = add(memory_);
  EXPECT_EQ(on_demand(), 1u);
  EXPECT_TRUE(card().take_advice().empty()) << "nobody asked for it";
  at(0).deregister_region(key);
  EXPECT_EQ(on_demand(), 0u);
  put();
}

TEST_F(paging_test, implicit_odp__one_registration_serves_all) {
  with_card(true, true);
  with_settings(odp::implicit_odp);
  EXPECT_EQ(on_demand(), 2u) << "one for each rank";
  const std::size_t before = card().live().mrs;
  std::vector<std::byte> other(100);
  const std::uint64_t first = add(memory_), second = add(other);
  EXPECT_EQ(card().live().mrs, before);
  put();
  EXPECT_EQ(on_demand(), 2u);
  at(0).deregister_region(first);
  at(0).deregister_region(second);
  EXPECT_EQ(on_demand(), 2u) << "it stays";
}

TEST_F(paging_test, none__is_what_it_was) {
  with_card(true, true);
  with_settings(odp::none, hint::prefetch);
  const std::uint64_t key = add(memory_);
  EXPECT_EQ(on_demand(), 0u);
  EXPECT_EQ(card().count("ibv_query_device_ex") + card().count("ibv_advise_mr"), 0u);
  at(0).deregister_region(key);
}

TEST_F(paging_test, prefetch__as_wished_of_each_range) {
  const std::pair<hint, ibv_advise_mr_advice> table[] = {
      {hint::prefetch, IBV_ADVISE_MR_ADVICE_PREFETCH},
      {hint::prefetch_write, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE},
      {hint::prefetch_no_fault, IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT}};
  for (const odp strategy : {odp::explicit_odp, odp::implicit_odp}) {
    for (const auto& [wish, advice] : table) {
      world_.reset();
      with_card(true, true);
      with_settings(strategy, wish);
      const std::uint64_t key = add(memory_);
      const std::vector<test::fake_advice> told = card().take_advice();
      ASSERT_EQ(told.size(), 1u);
      EXPECT_EQ(told[0].what, advice);
      EXPECT_EQ(told[0].address, reinterpret_cast<std::uint64_t>(memory_.data()));
      EXPECT_EQ(told[0].size, memory_.size());
      at(0).deregister_region(key);
    }
  }
}

TEST_F(paging_test, prefetch__of_a_range_longer_than_one_call_takes) {
  with_card(true, true);
  with_settings(odp::implicit_odp, hint::prefetch);
  constexpr std::size_t GIB = std::size_t{1} << 30;
  std::string why_not;
  auto* const far = reinterpret_cast<void*>(GIB);  // nobody looks
  const std::uint64_t key = at(0).register_region(far, 2 * GIB + 5, mem::mem_kind::host, why_not);
  std::size_t bytes = 0;
  for (const test::fake_advice& one : card().take_advice()) bytes += one.size;
  EXPECT_EQ(bytes, 2 * GIB + 5);
  at(0).deregister_region(key);
}

TEST_F(paging_test, prefetch__that_is_not_there_is_asked_for_once) {
  with_card(true, false);
  with_settings(odp::explicit_odp, hint::prefetch);
  card().fail_nth("ibv_advise_mr", 1, EBUSY);
  at(0).deregister_region(add(memory_));
  EXPECT_EQ(card().count("ibv_advise_mr"), 1u);
  card().fail_nth("ibv_advise_mr", 1, EOPNOTSUPP);
  for (int i = 0; i < 3; ++i) at(0).deregister_region(add(memory_));
  EXPECT_EQ(card().count("ibv_advise_mr"), 2u) << "asked again after EBUSY, not after EOPNOTSUPP";
}

TEST_F(paging_test, cards_that_cannot__register_as_usual_and_say_so_once) {
  struct {
    bool explicitly, implicitly;
    odp wanted;
    const char* why;
  } const table[] = {{false, false, odp::explicit_odp, "the card cannot, for reliable connections"},
                     {false, false, odp::implicit_odp, "the card cannot, for reliable connections"},
                     {true, false, odp::implicit_odp, "the card has no implicit registration"}};
  for (const auto& line : table) {
    world_.reset();
    with_card(line.explicitly, line.implicitly);
    testing::internal::CaptureStderr();
    with_settings(line.wanted);
    for (int i = 0; i < 3; ++i) at(0).deregister_region(add(memory_));
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find(line.why), std::string::npos) << said;
    EXPECT_EQ(on_demand(), 0u);
    put();
  }
}

TEST_F(paging_test, registration_that_is_refused_on_demand__is_made_plainly_and_the_next_too) {
  with_card(true, false);
  with_settings(odp::explicit_odp);
  card().forget_counts();
  // Loosely ordered and not.
  card().fail_nth("ibv_reg_mr_iova2", 1, EINVAL);
  card().fail_nth("ibv_reg_mr", 1, EINVAL);
  at(0).deregister_region(add(memory_));
  EXPECT_EQ(card().count("ibv_reg_mr_iova2"), 2u);
  const std::uint64_t key = add(memory_);
  EXPECT_EQ(on_demand(), 0u);
  at(0).deregister_region(key);
  put();
}

TEST_F(paging_test, failing_calls_at_the_start__are_no_errors) {
  with_card(true, true);
  card().fail_nth("ibv_query_device_ex", 1, EIO);
  with_settings(odp::implicit_odp);
  EXPECT_EQ(on_demand(), 1u) << "the other rank";
  world_.reset();
  with_card(true, true);
  card().fail_nth("ibv_reg_mr", 1, ENOMEM);
  with_settings(odp::implicit_odp);
  EXPECT_EQ(on_demand(), 1u);
  put();
}

}  // namespace
}  // namespace lci::ibv
