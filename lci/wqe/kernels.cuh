// Kernels of one thread around the C face: a program that brings up a queue launches them before it
// writes its own. Callers: programs compiled by nvcc, as lci_cu_send_wqe<<<1, 1>>>(params); lci
// itself compiles them for lci_launch_send_wqe() and the others. Threads: the first one acts.
// Always true: what the call returns is in *params.answer when the kernel has ended.
#pragma once

#include "lci/wqe/c_face.h"

#ifndef LCI_WQE_KERNEL
#define LCI_WQE_KERNEL static __global__
#endif

static inline __device__ bool lci_wqe_is_first_thread() {
  return blockIdx.x == 0 && blockIdx.y == 0 && blockIdx.z == 0 && threadIdx.x == 0 &&
         threadIdx.y == 0 && threadIdx.z == 0;
}
static inline __device__ void lci_wqe_answer(int64_t* to, int64_t value) {
  if (to != nullptr) *to = value;
}

LCI_WQE_KERNEL void lci_cu_send_wqe(lci_send_wqe_params_t params) {
  if (lci_wqe_is_first_thread()) lci_wqe_answer(params.answer, lci_send_wqe(params));
}
LCI_WQE_KERNEL void lci_cu_recv_wqe(lci_recv_wqe_params_t params) {
  if (lci_wqe_is_first_thread()) lci_wqe_answer(params.answer, lci_recv_wqe(params));
}
LCI_WQE_KERNEL void lci_cu_db_ring(lci_db_ring_params_t params) {
  if (lci_wqe_is_first_thread()) lci_wqe_answer(params.answer, lci_db_ring(params));
}
LCI_WQE_KERNEL void lci_cu_cqe_poll(lci_cqe_poll_params_t params) {
  if (lci_wqe_is_first_thread()) lci_wqe_answer(params.answer, lci_cqe_poll(params));
}
