// libibverbs, loaded when it is needed and not before: one binary for machines with and without
// cards. What the C header does inline (posts, polls, the extended completion queue) goes through
// the context's own table and needs nothing from here. Callers: the rest of this folder. Threads:
// shared. Always true: once loaded it stays, since providers keep threads and memory of their own.
#pragma once

#include <infiniband/verbs.h>

#include <string>

// The header renames these to inline functions; here they are members of a table.
#undef ibv_reg_mr
#undef ibv_query_port

namespace lci::ibv {

// The entry points, under the names of the library without "ibv_". Null where an optional one is
// missing.
struct verbs {
  decltype(&::ibv_get_device_list) get_device_list = nullptr;
  decltype(&::ibv_free_device_list) free_device_list = nullptr;
  decltype(&::ibv_open_device) open_device = nullptr;
  decltype(&::ibv_close_device) close_device = nullptr;
  decltype(&::ibv_query_device) query_device = nullptr;
  decltype(&::ibv_query_port) query_port = nullptr;
  decltype(&::ibv_query_gid) query_gid = nullptr;
  decltype(&::ibv_alloc_pd) alloc_pd = nullptr;
  decltype(&::ibv_dealloc_pd) dealloc_pd = nullptr;
  decltype(&::ibv_reg_mr) reg_mr = nullptr;
  decltype(&::ibv_dereg_mr) dereg_mr = nullptr;
  decltype(&::ibv_create_cq) create_cq = nullptr;
  decltype(&::ibv_resize_cq) resize_cq = nullptr;
  decltype(&::ibv_destroy_cq) destroy_cq = nullptr;
  decltype(&::ibv_create_srq) create_srq = nullptr;
  decltype(&::ibv_destroy_srq) destroy_srq = nullptr;
  decltype(&::ibv_create_qp) create_qp = nullptr;
  decltype(&::ibv_modify_qp) modify_qp = nullptr;
  decltype(&::ibv_destroy_qp) destroy_qp = nullptr;
  decltype(&::ibv_create_ah) create_ah = nullptr;
  decltype(&::ibv_destroy_ah) destroy_ah = nullptr;
  decltype(&::ibv_get_async_event) get_async_event = nullptr;
  decltype(&::ibv_ack_async_event) ack_async_event = nullptr;
  // Optional: newer than rdma-core 25, or than the kernel.
  decltype(&::ibv_reg_mr_iova2) reg_mr_iova2 = nullptr;
  decltype(&::ibv_reg_dmabuf_mr) reg_dmabuf_mr = nullptr;
  decltype(&::_ibv_query_gid_table) query_gid_table = nullptr;
};

// The table, or null with the reason. The first call loads the library.
const verbs* find_library(std::string& why_not);
// The table, after find_library() found it.
const verbs& library() noexcept;

}  // namespace lci::ibv
