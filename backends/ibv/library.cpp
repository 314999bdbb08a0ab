#include "backends/ibv/library.hpp"

#include <dlfcn.h>

#include <mutex>

namespace lci::ibv {
namespace {

verbs table;
bool is_loaded = false;
std::string problem;
std::once_flag once;

class resolver {
 public:
  explicit resolver(void* from) : from_(from) {}
  template <class Function>
  void required(const char* name, Function& out) {
    optional(name, out);
    if (out == nullptr && missing.empty()) missing = name;
  }
  template <class Function>
  void optional(const char* name, Function& out) {
    out = reinterpret_cast<Function>(dlsym(from_, name));
  }
  std::string missing;

 private:
  void* from_;
};

void resolve(resolver& r) {
  r.required("ibv_get_device_list", table.get_device_list);
  r.required("ibv_free_device_list", table.free_device_list);
  r.required("ibv_open_device", table.open_device);
  r.required("ibv_close_device", table.close_device);
  r.required("ibv_query_device", table.query_device);
  r.required("ibv_query_port", table.query_port);
  r.required("ibv_query_gid", table.query_gid);
  r.required("ibv_alloc_pd", table.alloc_pd);
  r.required("ibv_dealloc_pd", table.dealloc_pd);
  r.required("ibv_reg_mr", table.reg_mr);
  r.required("ibv_dereg_mr", table.dereg_mr);
  r.required("ibv_create_cq", table.create_cq);
  r.required("ibv_resize_cq", table.resize_cq);
  r.required("ibv_destroy_cq", table.destroy_cq);
  r.required("ibv_create_srq", table.create_srq);
  r.required("ibv_destroy_srq", table.destroy_srq);
  r.required("ibv_create_qp", table.create_qp);
  r.required("ibv_modify_qp", table.modify_qp);
  r.required("ibv_destroy_qp", table.destroy_qp);
  r.required("ibv_create_ah", table.create_ah);
  r.required("ibv_destroy_ah", table.destroy_ah);
  r.required("ibv_get_async_event", table.get_async_event);
  r.required("ibv_ack_async_event", table.ack_async_event);
  r.optional("ibv_reg_mr_iova2", table.reg_mr_iova2);
  r.optional("ibv_reg_dmabuf_mr", table.reg_dmabuf_mr);
  r.optional("_ibv_query_gid_table", table.query_gid_table);
}

void load() {
  void* const found = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
  if (found == nullptr) {
    const char* const why = dlerror();
    problem = std::string("libibverbs cannot be loaded (") + (why != nullptr ? why : "?") +
              "); it is in the package libibverbs1";
    return;
  }
  resolver r(found);
  resolve(r);
  if (r.missing.empty())
    is_loaded = true;
  else
    problem = "libibverbs.so.1 has no " + r.missing + ": it is too old";
}

}  // namespace

const verbs* find_library(std::string& why_not) {
  std::call_once(once, load);
  why_not = problem;
  return is_loaded ? &table : nullptr;
}

const verbs& library() noexcept { return table; }

}  // namespace lci::ibv
