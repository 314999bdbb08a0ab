// run: carries out a plan by means of the public interface.
//
// Called by: the entry points lci::detail::<collective>(), one per file of this folder.
// Threads: the collectives of one matching engine must be issued by one thread at a time and in the
// same order on every rank; once started, a plan is advanced by whichever thread completes the last
// transfer of a phase inside progress(). Always true: an object given by the caller is signalled
// exactly once, after the last step, or never if a step failed with an exception.
#pragma once

#include <cstddef>
#include <utility>

#include "lci.hpp"
#include "lci/coll/agreement.hpp"
#include "lci/coll/plan.hpp"

namespace lci::coll {

// The resources whose queues a plan uses.
struct resources_t {
  runtime_t runtime;         // never empty
  device_t device;           // empty: the default
  endpoint_t endpoint;       // empty: the default
  matching_engine_t engine;  // never empty: the collectives' own unless the caller named one
  comp_semantic_t semantic = comp_semantic_t::memory;
};

// `op` combines items; null for plans that combine nothing. An empty `comp` makes the call wait for
// the end, progressing the device; otherwise it returns after the start and `comp` is signalled at
// the end.
// `call`: what must be the same on all ranks, compared where that is enabled (agreement.hpp).
void run(plan_t&& plan, const resources_t& resources, reduce_op_t op, comp_t comp,
         const call_t& call);

// The resources that the options of a collective name.
resources_t resources_of(const detail::collective_args& args);

}  // namespace lci::coll
