// run: carries out a plan by means of the public interface, and checks the arguments of
// collectives.
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

void check_algorithm_number(const char* operation, int algorithm);

// Each throws argument_error with the name of the operation, the argument, its value and the legal
// range.
void check_root(const char* operation, int root, int n);
void check_op(const char* operation, reduce_op_t op);
// `algorithm`: of any of the enumerations, all of which have the same values.
template <class Algorithm>
void check_algorithm(const char* operation, Algorithm algorithm) {
  static_assert(static_cast<int>(Algorithm::none) == 0 && static_cast<int>(Algorithm::ring) == 3);
  check_algorithm_number(operation, static_cast<int>(algorithm));
}
void check_buffer(const char* operation, const char* argument, const void* buffer, size_t size);
// a * b bytes, which must fit the address space.
size_t checked_product(const char* operation, size_t a, size_t b);
// The option `ring_nsteps`, or n - 1.
int ring_steps(const char* operation, option_t<int> given, int n);

}  // namespace lci::coll
