// Which way the data of a rendezvous goes when GPU memory is at one end or both: can the network,
// or a copy engine, reach from end to end, and what if not. Threads: as the rendezvous.
#pragma once

#include <optional>
#include <string>

#include "lci/proto/host/accelerator_hook.hpp"
#include "lci/proto/host/rendezvous.hpp"

namespace lci::proto::gpu {

struct context;

// The region of a receive into GPU memory that peers can map, under its own name or a new one.
// Nothing: it has to be staged, and the sentence says why.
std::optional<mem::region> region_to_share(context& ctx, const recv_plan& plan,
                                           std::string& why_not);
// See accelerator_hook.
target_way find_target(context& ctx, wire::name sender, const recv_plan& plan, mem::region& target,
                       network_key& key, std::string& why_not);
// Whether data may go through host memory. False: gpu_path forbids it, and both ends were told.
bool may_stage(context& ctx, wire::name sender, const recv_plan& plan, const std::string& why_not);
// GPU memory that the network does not handle goes to where the receiver says by a copy engine of
// ours.
write_way prepare_write(context& ctx, wire::name self, send_side& side) noexcept;

}  // namespace lci::proto::gpu
