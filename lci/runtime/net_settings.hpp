// What the attributes of a net context ask of a network, in the terms of the backend contract.
// Callers: net_context; lci_info. Threads: pure functions.
#pragma once

#include "lci/attr.hpp"
#include "lci/boot/local_rank.hpp"
#include "lci/net/backend.hpp"

namespace lci::runtime {

// The code that opens a network fills in the rest. number: of this process among those of its host,
// used if no launcher reports it.
inline net::fabric_config settings_of(const net_context_settings_t& attr, int number) {
  net::fabric_config config;
  config.local_rank = boot::find_local_rank(number);
  config.max_inject_wanted = attr.max_inject_size;
  config.device_name = attr.device_name;
  config.ofi_provider = attr.ofi_provider_name;
  config.ibv_gid_index = attr.ibv_gid_idx;
  config.ibv_wants_gid = attr.ibv_force_gid_auto_select;
  config.ibv_odp = attr.ibv_odp_strategy;
  config.ibv_prefetch = attr.ibv_prefetch_strategy;
  config.shm_single_copy = attr.shm_single_copy;
  config.shm_pipelined_copy = attr.shm_pipelined_copy;
  config.shm_single_copy_min = attr.shm_single_copy_min;
  return config;
}

}  // namespace lci::runtime
