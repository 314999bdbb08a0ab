// Answers a launcher that asks what this rank waits for: docs/decisions/0038-who-waits-for-what.md.
// It is a signal handler, because a rank may be anywhere: in a call that waits, in a system call,
// in a loop of its own. It starts no thread and holds no descriptor; without lcrun it is not
// installed.
// Threads: listen(), end_listen(), watch() and unwatch() by the code that makes and frees runtimes.
// Always true: a program that has a handler for the signal keeps it, and is not asked.
#pragma once

namespace lci {
class runtime_impl_t;
}

namespace lci::runtime {

// From now on this process answers. Called before it joins the job, since it may have to wait
// there.
void listen() noexcept;
void end_listen() noexcept;
// watch(): the runtime is complete; unwatch(): it is about to end. More than 16 at a time are left
// out.
void watch(runtime_impl_t& one) noexcept;
void unwatch(runtime_impl_t& one) noexcept;

}  // namespace lci::runtime
