// How long a rank waits for the others in a bootstrap that has a limit. Callers: the readers of the
// variables of `tcp` and `file`; lci/runtime/debugger. Threads: like base/env.
#pragma once

#include <chrono>
#include <optional>
#include <string_view>

namespace lci::boot {

inline constexpr const char* DEBUGGER_VARIABLE = "LCI_INIT_ATTACH_DEBUGGER";

// How ranks wait for a debugger at their start; nothing if they do not.
std::optional<std::string_view> find_debugger_wait() noexcept;

// What the variable says, in seconds; else a minute. A day, the most that a variable can say, where
// ranks wait for a debugger: one that goes on first waits for those that are still looked at.
// Throws argument_error.
std::chrono::milliseconds read_wait_limit(const char* variable);

}  // namespace lci::boot
