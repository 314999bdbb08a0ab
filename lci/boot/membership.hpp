// A process is a member of its job only once, however many parts of it ask: liblci, and liblct,
// which C programs call. Each gets a bootstrap that stands for the single one of the process.
// Callers: the runtime's global state and the companion C library.
// Threads: any; calls to the single bootstrap wait for each other, except news(), which returns
// nothing while another thread is in a call.
// Always true: the first user to join opens the bootstrap, the last one to go announces that the
// process leaves and closes it. Connections to launchers that a process can join only once stay
// until the process ends.
#pragma once

#include <memory>

#include "lci/boot/bootstrap.hpp"

namespace lci::boot {

// Throws what open_bootstrap() throws.
std::unique_ptr<bootstrap> join();
// Whether this process is a member now. False in a process that was only forked from one.
bool is_joined() noexcept;
// True if this process is not a member, but was forked from one. Takes no lock, since another
// thread of the parent may have held it.
bool is_forked() noexcept;

}  // namespace lci::boot
