// Owners of libfabric's objects, so that each is closed once and in the right order. Closing
// answers 0 or a negative code; a destructor can only report it. Threads: single.
#pragma once

#include <memory>

#include "backends/ofi/errors.hpp"
#include "backends/ofi/library.hpp"

namespace lci::ofi {

struct object_close {
  template <class T>
  void operator()(T* object) const noexcept {
    if (const int rc = fi_close(&object->fid); rc != 0) report_teardown(rc);
  }
};
struct info_free {
  void operator()(fi_info* info) const noexcept { library().freeinfo(info); }
};

using info_handle = std::unique_ptr<fi_info, info_free>;
using fabric_handle = std::unique_ptr<fid_fabric, object_close>;
using domain_handle = std::unique_ptr<fid_domain, object_close>;
using av_handle = std::unique_ptr<fid_av, object_close>;
using cq_handle = std::unique_ptr<fid_cq, object_close>;
using ep_handle = std::unique_ptr<fid_ep, object_close>;
using mr_handle = std::unique_ptr<fid_mr, object_close>;

}  // namespace lci::ofi
