#include "experimental/ibv/gpu_tiers/mlx5_library.hpp"

#include <dlfcn.h>

#include <set>

#include "experimental/tests/unit/ibv/gpu_tiers_world.hpp"

namespace lci::ibv {
namespace {

const std::set<std::string> CALLS = {"mlx5dv_is_supported",
                                     "mlx5dv_open_device",
                                     "mlx5dv_devx_alloc_uar",
                                     "mlx5dv_devx_free_uar",
                                     "mlx5dv_create_cq",
                                     "mlx5dv_create_qp",
                                     "mlx5dv_init_obj",
                                     "mlx5dv_qp_ex_from_ibv_qp_ex",
                                     "mlx5dv_get_data_direct_sysfs_path",
                                     "ibv_qp_to_qp_ex"};

std::vector<const void*> all_of(const mlx5& of) {
  return {reinterpret_cast<const void*>(of.is_supported),
          reinterpret_cast<const void*>(of.open_device),
          reinterpret_cast<const void*>(of.devx_alloc_uar),
          reinterpret_cast<const void*>(of.devx_free_uar),
          reinterpret_cast<const void*>(of.create_cq),
          reinterpret_cast<const void*>(of.create_qp),
          reinterpret_cast<const void*>(of.init_obj),
          reinterpret_cast<const void*>(of.qp_ex_from_ibv_qp_ex),
          reinterpret_cast<const void*>(of.get_data_direct_sysfs_path),
          reinterpret_cast<const void*>(of.qp_to_qp_ex)};
}

TEST(mlx5_library, find__all_calls_of_the_two_libraries) {
  maker();
  const mlx5& found = find_mlx5();
  EXPECT_EQ(found.why_not, "");
  for (const void* call : all_of(found)) EXPECT_NE(call, nullptr);
  EXPECT_EQ(&find_mlx5(), &found);
}

TEST(mlx5_library, resolve__each_name_fills_one_call_and_no_other) {
  std::set<std::string> asked;
  static int something;
  for (const std::string& missing : CALLS) {
    const mlx5 found = resolve_mlx5([&](const char* name) -> void* {
      asked.insert(name);
      return missing == name ? nullptr : &something;
    });
    std::size_t absent = 0;
    for (const void* call : all_of(found)) absent += call == nullptr;
    EXPECT_EQ(absent, 1u) << missing;
  }
  EXPECT_EQ(asked, CALLS);
}

TEST(mlx5_library, why_missing__names_the_call) {
  const mlx5 none;
  EXPECT_EQ(why_missing(none.create_qp, "mlx5dv_create_qp"),
            "this libmlx5 has no mlx5dv_create_qp: it is too old");
  EXPECT_EQ(why_missing(find_mlx5().create_qp, "mlx5dv_create_qp"), "");
}

}  // namespace
}  // namespace lci::ibv
