// The kernel for atomic operations without a GPU: a step is one request of the launch, chosen by
// the seed, as its threads have no order. A word that the kernel could not reach (of the host, of
// another GPU) is an illegal address.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "backends/cuda/atomic_command.hpp"
#include "lci/wqe/apply_change.hpp"
#include "tests/support/mock_cuda/state.hpp"

namespace lci::mock {

namespace {

struct atomics_run {
  cuda::atomic_layout::arguments with{};
  std::vector<std::uint32_t> left;  // requests, in the order in which they come
};

atomics_run& run_of(state& s, operation& what) {
  if (what.progress == nullptr) {
    auto made = std::make_shared<atomics_run>();
    std::memcpy(&made->with, what.parameter.data(), sizeof(made->with));
    made->left.resize(made->with.count);
    std::iota(made->left.begin(), made->left.end(), 0u);
    std::shuffle(made->left.begin(), made->left.end(), s.random);
    what.progress = std::move(made);
  }
  return *static_cast<atomics_run*>(what.progress.get());
}

result carry_out(state& s, int gpu, cuda::atomic_layout::request& one) {
  ++s.counts[cuda::atomic_layout::KERNEL];
  const block* const there = s.find(one.at, one.change.size);
  if (there == nullptr || there->gpu != gpu || there->kind == test::mock_memory::pinned ||
      one.at % one.change.size != 0 || !is_sound(one.change))
    return result::illegal_address;
  one.old = wqe::apply(one.change, static_cast<void*>(s.resolve(one.at, one.change.size)));
  return result::success;
}

}  // namespace

bool step_atomic_words(state& s, stream& on, operation& what, result& code) {
  atomics_run& run = run_of(s, what);
  if (!run.left.empty()) {
    code = carry_out(s, on.owner->gpu, run.with.shared->requests[run.left.back()]);
    run.left.pop_back();
    return code != result::success;
  }
  // edge cuda.atomics, as the kernel's
  __atomic_store_n(&run.with.shared->done, run.with.number, __ATOMIC_RELEASE);
  return true;
}

}  // namespace lci::mock
