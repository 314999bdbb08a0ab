// In place of the experimental parts of verbs where the build has none (LCI_EXPERIMENTAL).
#include "backends/ibv/data_direct.hpp"
#include "backends/ibv/extended_queue.hpp"
#include "lci/base/experimental.hpp"
#include "lci/errors.hpp"

namespace lci::ibv {

std::string data_direct::why_not_built() { return base::not_built("Data Direct"); }

data_direct::function data_direct::find(ibv_device*, std::string& why_not) {
  why_not = why_not_built();
  return nullptr;
}

extended_queue make_extended_queue(const chosen_port&, std::uint32_t) {
  throw backend_error("ibv: LCI_IBV_EXTENDED_CQ asks for an extended completion queue; " +
                      base::not_built("this kind"));
}

}  // namespace lci::ibv
