// The backends and memory domains of this build, in order of preference: the one place that names
// them all. Callers: providers.cpp; tests that put something before each backend.
// Threads: immutable.
#pragma once

#include <array>
#include <cstddef>

#include "backends/cuda/domain.hpp"
#include "lci/config.hpp"
#ifdef LCI_USE_HIP
#include "backends/hip/domain.hpp"
#endif
#ifdef LCI_BACKEND_ENABLE_IBV
#include "backends/ibv/select.hpp"
#endif
#ifdef LCI_BACKEND_ENABLE_OFI
#include "backends/ofi/select.hpp"
#endif
#include "backends/shm/select.hpp"
#include "lci/mem/memory_domain.hpp"
#include "lci/net/provider.hpp"

namespace lci {

inline constexpr const net::provider* PROVIDERS[] = {
    &shm::PROVIDER,
#ifdef LCI_BACKEND_ENABLE_IBV
    &ibv::PROVIDER,
#endif
#ifdef LCI_BACKEND_ENABLE_OFI
    &ofi::PROVIDER,
#endif
};

inline constexpr const mem::memory_domain* MEMORY_DOMAINS[] = {
    &cuda::DOMAIN,
#ifdef LCI_USE_HIP
    &hip::DOMAIN,
#endif
};

// What such a list names, side by side.
template <class T, std::size_t N>
std::array<T, N> gather(const T* const (&list)[N]) {
  std::array<T, N> out{};
  for (std::size_t i = 0; i < N; ++i) out[i] = *list[i];
  return out;
}

}  // namespace lci
