// What the 24 bytes of an rmr_t mean, and whether an operation stays inside the region that they
// name.
// Callers: puts and gets, raw ones too. Threads: any. Errors: argument_error.
#pragma once

#include "lci/base/platform.hpp"
#include "lci/handles.hpp"
#include "lci/net/backend.hpp"
#include "lci/proto/engine/core.hpp"
#include "lci/proto/engine/progress_engine.hpp"

namespace lci::api {

inline net::remote_key key_of(const rmr_t& rmr) noexcept {
  return {static_cast<std::uint32_t>(rmr.opaque_rkey),
          static_cast<std::uint32_t>(rmr.opaque_rkey >> 32)};
}

[[noreturn]] LCI_COLD void throw_changed_rmr(const rmr_t& rmr, int rank);

// Throws unless it is exactly what get_rmr() returned on that rank for one of its regions.
inline void check_rmr(const rmr_t& rmr, int rank, const proto::core& core) {
  if (core.seal.check_of(rmr.base, rmr.opaque_rkey, rank) != rmr.mr_base) [[unlikely]]
    throw_changed_rmr(rmr, rank);
}

// Where an operation is to take place in a peer's memory.
struct remote_span {
  int rank;
  const rmr_t& rmr;
  std::uint64_t offset;     // from the start of the region
  std::size_t size;         // bytes
  const char* offset_name;  // the argument's, for people
};
[[noreturn]] LCI_COLD void throw_unknown_key(const remote_span& at);
[[noreturn]] LCI_COLD void throw_out_of_region(const remote_span& at, std::size_t region);

// Fills `view`. False: the peer is not connected yet, so its registrations cannot be seen; the
// connection of that device is being made. Throws for a key that names nothing, and for a range
// outside the region.
inline bool check_remote(const remote_span& at, const proto::progress_engine& engine,
                         net::remote_view& view) {
  view = engine.fabric.check_remote(at.rank, key_of(at.rmr), engine.index);
  using answer = net::remote_view::answer;
  if (view.what == answer::not_connected) return false;
  if (view.what == answer::unknown_key) throw_unknown_key(at);
  if (at.offset > view.size || at.size > view.size - at.offset) throw_out_of_region(at, view.size);
  return true;
}

}  // namespace lci::api
