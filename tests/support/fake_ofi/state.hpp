// What the fake library knows. Threads: everything under the lock of state().
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/fake_ofi/fake_ofi.hpp"
#include "tests/support/library_lock.hpp"

#undef count_of
#undef container_of

namespace lci::test::fabric_model {

struct domain_object;
struct endpoint_object;

struct fabric_object {
  fid_fabric face{};
  unsigned children = 0;
};
struct domain_object {
  fid_domain face{};
  fabric_object* on = nullptr;
  unsigned children = 0;
  std::uint64_t next_key = 100;
  bool takes_gpu_memory = false;  // it was opened for that
};
struct memory_object {
  fid_mr face{};
  domain_object* on = nullptr;
  endpoint_object* bound = nullptr;
  std::byte* begin = nullptr;
  std::size_t size = 0;
  std::uint64_t access = 0;
  int iface = 0;
  int device = 0;
  unsigned number = 0;  // of all that were made
  bool is_enabled = true;
};
struct queue_object {
  fid_cq face{};
  domain_object* on = nullptr;
  unsigned users = 0;
  std::deque<fi_cq_data_entry> done;
  std::deque<fi_cq_err_entry> failed;
  std::vector<endpoint_object*> endpoints;
};
struct addresses_object {
  fid_av face{};
  domain_object* on = nullptr;
  unsigned users = 0;
  std::vector<std::string> names;
};
// Something that waits at the endpoint which it is for.
struct item {
  enum class kind { message, write, read } what = kind::message;
  endpoint_object* from = nullptr;  // null: it has been closed
  void* context = nullptr;          // null: no completion is wanted
  std::vector<std::byte> bytes;
  std::uint64_t data = 0;
  bool has_data = false;
  bool is_done_late = false;  // its completion comes when it has been carried out
  std::uint64_t address = 0, key = 0;
  std::size_t size = 0;
  void* into = nullptr;  // of a read
  unsigned wait = 0;     // reads of the queue until it may be carried out
};
struct endpoint_object {
  fid_ep face{};
  domain_object* on = nullptr;
  queue_object* queue = nullptr;
  addresses_object* list = nullptr;
  std::string name;
  bool is_enabled = false;
  std::deque<item> inbox;
  struct receive {
    void* at;
    std::size_t size;
    void* context;
  };
  std::deque<receive> receives;
};

class model final : public fake_ofi {
 public:
  model();
  void reset(const fake_ofi_config& config) override;
  void reset_as_environment_says() override { reset(fake_ofi_config::from_environment()); }
  std::size_t live() const override;
  std::vector<fake_registration> gpu_registrations() const override;
  std::vector<std::string> take_complaints() override;
  std::size_t calls(const std::string& name) const override;
  void fail(const std::string& name, unsigned nth, int code, unsigned times) override;
  void cut(const std::string& part, int code) override;
  void call_around(void (*begin)(), void (*end)()) override { lock.call_around(begin, end); }

  // A call came: 0, or what it answers.
  int enter(const char* name);
  void complain(const std::string& what);
  // A post: 0, or FI_EAGAIN now and then.
  int enter_post(const char* name);
  void complete(endpoint_object& at, void* context, std::uint64_t flags, std::size_t size,
                std::uint64_t data);
  void complete_with(endpoint_object& at, void* context, int code);
  endpoint_object* find(const std::string& name);
  int cut_code(const std::string& name) const;
  // 0: that endpoint can be reached; else how what is posted to it ends.
  int lost_with(const endpoint_object& from, fi_addr_t to);
  // Names as the caller sees them, and back.
  std::string address_of(const std::string& name) const;
  std::string name_at(const void* address) const;
  memory_object* find_key(const endpoint_object& at, std::uint64_t key);

  fake_ofi_config config;
  mutable library_lock<std::recursive_mutex> lock;
  std::set<void*> objects;
  std::map<std::string, endpoint_object*> endpoints;
  std::set<memory_object*> memories;
  std::set<void*> contexts;  // that the library has
  unsigned names = 0;
  unsigned registrations = 0;  // made ever

 private:
  struct failure {
    unsigned left;
    int code;
    unsigned times;
  };
  std::map<std::string, std::size_t> calls_;
  std::map<std::string, failure> failures_;
  std::map<std::string, int> cuts_;
  std::vector<std::string> complaints_;
  bool collects_ = false;
  unsigned posts_ = 0;
  std::mt19937 random_;
};

model& state();

// Of an object that has no more than these.
inline fi_ops calls_of(int (*close)(fid*), int (*bind)(fid*, fid*, std::uint64_t) = nullptr,
                       int (*control)(fid*, int, void*) = nullptr) {
  fi_ops out{};
  out.size = sizeof(out);
  out.close = close;
  out.bind = bind;
  out.control = control;
  return out;
}

// By part of the library.
void fill(fid_domain& face);
void fill_endpoint(fid_ep& face);
int open_memory(fid* on, const fi_mr_attr* attr, std::uint64_t flags, fid_mr** out, void* context);
// What waits at the endpoints of that queue is carried out.
void progress(queue_object& queue);
void fail_inbox(endpoint_object& of, int code);

}  // namespace lci::test::fabric_model
