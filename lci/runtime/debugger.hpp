// LCI_INIT_ATTACH_DEBUGGER: a process waits at its start until somebody debugs it. Threads: the one
// that initializes the library.
#pragma once

namespace lci::runtime {

// Unset, empty or "0": returns at once. "sigstop": stops by that signal. Else: waits for a tracer.
void wait_for_debugger(int rank) noexcept;

}  // namespace lci::runtime
