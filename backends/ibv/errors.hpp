// The library's codes in our words. Callers: the rest of this folder. Threads: any.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace lci::ibv {

// "ibv: ibv_create_qp on mlx5_0 (64 work requests): Cannot allocate memory", as backend_error.
[[noreturn]] void throw_error(std::string_view call, std::string_view what, int error);
// What a failed completion means, and what a user may do about it.
std::string_view meaning_of(ibv_wc_status status) noexcept;
inline std::string bytes_text(std::size_t size) { return std::to_string(size) + " bytes"; }
// Something could not be destroyed.
void report_teardown(int error) noexcept;

}  // namespace lci::ibv
