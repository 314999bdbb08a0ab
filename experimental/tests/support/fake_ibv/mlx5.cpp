// The part of libmlx5 that is not behind libibverbs: Data Direct, on every card of the
// fake. What gives queues to kernels is in direct.cpp.
#include <cerrno>

#include "tests/support/fake_ibv/state.hpp"

using namespace lci::test::fake;  // NOLINT: the names of the library follow

namespace lci::test::fake {
bool is_mlx5();  // direct.cpp
}

extern "C" {

bool mlx5dv_is_supported(ibv_device*) { return is_mlx5(); }

ibv_mr* mlx5dv_reg_dmabuf_mr(ibv_pd* pd, std::uint64_t offset, std::size_t size, std::uint64_t iova,
                             int fd, int access, int mlx5_access) {
  {
    const std::lock_guard lock(net().lock);
    errno = enter("mlx5dv_reg_dmabuf_mr");
    if (errno == 0 && mlx5_access != 1) errno = EINVAL;
    if (errno != 0) return nullptr;
  }
  return ibv_reg_dmabuf_mr(pd, offset, size, iova, fd, access);
}

}  // extern "C"
