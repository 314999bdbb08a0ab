#include "backends/hip/contexts.hpp"

#include <array>

#include "backends/hip/library.hpp"

namespace lci::hip {
namespace {

using cuda::abi::result;

constexpr int DEPTH = 8;  // a context_scope in a context_scope is as deep as it gets

struct stack {
  std::array<int, DEPTH> before;  // the device that was current
  std::array<int, DEPTH> pushed;
  int depth;
};
thread_local constinit stack here_tls{};

}  // namespace

result push_context(cuda::abi::context context) {
  stack& here = here_tls;
  if (context == nullptr || here.depth == DEPTH) return result::invalid_context;
  int before = 0;
  hipError_t answer = call().get_device(&before);
  if (answer == hipSuccess) answer = call().set_device(ordinal_of(context));
  if (answer != hipSuccess) return static_cast<result>(answer);
  const auto top = static_cast<std::size_t>(here.depth++);
  here.before[top] = before;
  here.pushed[top] = ordinal_of(context);
  return result::success;
}

result pop_context(cuda::abi::context* context) {
  stack& here = here_tls;
  if (here.depth == 0) return result::invalid_context;
  const auto top = static_cast<std::size_t>(--here.depth);
  *context = context_of(here.pushed[top]);
  return static_cast<result>(call().set_device(here.before[top]));
}

}  // namespace lci::hip
