#include "backends/ibv/data_direct.hpp"

#include <dlfcn.h>

namespace lci::ibv {

std::string data_direct::why_not_built() { return ""; }

data_direct::function data_direct::find(ibv_device* of, std::string& why_not) {
  // Stays in the process with the verbs library, so the reference may go again.
  void* const mlx5 = dlopen("libmlx5.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (mlx5 == nullptr) {
    why_not = "Data Direct is for mlx5 cards, and no libmlx5 is in this process";
    return nullptr;
  }
  using asks = bool (*)(ibv_device*);
  const auto is_supported = reinterpret_cast<asks>(dlsym(mlx5, "mlx5dv_is_supported"));
  const auto call = reinterpret_cast<function>(dlsym(mlx5, "mlx5dv_reg_dmabuf_mr"));
  dlclose(mlx5);
  if (is_supported == nullptr || !is_supported(of))
    why_not = "Data Direct is for mlx5 cards";
  else if (call == nullptr)
    why_not = "this libmlx5 has no mlx5dv_reg_dmabuf_mr (rdma-core 54)";
  else
    return call;
  return nullptr;
}

}  // namespace lci::ibv
