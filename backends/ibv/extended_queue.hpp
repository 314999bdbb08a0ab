// The seam to completion queues that are read field by field (ibv_start_poll), which are in
// experimental/ibv/extended_cq. Callers: completions. Threads: as completions says.
#pragma once

#include <cstdint>

#include "backends/ibv/select.hpp"

namespace lci::ibv {

struct extended_queue {
  ibv_cq_ex* queue = nullptr;  // null: the card offers none
  // As completions::poll(); not called for null.
  int (*poll)(ibv_cq_ex* queue, ibv_wc* out, int most) noexcept = nullptr;
};

// Asked for. Throws backend_error where it is not built.
extended_queue make_extended_queue(const chosen_port& card, std::uint32_t size);

}  // namespace lci::ibv
