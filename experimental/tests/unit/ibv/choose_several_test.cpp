// Which cards are used together.
#include "backends/ibv/select.hpp"
#include "lci/errors.hpp"
#include "tests/support/must_fire.hpp"
#include "tests/unit/ibv/world.hpp"

namespace lci::ibv {
namespace {

class choose_several_test : public on_a_card {
 protected:
  choose_several_test() {
    test::fake_ibv_config config;
    config.devices.assign(5, config.devices[0]);
    for (int i = 0; i < 5; ++i)
      config.devices[static_cast<std::size_t>(i)].name = "f" + std::to_string(i);
    config.devices[1].ports.resize(2);
    card().reset(config);
  }
  static std::string names_of(const port_settings& settings) {
    std::string out;
    for (const chosen_port& one : open_ports(settings)) out += (out.empty() ? "" : " ") + one.name;
    return out;
  }
};

TEST_F(choose_several_test, count__so_many_that_are_as_good_and_each_rank_another_one_first) {
  port_settings settings;
  EXPECT_EQ(names_of(settings), "f0:1");
  settings.rails = 2;
  EXPECT_EQ(names_of(settings), "f0:1 f1:1");
  settings.local_rank = 4;
  EXPECT_EQ(names_of(settings), "f3:1 f4:1");
  settings.rails = 0;
  EXPECT_EQ(names_of(settings), "f3:1 f4:1 f0:1 f1:1") << "at most four";
}

TEST_F(choose_several_test, device_name__a_list_is_taken_in_its_order) {
  port_settings settings;
  settings.local_rank = 1;
  settings.device_name = "f4, f0:1";
  EXPECT_EQ(names_of(settings), "f4:1 f0:1");
  settings.device_name = "f1:2,f1:1,f0,f2,f3";
  EXPECT_EQ(names_of(settings), "f1:2 f1:1 f0:1 f2:1");
  settings.device_name = "f9,f2";
  EXPECT_EQ(names_of(settings), "f2:1");
  settings.device_name = "f8,f9";
  EXPECT_TRUE(test::throws_with<backend_error>([&] { open_ports(settings); },
                                               {"device_name asks for f8,f9"}));
}

TEST_F(choose_several_test, one_that_cannot_be_opened__is_left_out) {
  port_settings settings;
  settings.rails = 3;
  card().fail_nth("ibv_open_device", 7, EMFILE);  // the second of those chosen
  EXPECT_EQ(names_of(settings), "f0:1 f1:2");
}

TEST_F(choose_several_test, report__says_which_go_together) {
  net::fabric_config config;
  config.device_name = "f3,f1:2";
  const auto said = report(config);
  ASSERT_EQ(said.size(), 6u);
  for (const net::card_report& one : said) {
    EXPECT_EQ(one.is_chosen, one.name == "f3:1" || one.name == "f1:2") << one.name;
    EXPECT_EQ(one.why, one.is_chosen ? "device_name lists it" : "device_name asks for f3,f1:2");
  }
}

}  // namespace
}  // namespace lci::ibv
