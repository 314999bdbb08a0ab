// Fabrics, domains, address lists, completion queues and registrations.
#include <algorithm>
#include <cstring>
#include <mutex>

#include "tests/support/fake_ofi/state.hpp"

namespace lci::test::fabric_model {
namespace {

using guard = std::lock_guard<test::library_lock<std::recursive_mutex>>;

// A face is the first member of its object.
template <class T>
T& of(fid* face) {
  return *reinterpret_cast<T*>(face);
}

template <class T>
void forget(T& object) {
  state().objects.erase(&object);
  delete &object;
}

int close_fabric(fid* face) {
  const guard lock(state().lock);
  auto& it = of<fabric_object>(face);
  if (it.children != 0) {
    state().complain("a fabric is closed before its domain");
    return -FI_EBUSY;
  }
  forget(it);
  return 0;
}
fi_ops fabric_ops = calls_of(close_fabric);

int close_domain(fid* face) {
  const guard lock(state().lock);
  auto& it = of<domain_object>(face);
  if (it.children != 0) {
    state().complain("a domain is closed before " + std::to_string(it.children) +
                     " of its objects");
    return -FI_EBUSY;
  }
  --it.on->children;
  forget(it);
  return 0;
}
fi_ops domain_ops = calls_of(close_domain);

int open_domain(fid_fabric* on, fi_info* info, fid_domain** out, void*) {
  const guard lock(state().lock);
  if (const int code = state().enter("fi_domain"); code != 0) return code;
  auto* const made = new domain_object;
  made->on = &of<fabric_object>(&on->fid);
  made->takes_gpu_memory = (info->caps & FI_HMEM) != 0;
  ++made->on->children;
  made->face.fid = {FI_CLASS_DOMAIN, nullptr, &domain_ops};
  fill(made->face);
  state().objects.insert(made);
  *out = &made->face;
  return 0;
}
fi_ops_fabric fabric_calls{};

int close_list(fid* face) {
  const guard lock(state().lock);
  auto& it = of<addresses_object>(face);
  if (it.users != 0) state().complain("an address list is closed before its endpoint");
  --it.on->children;
  forget(it);
  return 0;
}
fi_ops list_ops = calls_of(close_list);

int insert(fid_av* face, const void* names, std::size_t count, fi_addr_t* out, std::uint64_t,
           void*) {
  const guard lock(state().lock);
  if (const int code = state().enter("fi_av_insert"); code != 0) return code;
  auto& it = of<addresses_object>(&face->fid);
  it.names.push_back(state().name_at(names));
  out[0] = it.names.size() - 1;
  return static_cast<int>(count);
}
fi_ops_av list_calls{};

int open_list(fid_domain* on, fi_av_attr*, fid_av** out, void*) {
  const guard lock(state().lock);
  if (const int code = state().enter("fi_av_open"); code != 0) return code;
  auto* const made = new addresses_object;
  made->on = &of<domain_object>(&on->fid);
  ++made->on->children;
  list_calls.size = sizeof(list_calls);
  list_calls.insert = insert;
  made->face.fid = {FI_CLASS_AV, nullptr, &list_ops};
  made->face.ops = &list_calls;
  state().objects.insert(made);
  *out = &made->face;
  return 0;
}

int close_queue(fid* face) {
  const guard lock(state().lock);
  auto& it = of<queue_object>(face);
  if (it.users != 0) state().complain("a completion queue is closed before its endpoint");
  --it.on->children;
  forget(it);
  return 0;
}
fi_ops queue_ops = calls_of(close_queue);

ssize_t read_queue(fid_cq* face, void* to, std::size_t most) {
  const guard lock(state().lock);
  if (const int code = state().enter("fi_cq_read"); code != 0) return code;
  auto& it = of<queue_object>(&face->fid);
  progress(it);
  if (!it.failed.empty()) return -FI_EAVAIL;
  if (it.done.empty()) return -FI_EAGAIN;
  const std::size_t n = std::min(most, it.done.size());
  std::copy_n(it.done.begin(), n, static_cast<fi_cq_data_entry*>(to));
  it.done.erase(it.done.begin(), it.done.begin() + static_cast<std::ptrdiff_t>(n));
  return static_cast<ssize_t>(n);
}

ssize_t read_error(fid_cq* face, fi_cq_err_entry* to, std::uint64_t) {
  const guard lock(state().lock);
  if (const int code = state().enter("fi_cq_readerr"); code != 0) return code;
  auto& it = of<queue_object>(&face->fid);
  if (it.failed.empty()) return -FI_EAGAIN;
  *to = it.failed.front();
  it.failed.pop_front();
  return 1;
}
fi_ops_cq queue_calls{};

int open_queue(fid_domain* on, fi_cq_attr* attr, fid_cq** out, void*) {
  const guard lock(state().lock);
  if (const int code = state().enter("fi_cq_open"); code != 0) return code;
  if (attr->format != FI_CQ_FORMAT_DATA) state().complain("another format of completions");
  auto* const made = new queue_object;
  made->on = &of<domain_object>(&on->fid);
  ++made->on->children;
  queue_calls.size = sizeof(queue_calls);
  queue_calls.read = read_queue;
  queue_calls.readerr = read_error;
  made->face.fid = {FI_CLASS_CQ, nullptr, &queue_ops};
  made->face.ops = &queue_calls;
  state().objects.insert(made);
  *out = &made->face;
  return 0;
}

int close_memory(fid* face) {
  const guard lock(state().lock);
  auto& it = of<memory_object>(face);
  state().memories.erase(&it);
  --it.on->children;
  forget(it);
  return 0;
}
int bind_memory(fid* face, fid* to, std::uint64_t) {
  const guard lock(state().lock);
  if (const int code = state().enter("fi_mr_bind"); code != 0) return code;
  of<memory_object>(face).bound = &of<endpoint_object>(to);
  return 0;
}
int control_memory(fid* face, int command, void*) {
  const guard lock(state().lock);
  if (const int code = state().enter("fi_mr_enable"); code != 0) return code;
  auto& it = of<memory_object>(face);
  if (command != FI_ENABLE || it.bound == nullptr) return -FI_EINVAL;
  it.is_enabled = true;
  return 0;
}
fi_ops memory_ops = calls_of(close_memory, bind_memory, control_memory);

// As providers do that were not asked for such memory: they do not know that runtime.
bool takes(const domain_object& domain, const fi_mr_attr& attr) {
  return attr.iface == FI_HMEM_SYSTEM || domain.takes_gpu_memory;
}

int register_memory(fid* on, const fi_mr_attr* attr, std::uint64_t, fid_mr** out) {
  model& all = state();
  if (const int code = all.enter("fi_mr_regattr"); code != 0) return code;
  auto& domain = of<domain_object>(on);
  if (!takes(domain, *attr)) return -FI_ENOSYS;
  const auto limit = all.config.key_bytes < 8 ? (std::uint64_t{1} << 8 * all.config.key_bytes) : 0;
  auto* const made = new memory_object;
  made->on = &domain;
  made->begin = static_cast<std::byte*>(attr->mr_iov->iov_base);
  made->size = attr->mr_iov->iov_len;
  made->access = attr->access;
  made->iface = attr->iface;
  made->device = attr->iface == FI_HMEM_SYSTEM ? 0 : attr->device.cuda;
  made->number = all.registrations++;
  made->is_enabled = (all.config.mr_mode & FI_MR_ENDPOINT) == 0;
  const bool is_ours = (all.config.mr_mode & FI_MR_PROV_KEY) != 0;
  made->face.key = is_ours ? domain.next_key++ - 100 : attr->requested_key;
  made->face.mem_desc = made;
  const bool is_taken = std::any_of(all.memories.begin(), all.memories.end(), [&](auto* one) {
    return one->on == &domain && one->face.key == made->face.key;
  });
  if (is_taken || (limit != 0 && made->face.key >= limit)) {
    if (!is_taken) all.complain("a key is wider than keys are");
    delete made;
    return -FI_ENOKEY;
  }
  ++domain.children;
  made->face.fid = {FI_CLASS_MR, nullptr, &memory_ops};
  all.memories.insert(made);
  all.objects.insert(made);
  *out = &made->face;
  return 0;
}

int regattr(fid* on, const fi_mr_attr* attr, std::uint64_t flags, fid_mr** out) {
  const guard lock(state().lock);
  return register_memory(on, attr, flags, out);
}
fi_ops_mr memory_calls{};
fi_ops_domain domain_calls{};

}  // namespace

int open_endpoint(fid_domain* on, fi_info* info, fid_ep** out, void* context);

void fill(fid_domain& face) {
  domain_calls.size = sizeof(domain_calls);
  domain_calls.av_open = open_list;
  domain_calls.cq_open = open_queue;
  domain_calls.endpoint = open_endpoint;
  memory_calls.size = sizeof(memory_calls);
  memory_calls.regattr = regattr;
  face.ops = &domain_calls;
  face.mr = &memory_calls;
}

int open_fabric(fid_fabric** out) {
  const guard lock(state().lock);
  if (const int code = state().enter("fi_fabric"); code != 0) return code;
  auto* const made = new fabric_object;
  fabric_calls.size = sizeof(fabric_calls);
  fabric_calls.domain = open_domain;
  made->face.fid = {FI_CLASS_FABRIC, nullptr, &fabric_ops};
  made->face.ops = &fabric_calls;
  state().objects.insert(made);
  *out = &made->face;
  return 0;
}

}  // namespace lci::test::fabric_model

extern "C" __attribute__((visibility("default"))) int lci_fake_fabric(fi_fabric_attr*, fid_fabric**,
                                                                      void*) __asm__("fi_fabric");
int lci_fake_fabric(fi_fabric_attr*, fid_fabric** out, void*) {
  return lci::test::fabric_model::open_fabric(out);
}
