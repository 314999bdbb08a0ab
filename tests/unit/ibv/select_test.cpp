#include "backends/ibv/select.hpp"

#include <arpa/inet.h>

#include "lci/errors.hpp"
#include "tests/unit/ibv/world.hpp"

namespace lci::ibv {
namespace {

constexpr ibv_gid_type V1 = IBV_GID_TYPE_ROCE_V1, V2 = IBV_GID_TYPE_ROCE_V2, IB = IBV_GID_TYPE_IB;

class select : public on_a_card {
 protected:
  // One device with one port that has these GIDs.
  static void with_gids(std::vector<test::fake_gid> gids) {
    test::fake_ibv_config config;
    config.devices[0].ports[0].gids = std::move(gids);
    card().reset(config);
  }
  // Two devices: the second is faster.
  static test::fake_ibv_config two_devices() {
    test::fake_ibv_config config;
    config.devices.push_back(config.devices[0]);
    config.devices[1].name = "fake_1";
    config.devices[1].ports[0].speed = 64;
    return config;
  }
  // What open_ports() says when it throws.
  static std::string refusal(const port_settings& settings = {}) {
    try {
      open_best_port(settings);
    } catch (const backend_error& problem) {
      return problem.what();
    }
    return "nothing was thrown";
  }
};

TEST_F(select, gid__by_type_then_by_address) {
  struct {
    std::vector<test::fake_gid> gids;
    int chosen;
    const char* why;
  } const table[] = {
      {{{"fe80::1", V1}, {"fe80::1", V2}, {"::ffff:10.0.0.1", V1}, {"::ffff:10.0.0.1", V2}},
       3,
       "RoCE v2, an IPv4 address"},
      {{{"fe80::1", V2}, {"2001:db8::1", V2}}, 1, "RoCE v2, a global IPv6 address"},
      {{{"2001:db8::1", V2}, {"::ffff:10.0.0.1", V2}}, 1, "RoCE v2, an IPv4 address"},
      {{{"::ffff:10.0.0.1", V1}, {"fe80::1", V2}},
       1,
       "RoCE v2, link-local: there is nothing better"},
      {{{"fe80::1", V1}, {"::ffff:10.0.0.1", V1}}, 1, "RoCE v1, an IPv4 address"},
      {{{"", V2}, {"", V2}, {"fe80::1", V2}}, 2, "RoCE v2, link-local: there is nothing better"},
      // The first of equals.
      {{{"::ffff:10.0.0.1", V2}, {"::ffff:10.0.0.2", V2}}, 0, "RoCE v2, an IPv4 address"},
  };
  for (const auto& line : table) {
    with_gids(line.gids);
    const chosen_port port = open_best_port({});
    EXPECT_EQ(port.gid.index, line.chosen);
    EXPECT_TRUE(port.has_gid);
    EXPECT_EQ(port.why_gid, line.why);
  }
}

TEST_F(select, gids__are_read_in_one_call_or_else_one_by_one) {
  with_gids({{"fe80::1", V1}, {"", V2}, {"::ffff:10.0.0.1", V1}, {"fe80::1", V2}});
  EXPECT_EQ(open_best_port({}).gid.index, 3);
  EXPECT_EQ(card().count("ibv_query_gid_table"), 1u);
  EXPECT_EQ(card().count("ibv_query_gid"), 0u);
  // An old kernel: what type they are of is not known.
  card().fail_nth("ibv_query_gid_table", 1, EOPNOTSUPP);
  EXPECT_EQ(open_best_port({}).gid.index, 2);
  EXPECT_EQ(card().count("ibv_query_gid"), 4u);
}

TEST_F(select, gids__of_another_port_are_not_ours) {
  test::fake_ibv_config config;
  config.devices[0].ports.resize(2);
  config.devices[0].ports[0].gids = {{"::ffff:10.0.0.1", V2}};
  config.devices[0].ports[1].gids = {{"", V2}, {"::ffff:10.0.1.1", V2}};
  card().reset(config);
  port_settings settings;
  settings.device_name = "fake_0:2";
  const chosen_port port = open_best_port(settings);
  EXPECT_EQ(port.gid.index, 1);
  EXPECT_EQ(text_of(port.gid.gid), "10.0.1.1");
}

TEST_F(select, gid_index__is_taken_as_it_is_said) {
  port_settings settings;
  settings.gid_index = 0;
  const chosen_port port = open_best_port(settings);
  EXPECT_EQ(port.gid.index, 0);
  EXPECT_EQ(port.gid.type, V1);
  EXPECT_EQ(port.why_gid, "as ibv_gid_idx says");
}

TEST_F(select, gid_index__empty_or_outside_is_an_error_that_names_it) {
  with_gids({{"fe80::1", V2}, {"", V2}});
  for (const int index : {1, 2, 1000}) {
    port_settings settings;
    settings.gid_index = index;
    EXPECT_EQ(refusal(settings), "ibv: no port can be used; fake_0:1: GID index " +
                                     std::to_string(index) + " (ibv_gid_idx) is empty");
  }
}

TEST_F(select, no_gid__on_ethernet_is_an_error_that_says_what_to_do) {
  with_gids({{"", V2}});
  EXPECT_EQ(
      refusal(),
      "ibv: no port can be used; fake_0:1: it has no GID: give its network interface an address");
}

TEST_F(select, infiniband__lids_alone_unless_a_gid_is_wanted) {
  test::fake_ibv_config config;
  test::fake_port& fabric_port = config.devices[0].ports[0];
  fabric_port.link_layer = IBV_LINK_LAYER_INFINIBAND;
  fabric_port.lid = 5;
  fabric_port.gids = {{"fe80::1", IB}};
  card().reset(config);
  EXPECT_FALSE(open_best_port({}).has_gid);
  EXPECT_EQ(open_best_port({}).state.lid, 5);
  port_settings settings;
  settings.wants_gid = true;
  EXPECT_TRUE(open_best_port(settings).has_gid);
}

TEST_F(select, port__the_fastest_active_one) {
  test::fake_ibv_config config = two_devices();
  card().reset(config);
  EXPECT_EQ(open_best_port({}).name, "fake_1:1");
  config.devices[1].ports[0].state = IBV_PORT_DOWN;
  card().reset(config);
  EXPECT_EQ(open_best_port({}).name, "fake_0:1");
  config.devices[0].ports.push_back(config.devices[0].ports[0]);
  config.devices[0].ports[1].speed = 128;
  card().reset(config);
  EXPECT_EQ(open_best_port({}).name, "fake_0:2");
}

TEST_F(select, device_name__of_a_device_or_of_a_port) {
  card().reset(two_devices());
  for (const char* name : {"fake_0", "fake_0:1"}) {
    port_settings settings;
    settings.device_name = name;
    EXPECT_EQ(open_best_port(settings).name, "fake_0:1");
  }
  port_settings settings;
  settings.device_name = "mlx5_7";
  EXPECT_EQ(
      refusal(settings),
      "ibv: no port can be used; fake_0:1: device_name asks for mlx5_7; fake_1:1: device_name "
      "asks for mlx5_7");
}

TEST_F(select, cards_of_other_transports__are_refused_and_not_opened) {
  const std::pair<ibv_transport_type, const char*> table[] = {
      {IBV_TRANSPORT_IWARP, "it speaks iWARP, which has no datagrams and no immediate data"},
      {IBV_TRANSPORT_UNSPECIFIED,
       "it has no reliable connections, as EFA has none; libfabric is for such cards"}};
  for (const auto& [transport, why] : table) {
    test::fake_ibv_config config;
    config.devices[0].transport = transport;
    card().reset(config);
    EXPECT_EQ(refusal(), std::string("ibv: no port can be used; fake_0: ") + why);
    EXPECT_EQ(card().count("ibv_open_device"), 0u);
  }
}

TEST_F(select, nothing_there__says_so) {
  test::fake_ibv_config config;
  config.devices.clear();
  card().reset(config);
  EXPECT_EQ(refusal(), "ibv: there is no verbs device on this machine");
}

TEST_F(select, port_down__says_so) {
  test::fake_ibv_config config;
  config.devices[0].ports[0].state = IBV_PORT_DOWN;
  card().reset(config);
  EXPECT_EQ(refusal(), "ibv: no port can be used; fake_0:1: the port is not active");
}

TEST_F(select, failing_calls__leave_the_device_out_with_the_reason) {
  card().fail_nth("ibv_open_device", 1, EACCES);
  EXPECT_EQ(refusal(), "ibv: no port can be used; fake_0: it cannot be opened (Permission denied)");
  card().fail_nth("ibv_query_device", 1, EIO);
  EXPECT_EQ(refusal(),
            "ibv: no port can be used; fake_0: it cannot be queried (Input/output error)");
  card().fail_nth("ibv_query_port", 1, EIO);
  EXPECT_EQ(refusal(),
            "ibv: no port can be used; fake_0:1: the port cannot be queried (Input/output error)");
  card().fail_nth("ibv_open_device", 2, EMFILE);
  EXPECT_EQ(refusal(),
            "ibv: no port can be used; fake_0:1: it cannot be opened again (Too many open files)");
  card().fail_nth("ibv_get_device_list", 2, EIO);
  EXPECT_EQ(refusal(), "ibv: no port can be used; fake_0:1: the device was removed");
}

TEST_F(select, device_that_cannot_be_opened_again__gives_way_to_the_next) {
  card().reset(two_devices());
  card().fail_nth("ibv_open_device", 3, EMFILE);
  EXPECT_EQ(open_best_port({}).name, "fake_0:1");
}

// Every kind of port, as lci_info tells of them.
TEST_F(select, report__each_port_with_its_state_and_why_it_is_chosen_or_not) {
  test::fake_ibv_config config;
  test::fake_device& ib = config.devices[0];
  ib.name = "ib";
  ib.ports = std::vector<test::fake_port>(2);
  for (test::fake_port& port : ib.ports) {
    port.link_layer = IBV_LINK_LAYER_INFINIBAND;
    port.gids = {{"fe80::1", IB}};
    port.lid = 5;
  }
  ib.ports[1].state = IBV_PORT_INIT;
  for (const char* name : {"v2", "v1", "six", "slow", "bare", "shut"}) {
    config.devices.push_back({});
    config.devices.back().name = name;
  }
  config.devices[2].ports[0].gids = {{"::ffff:10.0.0.2", V1}};
  config.devices[3].ports[0].gids = {{"", V2}, {"2001:db8::1", V2}};
  config.devices[4].ports[0].width = config.devices[4].ports[0].speed = 1;
  config.devices[5].ports[0].gids = {};
  card().reset(config);
  card().fail_nth("ibv_open_device", 7, EACCES);
  const std::pair<const char*, const char*> expected[] = {
      {"ib:1: InfiniBand, active, 100 Gbit/s, LID 5, GID none: LIDs are enough within an "
       "InfiniBand subnet",
       "+the fastest"},
      {"ib:2: InfiniBand, initializing (no subnet manager?), 100 Gbit/s",
       "-the port is not active"},
      {"v2:1: Ethernet, active, 100 Gbit/s, GID 3 10.0.0.1 (RoCE v2, an IPv4 address)",
       "-on another network (RoCE v2 IPv4) than ib:1 (InfiniBand subnet fe80::)"},
      {"v1:1: Ethernet, active, 100 Gbit/s, GID 0 10.0.0.2 (RoCE v1, an IPv4 address)",
       "-on another network (RoCE v1) than ib:1 (InfiniBand subnet fe80::)"},
      {"six:1: Ethernet, active, 100 Gbit/s, GID 1 2001:db8::1 (RoCE v2, a global IPv6 address)",
       "-on another network (RoCE v2 2001:db8::/64) than ib:1 (InfiniBand subnet fe80::)"},
      {"slow:1: Ethernet, active, 2.5 Gbit/s, GID 3 10.0.0.1 (RoCE v2, an IPv4 address)",
       "-slower than ib:1"},
      {"bare:1: Ethernet, active, 100 Gbit/s",
       "-it has no GID: give its network interface an address"},
      {"shut: no port is known", "-it cannot be opened (Permission denied)"}};
  const std::vector<net::card_report> said = report({});
  ASSERT_EQ(said.size(), std::size(expected));
  for (std::size_t i = 0; i < said.size(); ++i) {
    EXPECT_EQ(said[i].name + ": " + said[i].what, expected[i].first);
    EXPECT_EQ((said[i].is_chosen ? "+" : "-") + said[i].why, expected[i].second);
  }
}

// Two cards at different sockets: whoever is bound gets the near one.
TEST_F(select, equally_fast_cards__the_nearest_then_by_local_rank) {
  test::fake_ibv_config config;
  config.devices.push_back(config.devices[0]);
  config.devices[1].name = "fake_1";
  card().reset(config);
  const net::topology machine("/no/such/folder", LCI_SOURCE_DIR "/tests/unit/net/two_sockets.xml");
  const auto ask = [&](const viewpoint& here, int local_rank, std::string& why) {
    std::vector<port_facts> all = survey({});
    all.at(0).pci = "0000:03:00.0";
    all.at(1).pci = "0000:81:00.0";
    port_settings settings;
    settings.local_rank = local_rank;
    const selection got = choose(all, &machine, here, settings);
    EXPECT_EQ(got.ports.size(), 1u);
    why = got.why.at(0);
    const port_facts* const best = got.ports[0];
    const port_facts& other = all[best == all.data() ? 1 : 0];
    EXPECT_NE(other.why_not, "");
    return best->name;
  };
  std::string why;
  viewpoint here;
  EXPECT_EQ(ask(here, 0, why), "fake_0:1");
  EXPECT_EQ(ask(here, 1, why), "fake_1:1");
  EXPECT_EQ(why, "the fastest, one of 2 that are as good, by local rank 1");
#if LCI_HAVE_HWLOC
  here.cores.cpus = {5};
  EXPECT_EQ(ask(here, 0, why), "fake_1:1");
  EXPECT_EQ(why, "the fastest, nearest to the cores (at the same NUMA node)");
  here.gpu = machine.of_pci("0000:04:00.0");
  EXPECT_EQ(ask(here, 0, why), "fake_0:1");
  EXPECT_EQ(why, "the fastest, nearest to the GPU (behind the same PCIe switch)");
#endif
}

TEST_F(select, local_rank_and_device_name__decide) {
  test::fake_ibv_config config;
  config.devices.push_back(config.devices[0]);
  config.devices[1].name = "fake_1";
  card().reset(config);
  port_settings settings;
  for (settings.local_rank = 0; settings.local_rank < 4; ++settings.local_rank) {
    const int expected = std::array{0, 1, 1, 0}[static_cast<std::size_t>(settings.local_rank)];
    EXPECT_EQ(open_best_port(settings).device, "fake_" + std::to_string(expected));
  }
  settings.device_name = "fake_0";
  settings.local_rank = 1;
  EXPECT_EQ(open_best_port(settings).why, "the only one that can be used");
}

TEST_F(select, settings_of__count_of_cards_or_an_error_that_names_the_variable) {
  const auto rails = [] { return settings_of({}).rails; };
  environment_.unset("LCI_IBV_RAILS");
  EXPECT_EQ(rails(), 1u);
  environment_.set("LCI_IBV_RAILS", "Auto");
  EXPECT_EQ(rails(), 0u);
  environment_.set("LCI_IBV_RAILS", "4");
  EXPECT_EQ(rails(), 4u);
  for (const char* nonsense : {"0", "5", "many"}) {
    environment_.set("LCI_IBV_RAILS", nonsense);
    EXPECT_THROW(rails(), argument_error) << nonsense;
  }
}

TEST_F(select, report__of_one_card_and_of_what_is_asked_for) {
  net::fabric_config config;
  EXPECT_EQ(report(config).at(0).why, "the only one that can be used");
  config.device_name = "mlx5_7";
  EXPECT_EQ(report(config).at(0).why, "device_name asks for mlx5_7");
  config.device_name = "fake_0";
  config.ibv_gid_index = 1;
  EXPECT_EQ(report(config).at(0).what,
            "Ethernet, active, 100 Gbit/s, GID 1 fe80::1 (as ibv_gid_idx says)");
}

TEST_F(select, rate__lanes_times_speed) {
  ibv_port_attr port{};
  port.active_width = 2;
  port.active_speed = 32;
  EXPECT_EQ(rate_of(port), 100'000'000'000u);
  port.active_speed = 128;
  EXPECT_EQ(rate_of(port), 400'000'000'000u);
  port.active_width = 1;
  port.active_speed = 1;
  EXPECT_EQ(rate_of(port), 2'500'000'000u);
}

}  // namespace
}  // namespace lci::ibv
