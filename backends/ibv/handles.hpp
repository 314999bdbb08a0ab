// Owners of verbs objects, so that each is destroyed once and in the right order. A destroy call
// answers 0 or a positive errno; a destructor can only report it. Threads: single.
#pragma once

#include <memory>

#include "backends/ibv/errors.hpp"
#include "backends/ibv/library.hpp"

namespace lci::ibv {

template <auto member>
struct verbs_delete {
  template <class T>
  void operator()(T* object) const noexcept {
    if (const int rc = (library().*member)(object); rc != 0) report_teardown(rc);
  }
};

struct td_delete {
  void operator()(ibv_td* object) const noexcept {
    if (const int rc = ibv_dealloc_td(object); rc != 0) report_teardown(rc);
  }
};

using context_handle = std::unique_ptr<ibv_context, verbs_delete<&verbs::close_device>>;
using pd_handle = std::unique_ptr<ibv_pd, verbs_delete<&verbs::dealloc_pd>>;
using mr_handle = std::unique_ptr<ibv_mr, verbs_delete<&verbs::dereg_mr>>;
using cq_handle = std::unique_ptr<ibv_cq, verbs_delete<&verbs::destroy_cq>>;
using srq_handle = std::unique_ptr<ibv_srq, verbs_delete<&verbs::destroy_srq>>;
using qp_handle = std::unique_ptr<ibv_qp, verbs_delete<&verbs::destroy_qp>>;
using td_handle = std::unique_ptr<ibv_td, td_delete>;
using ah_handle = std::unique_ptr<ibv_ah, verbs_delete<&verbs::destroy_ah>>;

}  // namespace lci::ibv
