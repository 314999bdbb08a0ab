// base/owned under the checker, without the registry of threads: a test gives its threads their
// records. Behind checker.hpp, whose words come first.
#pragma once

#include "lci/base/owned.cpp"

namespace lci::base::detail {
constinit thread_local std::uint32_t thread_id_tls = NO_THREAD_ID;
constinit thread_local thread_record* thread_record_tls = nullptr;
std::uint32_t assign_thread_id() noexcept { std::abort(); }
}  // namespace lci::base::detail

void operator delete(void* p, std::size_t) noexcept { ::operator delete(p); }
void operator delete[](void* p, std::size_t) noexcept { ::operator delete[](p); }
