// A process is a member of its job once, however many parts of it ask: liblci, and liblct which C
// programs call. Each gets a bootstrap that stands for the one of the process.
// Callers: the runtime's global state and the companion C library.
// Threads: any; calls for the one bootstrap wait for each other, but news(), which answers nothing
// while another thread is in a call.
// Always true: the first to join opens the bootstrap, the last to go takes leave and closes it.
// What launchers can be joined with only once in a process stays until the process ends.
#pragma once

#include <memory>

#include "lci/boot/bootstrap.hpp"

namespace lci::boot {

// Throws what open_bootstrap() throws.
std::unique_ptr<bootstrap> join();
// Whether somebody is a member now.
bool is_joined() noexcept;

}  // namespace lci::boot
