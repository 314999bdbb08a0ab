#include "experimental/ibv/gpu_tiers/mlx5_library.hpp"

#include <dlfcn.h>

#include <type_traits>

namespace lci::ibv {
namespace {

mlx5 load_mlx5() {
  void* const found = dlopen("libmlx5.so.1", RTLD_NOW | RTLD_LOCAL);
  if (found == nullptr) {
    const char* const why = dlerror();
    mlx5 none;
    none.why_not = std::string("libmlx5 cannot be loaded (") + (why != nullptr ? why : "?") +
                   "); it is in the package ibverbs-providers";
    return none;
  }
  // As find_library() has loaded it.
  void* const verbs = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_NOLOAD);
  return resolve_mlx5([found, verbs](const char* name) {
    void* const of_mlx5 = dlsym(found, name);
    return of_mlx5 != nullptr || verbs == nullptr ? of_mlx5 : dlsym(verbs, name);
  });
}

}  // namespace

mlx5 resolve_mlx5(const std::function<void*(const char* name)>& find) {
  mlx5 out;
  const auto take = [&find](const char* name, auto& to) {
    to = reinterpret_cast<std::remove_reference_t<decltype(to)>>(find(name));
  };
  take("mlx5dv_is_supported", out.is_supported);
  take("mlx5dv_open_device", out.open_device);
  take("mlx5dv_devx_alloc_uar", out.devx_alloc_uar);
  take("mlx5dv_devx_free_uar", out.devx_free_uar);
  take("mlx5dv_create_cq", out.create_cq);
  take("mlx5dv_create_qp", out.create_qp);
  take("mlx5dv_init_obj", out.init_obj);
  take("mlx5dv_qp_ex_from_ibv_qp_ex", out.qp_ex_from_ibv_qp_ex);
  take("mlx5dv_get_data_direct_sysfs_path", out.get_data_direct_sysfs_path);
  take("ibv_qp_to_qp_ex", out.qp_to_qp_ex);
  return out;
}

const mlx5& find_mlx5() {
  static const mlx5 one = load_mlx5();
  return one;
}

}  // namespace lci::ibv
