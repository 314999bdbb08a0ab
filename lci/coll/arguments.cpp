#include "lci/coll/arguments.hpp"

#include <string>

#include "lci/coll/plan.hpp"

namespace lci::coll {

// A ring sends at most twice as many messages to its neighbour, and each has a number.
static constexpr int MOST_RING_STEPS = 1 << (NUMBER_BITS - 1);

void check_root(const char* operation, int root, int n) {
  if (root >= 0 && root < n) return;
  throw argument_error(std::string(operation) + ": root " + std::to_string(root) +
                       " is out of range, legal are 0 to " + std::to_string(n - 1));
}

void check_op(const char* operation, reduce_op_t op) {
  if (op != nullptr) return;
  throw argument_error(std::string(operation) + ": op is null, a function is needed");
}

void check_algorithm_number(const char* operation, int algorithm) {
  if (algorithm >= 0 && algorithm <= 3) return;
  throw argument_error(std::string(operation) + ": algorithm " + std::to_string(algorithm) +
                       " is out of range; legal are none (0), direct (1), tree (2) and ring (3)");
}

void check_buffer(const char* operation, const char* argument, const void* buffer, size_t size) {
  if (buffer != nullptr || size == 0)
    return detail::check_memory(operation, argument, buffer, size);
  throw argument_error(std::string(operation) + ": " + argument + " is null, but " +
                       std::to_string(size) + " bytes are to be moved; null is legal for 0 only");
}

size_t checked_product(const char* operation, size_t a, size_t b) {
  size_t product = 0;
  if (!__builtin_mul_overflow(a, b, &product)) return product;
  throw argument_error(std::string(operation) + ": " + std::to_string(a) + " times " +
                       std::to_string(b) + " bytes do not fit in memory, the limit is " +
                       std::to_string(SIZE_MAX));
}

int ring_steps(const char* operation, option_t<int> given, int n) {
  // 0 for the default, which is 0 where there is one rank and a program gives n - 1.
  const int by_default = n > 1 ? n - 1 : 1;
  const int given_steps = given.get_value_or(by_default);
  const int nsteps = given_steps == 0 ? by_default : given_steps;
  if (nsteps > 0 && nsteps <= MOST_RING_STEPS) return nsteps;
  throw argument_error(std::string(operation) + ": ring_nsteps " + std::to_string(nsteps) +
                       " is out of range, legal are 0 to " + std::to_string(MOST_RING_STEPS));
}

}  // namespace lci::coll
