// Answers the launcher that asks who waits for what: docs/decisions/0038-who-waits-for-what.md.
// A signal handler, because a rank may be anywhere: in a call that waits, in one of the system, in
// a loop of its own. It starts no thread and holds no descriptor; without lcrun it is not there.
// Threads: listen(), end_listen(), watch() and unwatch() as what makes and frees runtimes. Always
// true: a program that has a handler for the signal keeps it, and is not asked.
#pragma once

namespace lci {
class runtime_impl_t;
}

namespace lci::runtime {

// From now on this process answers; before it joins the job, which may be what it waits for.
void listen() noexcept;
void end_listen() noexcept;
// It is whole; it is about to end. More than 16 at a time are left out.
void watch(runtime_impl_t& one) noexcept;
void unwatch(runtime_impl_t& one) noexcept;

}  // namespace lci::runtime
