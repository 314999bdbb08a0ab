// Which networks a job opens, by what its other ranks say. They are made up; the networks are real.
#include "lci/runtime/open_networks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "backends/shm/select.hpp"
#include "lci/errors.hpp"
#include "lci/mem/arena.hpp"
#include "lci/mem/region_table.hpp"
#include "lci/net/provider.hpp"
#include "lci/net/route.hpp"
#include "lci/proto/engine/wire.hpp"
#include "lci/runtime/cores.hpp"
#include "lci/runtime/introduction.hpp"

namespace lci::runtime {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Rank 0 is the caller, the others say what they were given.
class scripted_bootstrap final : public boot::bootstrap {
 public:
  explicit scripted_bootstrap(int ranks) : said(static_cast<std::size_t>(ranks)) {}
  const char* name() const noexcept override { return "scripted"; }
  int rank() const noexcept override { return 0; }
  int size() const noexcept override { return static_cast<int>(said.size()); }
  void put(const std::string& key, const std::string& value) override { said[0][key] = value; }
  void fence() override { ++fences; }
  std::string get(int rank, const std::string& key) override {
    return said[static_cast<std::size_t>(rank)].at(key);
  }
  std::vector<std::map<std::string, std::string>> said;  // by rank and key
  int fences = 0;
};

struct job {
  explicit job(int ranks)
      : boot(ranks),
        inside(0, ranks, [this] { ++contacts; }),
        between(0, ranks, [this] { ++contacts; }) {
    order.arena = &arena;
    order.regions = &regions;
    order.key = "k";
  }
  // Rank r introduces itself.
  void tell(int r, const introduction& one) {
    boot.said[static_cast<std::size_t>(r)]["k"] = text_of(proto::wire::VERSION, one);
  }
  void tell_second(int r, const std::string& text) {
    boot.said[static_cast<std::size_t>(r)]["k.network"] = text;
  }
  void open() { opened = open_networks(order, boot, inside, between); }
  std::string refusal() {
    try {
      open();
    } catch (const backend_error& why) {
      return why.what();
    }
    return "opened " + opened.summary;
  }

  mem::arena arena{std::size_t{1} << 30};
  mem::region_table regions{arena};
  scripted_bootstrap boot;
  int contacts = 0;
  directory inside, between;
  network_order order;
  opened_networks opened;
};

introduction neighbour() { return {"any", shm::PROVIDER.place(), "an address"}; }
introduction stranger() { return {"any", "another-machine.1.2.3", "an address"}; }

// The first network between hosts that works here; null: none.
const net::provider* usable_network() {
  for (const net::provider& p : net::providers())
    if (p.place == nullptr && p.probe().empty()) return &p;
  return nullptr;
}

TEST(open_networks, all_in_one_place__is_shared_memory_alone_in_one_round) {
  job j(3);
  j.tell(1, neighbour());
  j.tell(2, neighbour());
  j.open();
  EXPECT_EQ(j.boot.fences, 1);
  EXPECT_EQ(j.opened.fabric->name(), "shm");
  EXPECT_EQ(j.opened.backend, attr_backend_t::shm);
  EXPECT_TRUE(j.opened.has_local);
  EXPECT_EQ(dynamic_cast<net::routed_fabric*>(j.opened.fabric.get()), nullptr);
  EXPECT_EQ(j.opened.summary, "backend shm, provider shm, 2 peers over shm");
  EXPECT_EQ(j.inside.lookup(1), "an address");
  EXPECT_EQ(j.contacts, 1) << "contact is told";
  EXPECT_EQ(j.between.lookup(1), "") << "not known";
}

// One rank more than this process has cores.
TEST(open_networks, crowd__is_told_by_the_cores_of_all) {
  for (const core_set& theirs : {usable_cores(), core_set().set()}) {
    const int ranks = static_cast<int>(usable_cores().count()) + 1;
    job j(ranks);
    introduction other = neighbour();
    other.cores = tell_cores(theirs);
    for (int r = 1; r < ranks; ++r) j.tell(r, other);
    j.open();
    EXPECT_EQ(j.opened.is_crowded, theirs == usable_cores());
    EXPECT_EQ(read_introduction(j.boot.said[0]["k"], 0, proto::wire::VERSION).cores,
              tell_cores(usable_cores()));
  }
}

TEST(open_networks, somebody_elsewhere_and_no_network__is_told_to_all_before_it_is_thrown) {
  job j(2);
  j.order.attr.ofi_provider_name = "no_such_provider";
  if (const net::provider* found = usable_network(); found != nullptr && found->name != "ofi")
    GTEST_SKIP() << "there is a card here";
  j.tell(1, stranger());
  j.tell_second(1, tell_failure("no card"));
  EXPECT_THAT(j.refusal(),
              AnyOf(HasSubstr("shm: does not reach rank 1"), HasSubstr("no_such_provider")));
  EXPECT_EQ(j.boot.fences, 2) << "others would wait";
  EXPECT_TRUE(j.boot.said[0]["k.network"].starts_with("- ")) << j.boot.said[0]["k.network"];
}

TEST(open_networks, shared_memory_by_name__has_to_reach_everybody) {
  job j(3);
  j.order.attr.backend = attr_backend_t::shm;
  introduction near = neighbour(), far = stranger();
  near.wanted = far.wanted = "shm";
  j.tell(1, near);
  j.tell(2, far);
  EXPECT_THAT(j.refusal(), AllOf(HasSubstr("does not reach rank 2"), HasSubstr(far.place)));
  EXPECT_EQ(j.boot.fences, 1);
}

TEST(open_networks, shared_memory_by_name_and_switched_off__is_a_contradiction) {
  job j(1);
  j.order.attr.backend = attr_backend_t::shm;
  j.order.shm_enable = false;
  EXPECT_THAT(j.refusal(), HasSubstr("switched off by shm_enable"));
}

TEST(open_networks, backend_that_lci_does_not_have__is_said_to_be_none) {
  job j(1);
  j.order.attr.backend = attr_backend_t::ucx;
  EXPECT_THAT(j.refusal(), AllOf(HasSubstr("backend ucx is not usable: there is no such backend"),
                                 HasSubstr("shm"), Not(HasSubstr("asked for"))));
}

TEST(open_networks, reasons__name_each_backend_once) {
  job j(2);
  for (const net::provider& p : net::providers())
    if (p.place == nullptr && p.backend == attr_backend_t::ibv && !p.probe().empty())
      j.order.attr.backend = p.backend;
  if (j.order.attr.backend == attr_backend_t::none) GTEST_SKIP() << "verbs are usable here";
  introduction other = neighbour();
  other.wanted = "ibv";
  j.tell(1, other);
  j.tell_second(1, tell_failure("no card"));
  EXPECT_THAT(j.refusal(), AllOf(HasSubstr("\n  ibv: "), Not(HasSubstr("ibv: ibv:"))));
}

TEST(open_networks, other_wishes__are_named) {
  job j(2);
  introduction other = neighbour();
  other.wanted = "ofi";
  j.tell(1, other);
  EXPECT_THAT(j.refusal(), HasSubstr("rank 1 wants network \"ofi\", and this rank wants \"any\""));
}

class with_network : public testing::Test {
 protected:
  void SetUp() override {
    network = usable_network();
    if (network == nullptr) GTEST_SKIP() << "no network between hosts works here";
  }
  std::string name() const { return std::string(network->name); }
  const net::provider* network = nullptr;
};

TEST_F(with_network, neighbours_and_strangers__are_reached_over_two_networks) {
  job j(4);
  j.tell(1, neighbour());
  for (const int far : {2, 3}) j.tell(far, stranger());
  for (const int r : {1, 2, 3})
    j.tell_second(r, tell_network(name(), "address " + std::to_string(r)));
  j.open();
  EXPECT_EQ(j.boot.fences, 2);
  const auto* both = dynamic_cast<const net::routed_fabric*>(j.opened.fabric.get());
  ASSERT_NE(both, nullptr);
  EXPECT_EQ(both->table().to(0), net::way::local);
  EXPECT_EQ(both->table().to(1), net::way::local);
  EXPECT_EQ(both->table().to(2), net::way::remote);
  EXPECT_EQ(j.opened.backend, network->backend);
  EXPECT_THAT(j.opened.summary, AllOf(HasSubstr("backend " + name()), HasSubstr("1 peer over shm"),
                                      HasSubstr("2 peers over " + name())));
  EXPECT_EQ(j.between.lookup(2), "address 2");
}

TEST_F(with_network, rank_without_company__has_the_network_alone) {
  job j(3);
  for (const int far : {1, 2}) {
    j.tell(far, stranger());
    j.tell_second(far, tell_network(name(), "there"));
  }
  j.open();
  EXPECT_EQ(j.opened.fabric->name(), name());
  EXPECT_FALSE(j.opened.has_local);
  EXPECT_EQ(dynamic_cast<net::routed_fabric*>(j.opened.fabric.get()), nullptr);
}

TEST_F(with_network, shared_memory_switched_off__leaves_the_network_for_neighbours_too) {
  job j(2);
  j.order.shm_enable = false;
  introduction silent;
  j.tell(1, silent);
  j.tell_second(1, tell_network(name(), "there"));
  j.open();
  EXPECT_EQ(j.opened.fabric->name(), name());
  EXPECT_FALSE(j.opened.has_local);
}

TEST_F(with_network, network_by_name__is_opened_beside_shared_memory) {
  job j(2);
  j.order.attr.backend = network->backend;
  introduction near = neighbour();
  near.wanted = name();
  j.tell(1, near);
  j.tell_second(1, tell_network(name(), "there"));
  j.open();
  EXPECT_EQ(j.opened.backend, network->backend);
  EXPECT_TRUE(j.opened.has_local);
  EXPECT_THAT(j.opened.summary,
              AllOf(HasSubstr("1 peer over shm"), HasSubstr("0 peers over " + name())));
}

TEST_F(with_network, others_without_or_with_another__are_named) {
  job j(3);
  for (const int far : {1, 2}) j.tell(far, stranger());
  j.tell_second(1, tell_network("other", "x"));
  j.tell_second(2, tell_failure("its card is on fire"));
  EXPECT_THAT(j.refusal(),
              AllOf(HasSubstr("rank 1 opened \"other\""),
                    HasSubstr("rank 2 could open no network between hosts: its card is on fire")));
}

}  // namespace
}  // namespace lci::runtime
