// libmlx5, loaded when a tier is asked for and not before: what of direct verbs and DevX the tiers
// need. Callers: the rest of this folder. Threads: shared. Always true: once loaded it stays, since
// libibverbs has it as the driver of its cards; a call that a library does not have is null, and
// the caller that needs it says its name.
#pragma once

#include <infiniband/mlx5dv.h>

#include <cstddef>
#include <functional>
#include <string>

#include "backends/ibv/library.hpp"

namespace lci::ibv {

// The entry points, under the names of the library without "mlx5dv_".
struct mlx5 {
  // Of rdma-core 54 (MLX5_1.25), and therefore not in every header.
  using get_sysfs_path = int (*)(ibv_context* on, char* to, std::size_t size);

  std::string why_not;  // not empty: it could not be loaded, and all of the others are null
  decltype(&::mlx5dv_is_supported) is_supported = nullptr;
  decltype(&::mlx5dv_open_device) open_device = nullptr;
  decltype(&::mlx5dv_devx_alloc_uar) devx_alloc_uar = nullptr;
  decltype(&::mlx5dv_devx_free_uar) devx_free_uar = nullptr;
  decltype(&::mlx5dv_create_cq) create_cq = nullptr;
  decltype(&::mlx5dv_create_qp) create_qp = nullptr;
  decltype(&::mlx5dv_init_obj) init_obj = nullptr;
  decltype(&::mlx5dv_qp_ex_from_ibv_qp_ex) qp_ex_from_ibv_qp_ex = nullptr;
  get_sysfs_path get_data_direct_sysfs_path = nullptr;
  decltype(&::ibv_qp_to_qp_ex) qp_to_qp_ex = nullptr;  // of libibverbs, under its whole name
};

// find: what dlsym() answers for a name.
mlx5 resolve_mlx5(const std::function<void*(const char* name)>& find);
// The first call loads the library. libibverbs was found before.
const mlx5& find_mlx5();

// Empty, or that this library lacks the call of that name.
template <class Function>
std::string why_missing(Function* call, const char* name) {
  return call != nullptr ? "" : std::string("this libmlx5 has no ") + name + ": it is too old";
}

}  // namespace lci::ibv
