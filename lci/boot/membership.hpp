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
// Whether somebody is a member now. Not in a process that only forked from one.
bool is_joined() noexcept;
// This process is none, but was forked from one that was. Asks no lock, which another thread of
// that one may have held.
bool is_forked() noexcept;

}  // namespace lci::boot
