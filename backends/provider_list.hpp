// The backends and memory domains of this build: the one place that names them all. Backends in the
// order of preference that LCI_NETWORK_BACKENDS has by default (providers.cpp). Callers:
// providers.cpp; tests that put something before each backend. Threads: immutable.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

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
#include "backends/not_built.hpp"
#include "backends/shm/select.hpp"
#include "lci/mem/memory_domain.hpp"
#include "lci/net/provider.hpp"

namespace lci {

// Whose backend is not here is in the list too, and says why.
struct no_ibv {
  static constexpr std::string_view NAME = "ibv", WHY = LCI_WHY_NO_IBV;
  static constexpr attr_backend_t BACKEND = attr_backend_t::ibv;
};
struct no_ofi {
  static constexpr std::string_view NAME = "ofi", WHY = LCI_WHY_NO_OFI;
  static constexpr attr_backend_t BACKEND = attr_backend_t::ofi;
};

inline constexpr const net::provider* PROVIDERS[] = {
    &shm::PROVIDER,
#ifdef LCI_BACKEND_ENABLE_IBV
    &ibv::PROVIDER,
#else
    &not_built<no_ibv>::PROVIDER,
#endif
#ifdef LCI_BACKEND_ENABLE_OFI
    &ofi::PROVIDER,
#else
    &not_built<no_ofi>::PROVIDER,
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
