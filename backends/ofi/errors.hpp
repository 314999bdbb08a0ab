// The library's codes in our words. Callers: the rest of this folder. Threads: any.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lci::ofi {

// "ofi: fi_endpoint on tcp;ofi_rxm eth0: Cannot allocate memory", as backend_error. Calls answer
// negative codes; either sign will do.
[[noreturn]] void throw_error(std::string_view call, std::string_view what, long code);
// What a failed operation means, and what a user may do about it.
std::string_view meaning_of(int code) noexcept;
// "now it cannot": the post changed nothing and may be tried again.
bool is_again(long code) noexcept;
inline std::string bytes_text(std::size_t size) { return std::to_string(size) + " bytes"; }
// Something could not be closed.
void report_teardown(int code) noexcept;

}  // namespace lci::ofi
