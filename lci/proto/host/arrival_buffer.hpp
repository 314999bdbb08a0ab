// Where an active message is put that does not stay in its packet. Callers: arrival and
// large_arrival. Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lci/base/platform.hpp"
#include "lci/mem/packet_pool.hpp"
#include "lci/proto/host/host_context.hpp"
#include "lci/proto/host/plans.hpp"

namespace lci::proto {

// Finds out where a buffer is that an allocator gave; starts the accelerator if it is a GPU's.
// Throws argument_error and backend_error.
mem::memory_place settle_place(host_context& host, const void* buffer);
// From the user's allocator, which may throw where we must not. A message of no bytes still
// delivers a buffer that can be freed. False: there is none.
bool take_buffer(host_context& host, std::size_t size, am_place& out) noexcept;
// How the message of that request is received at `at`. serial: of `to` when the message was taken
// up.
recv_plan plan_of_arrival(comp_impl_t& to, std::uint32_t serial, int rank, const wire::rts& request,
                          const am_place& at) noexcept;
// A message for no object.
LCI_COLD net::verdict drop_message(progress_engine& engine, int rank, rcomp_t rcomp) noexcept;

}  // namespace lci::proto
