// GPU memory for networks: a dma-buf over a range, or leave to use the address itself. What is done
// with either is the network's business (mem/registration_ladder). Callers: domain. Threads: any.
// Always true: the driver is asked for a dma-buf only of cudaMalloc and VMM memory, never of
// managed memory (a driver was seen to crash) nor of a pool. A refusal is final only if it holds
// for every buffer of that GPU.
#pragma once

#include "backends/cuda/gpu.hpp"
#include "backends/cuda/pointer.hpp"
#include "lci/mem/network_export.hpp"

namespace lci::cuda {

// `what` covers [at, at + size). `pcie` asks for a mapping through the PCIe window (Data Direct).
mem::network_export export_dma_buf(gpu_list& gpus, const allocation& what, abi::device_ptr at,
                                   std::size_t size, bool pcie = false);

// Whether `what` may be registered by its address (nvidia_peermem); makes synchronous copies on it
// wait.
mem::network_pointer ready_pointer(gpu_list& gpus, const allocation& what);

}  // namespace lci::cuda
