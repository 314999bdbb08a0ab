#include "backends/ibv/region.hpp"

#include "lci/errors.hpp"
#include "tests/unit/ibv/world.hpp"

namespace lci::ibv {
namespace {

class region_test : public on_a_card {
 protected:
  std::uint64_t add(void* address, std::size_t size) {
    std::string why_not;
    return at(0).register_region(address, size, mem::mem_kind::host, why_not);
  }
  static const ibv_mr& of(std::uint64_t key) {
    return *reinterpret_cast<const registration*>(key)->on[0];
  }
};

TEST_F(region_test, add__refused_by_the_card_throws_the_call_and_the_size) {
  auto g = open(1);
  std::vector<std::byte> memory(5000);
  const std::size_t before = card().live().mrs;
  card().fail_nth("ibv_reg_mr_iova2", 1, ENOMEM);
  try {
    add(memory.data(), memory.size());
    ADD_FAILURE() << "nothing was thrown";
  } catch (const backend_error& problem) {
    EXPECT_STREQ(problem.what(), "ibv: ibv_reg_mr on fake_0:1, 5000 bytes: Cannot allocate memory");
  }
  EXPECT_EQ(card().live().mrs, before);
}

TEST_F(region_test, add__loosely_ordered_until_the_card_does_not_know_that) {
  auto g = open(1);
  std::vector<std::byte> memory(5000);
  card().forget_counts();
  at(0).deregister_region(add(memory.data(), memory.size()));
  EXPECT_EQ(card().count("ibv_reg_mr_iova2"), 1u);
  EXPECT_EQ(card().count("ibv_reg_mr"), 0u);
  card().fail_nth("ibv_reg_mr_iova2", 1, EINVAL);
  for (int i = 0; i < 3; ++i) at(0).deregister_region(add(memory.data(), memory.size()));
  EXPECT_EQ(card().count("ibv_reg_mr_iova2"), 2u) << "asked once, then known";
  EXPECT_EQ(card().count("ibv_reg_mr"), 3u);
}

// Writes that may overtake each other are for data that a completion announces, never for what is
// looked at while it is written: receives, rows, hellos.
// And of programs only where they say that no two of their puts meet in a byte.
TEST_F(region_test, loosely_ordered__only_what_programs_have_registered_and_want_so) {
  {
    auto g = open(1);
    std::vector<std::byte> memory(5000);
    const std::uint64_t key = add(memory.data(), memory.size());
    for (const test::fake_region& one : card().registrations())
      EXPECT_EQ(one.access & IBV_ACCESS_RELAXED_ORDERING, 0u);
    at(0).deregister_region(key);
  }
  environment_.set("LCI_IBV_RELAXED_ORDERING", "1");
  auto g = open(2, 2);
  meet(*g, 0, 1);
  std::vector<std::byte> memory(5000);
  const std::uint64_t key = add(memory.data(), memory.size());
  const mem::region_name name = g->at(0).regions.insert(memory.data(), memory.size());
  at(0).publish({name.slot, name.generation}, key);
  std::size_t loose = 0, of_arenas = 0;
  for (const test::fake_region& one : card().registrations()) {
    const bool is_loose = (one.access & IBV_ACCESS_RELAXED_ORDERING) != 0;
    loose += is_loose ? 1 : 0;
    EXPECT_EQ(is_loose, one.address == memory.data());
    of_arenas +=
        g->at(0).arena.contains(one.address) || g->at(1).arena.contains(one.address) ? 1 : 0;
  }
  EXPECT_EQ(loose, 1u);
  EXPECT_GE(of_arenas, 5u) << "packets and directories of both, and a table";
  at(0).deregister_region(key);
  g->at(0).regions.erase(name);
}

TEST_F(region_test, add__more_than_the_card_takes_says_how_much_that_is) {
  test::fake_ibv_config config;
  config.devices[0].max_mr_size = mem::arena::SPAN;
  card().reset(config);
  auto g = open(1);
  std::vector<std::byte> memory(mem::arena::SPAN + 1);
  const std::string sizes = std::to_string(memory.size()) +
                            " bytes, more than the card registers at once (" +
                            std::to_string(mem::arena::SPAN) + " bytes)";
  try {
    add(memory.data(), memory.size());
    ADD_FAILURE() << "nothing was thrown";
  } catch (const backend_error& problem) {
    EXPECT_NE(std::string(problem.what()).find(sizes), std::string::npos) << problem.what();
  }
  at(0).deregister_region(add(memory.data(), memory.size() - 1));
}

TEST_F(region_test, add__memory_that_cannot_be_written_is_a_source) {
  auto g = open(2);
  meet(*g, 0, 1);
  const std::vector<std::byte> bytes = test::pattern(3000, 1);
  card().fail_nth("ibv_reg_mr_iova2", 1, EFAULT);
  const std::uint64_t key = add(const_cast<std::byte*>(bytes.data()), bytes.size());
  net::net_op op;
  op.rank = 1;
  op.buffer = const_cast<std::byte*>(bytes.data());
  op.size = bytes.size();
  op.local_key = key;
  test::op_fate fate;
  op.context = &fate;
  const std::size_t before = g->at(1).seen().arrived();
  EXPECT_EQ(g->post([&] { return g->at(0).to().send(op); }), errorcode_t::posted);
  ASSERT_TRUE(g->until([&] { return g->at(1).seen().arrived() > before && fate.signals() == 1; },
                       "the message"));
  EXPECT_EQ(g->at(1).seen().messages().back().bytes, bytes);
  at(0).deregister_region(key);
}

// A packet that the program has registered by itself is in use again after that: its name must end.
TEST_F(region_test, name_of_what_lies_in_the_arena__ends_with_its_registration) {
  using answer = net::remote_view::answer;
  auto g = open(2);
  mem::packet* const packet = g->at(1).packets.get();
  const net::remote_key key = g->at(1).expose(packet->payload(), 1000);
  g->learn(0, 1, key);
  EXPECT_NE(at(0).check_remote(1, key).at.key, 0u) << "it can be written while it is registered";
  g->at(1).hide(key);
  answer out = answer::ok;
  g->until([&] { return (out = at(0).check_remote(1, key).what) == answer::unknown_key; },
           "the end of a name");
  EXPECT_EQ(out, answer::unknown_key);
  mem::pool_of(*packet).put(packet);
}

TEST_F(region_test, target_of__from_publish_until_it_is_removed) {
  auto g = open(1);
  std::vector<std::byte> memory(5000);
  const mem::region_name name = g->at(0).regions.insert(memory.data(), memory.size());
  const net::remote_key key{name.slot, name.generation};
  const std::uint64_t local = add(memory.data(), memory.size());
  EXPECT_EQ(at(0).target_of(key).key, 0u);
  at(0).publish(key, local);
  EXPECT_EQ(at(0).target_of(key).key, of(local).rkey);
  EXPECT_NE(of(local).lkey, of(local).rkey) << "the test could not tell them apart";
  EXPECT_EQ(at(0).target_of(key).address, reinterpret_cast<std::uint64_t>(memory.data()));
  EXPECT_EQ(at(0).target_of({key.slot, key.generation + 1}).key, 0u);
  at(0).deregister_region(local);
  EXPECT_EQ(at(0).target_of(key).key, 0u);
  g->at(0).regions.erase(name);
}

TEST_F(region_test, target_of__what_lies_in_the_arena_in_one_span_or_in_several) {
  auto g = open(1);
  mem::arena& arena = g->at(0).arena;
  for (const std::size_t size :
       {std::size_t{100}, mem::arena::SPAN, 2 * mem::arena::SPAN + 1, 5 * mem::arena::SPAN}) {
    void* const memory = arena.allocate(size, 4096);
    const mem::region_name name = g->at(0).regions.insert(memory, size);
    const std::size_t before = card().live().mrs;
    const net::remote_target target = at(0).target_of({name.slot, name.generation});
    EXPECT_NE(target.key, 0u) << size;
    EXPECT_EQ(target.address, reinterpret_cast<std::uint64_t>(memory));
    EXPECT_LE(card().live().mrs, before + 1);
    const std::size_t after = card().live().mrs;
    EXPECT_EQ(at(0).target_of({name.slot, name.generation}).key, target.key);
    EXPECT_EQ(card().live().mrs, after) << "registered once";
    // All of it is covered by one registration of the card.
    const ibv_mr* const mr = at(0).memory().of_arena(arena.offset_of(memory), size);
    ASSERT_NE(mr, nullptr);
    EXPECT_EQ(mr->rkey, target.key);
    const auto begin = reinterpret_cast<std::uintptr_t>(mr->addr);
    EXPECT_LE(begin, reinterpret_cast<std::uintptr_t>(memory));
    EXPECT_GE(begin + mr->length, reinterpret_cast<std::uintptr_t>(memory) + size);
    g->at(0).regions.erase(name);
    arena.free(memory, size);
  }
}

}  // namespace
}  // namespace lci::ibv
