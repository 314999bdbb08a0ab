// The arguments of collectives, checked before anything is sent. Called by: the entry points
// lci::detail::<collective>(). Threads: any. Always true: what is wrong is an argument_error with
// the name of the operation, the argument, its value and the legal range.
#pragma once

#include <cstddef>

#include "lci.hpp"

namespace lci::coll {

void check_algorithm_number(const char* operation, int algorithm);

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
