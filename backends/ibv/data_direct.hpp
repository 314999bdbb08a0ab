// Data Direct: dma-bufs that a ConnectX reaches through a PCIe function of its own, past the host
// bridge. rdma-core has the call in its mlx5 library alone, newer than many systems' headers, so it
// is declared here: from its manual page. This is the seam to it: what finds it is in
// experimental/ibv/data_direct. Callers: registrar. Threads: any. Always true: nothing is loaded
// that the verbs library has not loaded for a card already.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace lci::ibv {

struct data_direct {
  // mlx5dv_reg_dmabuf_mr, rdma-core 54.
  using function = ibv_mr* (*)(ibv_pd* pd, std::uint64_t offset, std::size_t length,
                               std::uint64_t iova, int fd, int access, int mlx5_access);
  static constexpr int FLAG = 1;  // MLX5DV_REG_DMABUF_ACCESS_DATA_DIRECT

  // Empty, or that it is not built.
  static std::string why_not_built();
  // Null with the reason: not a card of that driver, or a library without the call.
  static function find(ibv_device* of, std::string& why_not);
};

}  // namespace lci::ibv
