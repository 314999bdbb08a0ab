// Every probe on a stand-in: all of them answer yes where all is there, and each says why not,
// alone, where one thing is missing.
#include "experimental/ibv/gpu_tiers/probe.hpp"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>

#include "experimental/tests/unit/ibv/gpu_tiers_world.hpp"
#include "tests/unit/ibv/gpu_ladder_world.hpp"

namespace lci::ibv {
namespace {

using cuda::abi::result;
using net::gpu_tier;
using net::tier_report;

constexpr std::uint64_t NO_LIMIT = 0, AT_ONCE = 1;

class probe_test : public on_an_mlx5_card {
 protected:
  probe_test() : setup_{lib_} {
    lib_ = find_mlx5();
    gpus().reset({.pcie_dma_buf = true});
    gpus().start();
    test::domains() = {&LADDER_GPU, 1};
    std::filesystem::create_directories(root_ + "/driver/nvidia");
    std::filesystem::create_directories(root_ + "/module/nvidia_peermem");
    std::ofstream(root_ + "/driver/nvidia/params")
        << "RegistryDwords: \"PeerMappingOverride=1;\"\n";
    setup_.procfs = setup_.sysfs = root_;
    setup_.limit_ns = NO_LIMIT;
  }
  ~probe_test() override {
    std::filesystem::remove_all(root_);
    for (const std::string& leak : gpus().leaks()) ADD_FAILURE() << "left over: " << leak;
    test::domains() = {};
    gpus().reset();
  }

  // With a card that carries out what it is told, `fails_with` instead of it.
  std::vector<tier_report> probe(wqe::syndrome fails_with = wqe::syndrome::none) {
    return beside_a_card([&] { return probe_tiers(config_, setup_); }, fails_with);
  }
  template <class Probing>
  static std::vector<tier_report> beside_a_card(const Probing& probing, wqe::syndrome fails_with) {
    std::atomic<bool> is_over{false};
    std::thread a_card([&] {
      std::optional<stand_in_card> one;
      while (!is_over.load()) {
        if (!one)
          for (const auto& q : maker().queues())
            if (q.ring != nullptr && q.is_connected) one.emplace(q);
        if (one) one->fails_with = fails_with;
        if (!one || one->progress() == 0) std::this_thread::yield();
      }
    });
    auto out = probing();
    is_over.store(true);
    a_card.join();
    EXPECT_EQ(card().live().all(), 0u) << "the probe leaves something";
    return out;
  }
  // What a row of one of the reports says.
  static std::string said(const std::vector<tier_report>& all, tier_row row) {
    for (const tier_report& one : all)
      for (const net::tier_probe& probe : one.probes)
        if (probe.name == PROBES[static_cast<std::size_t>(row)].name)
          return probe.why_not.empty() ? "yes" : probe.why_not;
    return "no such row";
  }

  mlx5 lib_;
  net::fabric_config config_;
  probe_setup setup_;
  const std::string root_ = testing::TempDir() + "lci_probe." + std::to_string(::getpid());
};

TEST_F(probe_test, everything_there__all_rows_say_yes_and_the_highest_is_chosen) {
  const auto all = probe();
  ASSERT_EQ(all.size(), 3u);
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].tier, net::GPU_TIERS[i]);
    EXPECT_EQ(all[i].why_not, "");
    EXPECT_GT(all[i].probes.size(), 7u);
    for (const net::tier_probe& probe : all[i].probes) EXPECT_EQ(probe.why_not, "") << probe.name;
  }
  EXPECT_EQ(net::choose_gpu_tier(gpu_tier::automatic, all), gpu_tier::gpu_direct);
}

// What a network's provider answers.
TEST_F(probe_test, gpu_tiers__asks_the_library_that_is_loaded) {
  const auto all = beside_a_card([&] { return gpu_tiers::probe(config_); }, wqe::syndrome::none);
  ASSERT_EQ(all.size(), 3u);
  for (const tier_report& one : all) EXPECT_EQ(one.why_not, "");
}

// One thing that is missing, the row that says so, and which tiers are not usable for it.
struct lack {
  tier_row row;
  std::string text;
  unsigned tiers_lost;
  std::function<void()> make;
  wqe::syndrome fails_with = wqe::syndrome::none;
};

constexpr unsigned DIRECT = IN_T0 | IN_T1, ALL_TIERS = IN_T0 | IN_T1 | IN_T2;

class probe_lack_test : public probe_test {
 protected:
  static void fail(const char* call, int error) { card().fail_nth(call, 1, error); }
  void expect_lack(const lack& what) {
    const auto all = probe(what.fails_with);
    EXPECT_NE(said(all, what.row).find(what.text), std::string::npos) << said(all, what.row);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const tier_report& one = all[i];
      const bool is_lost = (what.tiers_lost >> i & 1) != 0;
      EXPECT_EQ(one.why_not.empty(), !is_lost) << net::name_of(one.tier) << ": " << one.why_not;
      if (!is_lost) {
        EXPECT_EQ(net::choose_gpu_tier(one.tier, all), one.tier);
        continue;
      }
      // Asked for, it is an error that names both, and nothing else is taken for it.
      EXPECT_NE(one.why_not.find(what.text), std::string::npos) << one.why_not;
      EXPECT_TRUE(test::throws_with<backend_error>([&] { net::choose_gpu_tier(one.tier, all); },
                                                   {net::name_of(one.tier), what.text}));
    }
  }
  // With all that the test needs anew for each.
  void expect_each(const std::vector<lack>& all) {
    for (const lack& one : all) {
      SCOPED_TRACE(one.text);
      lib_ = find_mlx5();
      card().reset();
      maker().reset();
      gpus().reset({.pcie_dma_buf = true});
      gpus().start();
      one.make();
      expect_lack(one);
    }
  }
};

TEST_F(probe_lack_test, card__each_row_in_turn) {
  const auto without = [](auto change) {
    return [change] {
      test::fake_ibv_config config;
      change(config);
      card().reset(config);
    };
  };
  expect_each({
      {tier_row::device, "libmlx5 cannot be loaded", ALL_TIERS,
       [&] {
         lib_ = {};
         lib_.why_not = "libmlx5 cannot be loaded (no such file)";
       }},
      {tier_row::device, "there is no RDMA device", ALL_TIERS,
       without([](auto& config) { config.devices.clear(); })},
      {tier_row::device, "no mlx5 card among fake_0", ALL_TIERS,
       [] { maker().reset({.is_mlx5 = false}); }},
      {tier_row::port, "the port is not active", ALL_TIERS,
       without([](auto& config) { config.devices[0].ports[0].state = IBV_PORT_DOWN; })},
      {tier_row::port, "it has no GID", ALL_TIERS,
       without([](auto& config) { config.devices[0].ports[0].gids.clear(); })},
      {tier_row::port, "ibv_alloc_pd", ALL_TIERS, [] { fail("ibv_alloc_pd", ENOMEM); }},
      {tier_row::devx, "mlx5dv_open_device with DevX", 0,
       [] { fail("mlx5dv_open_device", EPERM); }},
      {tier_row::devx, "mlx5dv_devx_alloc_uar", 0,
       [] { fail("mlx5dv_devx_alloc_uar", EOPNOTSUPP); }},
      {tier_row::raw_requests, "mlx5dv_create_qp for raw work requests", IN_T2,
       [] { fail("mlx5dv_create_qp for raw", EOPNOTSUPP); }},
      {tier_row::raw_requests, "accepts no raw work requests", IN_T2,
       [] { maker().reset({.has_raw = false}); }},
      {tier_row::direct_view, "mlx5dv_create_cq", DIRECT, [] { fail("mlx5dv_create_cq", EINVAL); }},
      {tier_row::direct_view, "mlx5dv_init_obj", DIRECT, [] { fail("mlx5dv_init_obj", EINVAL); }},
      {tier_row::direct_view, "blocks of 128 bytes", DIRECT,
       [] { maker().reset({.stride = 128}); }},
      {tier_row::dma_buf_card, "Operation not supported", 0,
       [] { fail("ibv_reg_dmabuf_mr", EOPNOTSUPP); }},
      {tier_row::dma_buf_card, "Protocol not supported", 0,
       [] { fail("ibv_reg_dmabuf_mr", EPROTONOSUPPORT); }},
      {tier_row::data_direct, "has no such function", 0,
       [] { fail("mlx5dv_get_data_direct_sysfs_path", ENODEV); }},
      {tier_row::data_direct, "Invalid argument", 0,
       [] { fail("mlx5dv_get_data_direct_sysfs_path", EINVAL); }},
      {tier_row::end_to_end, "ibv_reg_mr", DIRECT, [] { fail("ibv_reg_mr", ENOMEM); }},
      {tier_row::end_to_end, "ibv_modify_qp", DIRECT, [] { fail("ibv_modify_qp", EINVAL); }},
      {tier_row::end_to_end, "ended with syndrome 0x13: remote access error", DIRECT, [] {},
       wqe::syndrome::remote_access},
  });
}

TEST_F(probe_lack_test, gpu__each_row_in_turn) {
  expect_each({
      {tier_row::queue_memory, "cuMemHostRegister", ALL_TIERS,
       [] { gpus().fail_nth("cuMemHostRegister", 1, result::out_of_memory); }},
      {tier_row::queue_memory, "cuda", ALL_TIERS, [] { gpus().reset({.gpus = 0}); }},
      {tier_row::register_mapping, "PeerMappingOverride is not set", IN_T0,
       [] { gpus().fail_nth("cuMemHostRegister", 2, result::not_permitted); }},
      {tier_row::register_mapping, "CUDA_ERROR_NOT_SUPPORTED", IN_T0,
       [] { gpus().fail_nth("cuMemHostRegister", 2, result::not_supported); }},
      {tier_row::dma_buf_gpu, "has no dma-buf", 0,
       [] {
         gpus().reset({.dma_buf = false});
         gpus().start();
       }},
  });
  test::domains() = {};
  expect_each({{tier_row::queue_memory, "no accelerator is built", ALL_TIERS, [] {}}});
}

TEST_F(probe_lack_test, hints__decide_nothing) {
  expect_each({
      {tier_row::driver_option, "there is no ", 0, [&] { setup_.procfs = root_ + "/none"; }},
      {tier_row::peermem, "nvidia_peermem is not loaded", 0,
       [&] { setup_.sysfs = root_ + "/none"; }},
  });
}

TEST_F(probe_lack_test, calls_that_the_library_lacks__each_in_turn) {
  expect_each({
      {tier_row::device, "no mlx5dv_is_supported", ALL_TIERS, [&] { lib_.is_supported = nullptr; }},
      {tier_row::devx, "no mlx5dv_open_device", 0, [&] { lib_.open_device = nullptr; }},
      {tier_row::devx, "no mlx5dv_devx_alloc_uar", 0, [&] { lib_.devx_alloc_uar = nullptr; }},
      {tier_row::devx, "no mlx5dv_devx_free_uar", 0, [&] { lib_.devx_free_uar = nullptr; }},
      {tier_row::direct_view, "no mlx5dv_create_cq", DIRECT, [&] { lib_.create_cq = nullptr; }},
      {tier_row::direct_view, "no mlx5dv_create_qp", ALL_TIERS, [&] { lib_.create_qp = nullptr; }},
      {tier_row::direct_view, "no mlx5dv_init_obj", DIRECT, [&] { lib_.init_obj = nullptr; }},
      {tier_row::raw_requests, "no mlx5dv_qp_ex_from_ibv_qp_ex", IN_T2,
       [&] { lib_.qp_ex_from_ibv_qp_ex = nullptr; }},
      {tier_row::raw_requests, "no ibv_qp_to_qp_ex", IN_T2, [&] { lib_.qp_to_qp_ex = nullptr; }},
      {tier_row::data_direct, "no mlx5dv_get_data_direct_sysfs_path", 0,
       [&] { lib_.get_data_direct_sysfs_path = nullptr; }},
  });
}

TEST_F(probe_test, nothing_comes_back__the_limit_ends_it) {
  setup_.limit_ns = AT_ONCE;
  const auto all = probe_tiers(config_, setup_);
  EXPECT_NE(said(all, tier_row::end_to_end).find("the time limit passed without progress"),
            std::string::npos);
  EXPECT_NE(all[0].why_not, "");
  EXPECT_EQ(net::choose_gpu_tier(gpu_tier::automatic, all), gpu_tier::cpu_forwards);
}

TEST_F(probe_test, behind_what_failed__rows_say_which_came_first) {
  maker().reset({.is_mlx5 = false});
  const auto all = probe();
  for (const tier_row row : {tier_row::port, tier_row::end_to_end, tier_row::devx})
    EXPECT_TRUE(said(all, row).starts_with("not tried: ")) << said(all, row);
  EXPECT_EQ(said(all, tier_row::port), "not tried: mlx5 device comes first");
  EXPECT_EQ(said(all, tier_row::queue_memory), "yes");
}

TEST_F(probe_test, register__that_of_the_queue_where_there_is_no_devx) {
  lib_.devx_alloc_uar = nullptr;
  const auto all = probe();
  EXPECT_EQ(said(all, tier_row::register_mapping), "yes");
  EXPECT_EQ(all[0].why_not, "");
}

}  // namespace
}  // namespace lci::ibv
