// What the library exports about devices, ports and memory; queues are in queues.cpp.
#include <arpa/inet.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tests/support/fake_ibv/state.hpp"

namespace lci::test::fake {

bool gid_at(const fake_port& port, int index, ibv_gid& out) {
  out = {};
  const std::string& text = port.gids[static_cast<std::size_t>(index)].address;
  return !text.empty() && inet_pton(AF_INET6, text.c_str(), out.raw) == 1;
}

namespace {

// All memory at once is not counted.
std::uint64_t counted(std::size_t size) { return size != ~std::size_t{0} ? size : 0; }

const fake_port* port_of(ibv_context* c, unsigned number) {
  const auto& ports = card_of(c).about->ports;
  return number == 0 || number > ports.size() ? nullptr : &ports[number - 1];
}

ibv_mr* make_region(ibv_pd* pd, void* at, std::size_t size, std::uint64_t iova, unsigned access) {
  network& all = net();
  const fake_device& about = *card_of(pd->context).about;
  const bool is_implicit = at == nullptr && size == ~std::size_t{0};
  if ((access & IBV_ACCESS_ON_DEMAND) != 0 &&
      !(is_implicit ? about.has_implicit_paging : about.has_paging)) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  if (size == 0 || size > about.max_mr_size ||
      ((access & IBV_ACCESS_REMOTE_WRITE) != 0 && (access & IBV_ACCESS_LOCAL_WRITE) == 0)) {
    errno = EINVAL;
    return nullptr;
  }
  if (!is_implicit && all.registered + size > all.config.most_registered) {
    errno = ENOMEM;
    return nullptr;
  }
  auto* const r = new region{};
  r->context = pd->context;
  r->pd = pd;
  r->addr = at;
  r->length = size;
  r->iova = iova;
  r->access = access;
  // Two keys that are never the same, and never come again.
  r->lkey = all.next_key++ << 1;
  r->rkey = r->lkey | 1u;
  all.by_lkey[r->lkey] = r;
  all.by_rkey[r->rkey] = r;
  ++domain_of(pd).users;
  ++all.live.mrs;
  all.registered += counted(size);
  return r;
}

}  // namespace
}  // namespace lci::test::fake

using namespace lci::test;        // NOLINT: the names of the library follow
using namespace lci::test::fake;  // NOLINT

// Under the lock from here to the end of the function; leaves it where a test wants a failure, or
// where the card of the context behind, if there is one, was taken out.
#define LCI_FAKE_ENTER(name, failed, ...)                                       \
  const std::lock_guard lock(net().lock);                                       \
  if (const int wanted = enter(name __VA_OPT__(, ) __VA_ARGS__); wanted != 0) { \
    errno = wanted;                                                             \
    return failed;                                                              \
  }

extern "C" {

ibv_device** ibv_get_device_list(int* count) {
  LCI_FAKE_ENTER("ibv_get_device_list", nullptr)
  auto** const out = new ibv_device* [net().cards.size() + 1] {};
  for (std::size_t i = 0; i < net().cards.size(); ++i) out[i] = net().cards[i].get();
  if (count != nullptr) *count = static_cast<int>(net().cards.size());
  ++net().live.lists;
  return out;
}

void ibv_free_device_list(ibv_device** list) {
  const std::lock_guard lock(net().lock);
  enter("ibv_free_device_list");
  delete[] list;
  --net().live.lists;
}

ibv_context* ibv_open_device(ibv_device* device) {
  LCI_FAKE_ENTER("ibv_open_device", nullptr)
  auto* const made = new open_card{};
  made->about = static_cast<card*>(device)->about;
  offer_newer_calls(*made);
  offer_paging(*made);
  ibv_context& c = made->context;
  c.device = device;
  c.async_fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
  c.cmd_fd = -1;
  c.num_comp_vectors = 1;
  c.ops.poll_cq = poll_cq;
  c.ops.post_send = post_send;
  c.ops.post_recv = post_recv;
  c.ops.post_srq_recv = post_srq_recv;
  net().contexts.push_back(made);
  ++net().live.contexts;
  return &c;
}

int ibv_close_device(ibv_context* c) {
  LCI_FAKE_ENTER("ibv_close_device", wanted)
  open_card* const closed = &card_of(c);
  std::erase(net().contexts, closed);
  close(c->async_fd);
  delete closed;
  --net().live.contexts;
  return 0;
}

int ibv_query_device(ibv_context* c, ibv_device_attr* out) {
  LCI_FAKE_ENTER("ibv_query_device", wanted, c)
  const fake_device& about = *card_of(c).about;
  *out = {};
  out->max_mr_size = about.max_mr_size;
  out->max_qp = 1 << 17;
  out->max_qp_wr = about.max_qp_wr;
  out->max_sge = 30;
  out->max_cq = 1 << 16;
  out->max_cqe = about.max_cqe;
  out->max_srq_wr = about.max_srq_wr;
  out->max_srq_sge = 31;
  out->max_qp_rd_atom = about.max_qp_rd_atom;
  out->max_qp_init_rd_atom = about.max_qp_init_rd_atom;
  out->phys_port_cnt = static_cast<std::uint8_t>(about.ports.size());
  return 0;
}

int ibv_query_port(ibv_context* c, std::uint8_t number, _compat_ibv_port_attr* to) {
  LCI_FAKE_ENTER("ibv_query_port", wanted, c)
  const fake_port* const port = port_of(c, number);
  if (port == nullptr) return EINVAL;
  ibv_port_attr out{};
  out.state = port->state;
  out.max_mtu = out.active_mtu = IBV_MTU_4096;
  out.gid_tbl_len = static_cast<int>(port->gids.size());
  out.max_msg_sz = card_of(c).about->max_msg_sz;
  out.lid = port->lid;
  out.active_width = port->width;
  out.active_speed = port->speed;
  out.link_layer = port->link_layer;
  // The caller's structure may be as old as the first version of this call: no later field.
  std::memcpy(static_cast<void*>(to), &out, offsetof(ibv_port_attr, port_cap_flags2));
  return 0;
}

int ibv_query_gid(ibv_context* c, std::uint8_t number, int index, ibv_gid* out) {
  LCI_FAKE_ENTER("ibv_query_gid", -1, c)
  const fake_port* const port = port_of(c, number);
  if (port == nullptr || index < 0 || static_cast<std::size_t>(index) >= port->gids.size())
    return -1;
  gid_at(*port, index, *out);
  return 0;
}

#ifndef LCI_FAKE_IBV_OLD
ssize_t _ibv_query_gid_table(ibv_context* c, ibv_gid_entry* out, std::size_t most, std::uint32_t,
                             std::size_t) {
  LCI_FAKE_ENTER("ibv_query_gid_table", -wanted, c)
  std::size_t count = 0;
  const auto& ports = card_of(c).about->ports;
  for (std::size_t p = 0; p < ports.size(); ++p)
    for (std::size_t i = 0; i < ports[p].gids.size(); ++i) {
      ibv_gid gid;
      if (!gid_at(ports[p], static_cast<int>(i), gid)) continue;
      if (count == most) return -EINVAL;
      out[count++] = {gid, static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(p + 1),
                      ports[p].gids[i].type, 0};
    }
  return static_cast<ssize_t>(count);
}

ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* at, std::size_t size, std::uint64_t iova,
                         unsigned access) {
  LCI_FAKE_ENTER("ibv_reg_mr_iova2", nullptr, pd->context)
  return make_region(pd, at, size, iova, access);
}

// The memory behind the descriptor is a device's: nothing is moved there. As in the kernel, the
// addresses and the places in the descriptor agree within a page.
ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* pd, std::uint64_t offset, std::size_t size, std::uint64_t iova,
                          int fd, int access) {
  LCI_FAKE_ENTER("ibv_reg_dmabuf_mr", nullptr, pd->context)
  struct stat about {};
  if (fstat(fd, &about) != 0) return nullptr;
  if (iova % 4096 != offset % 4096 || offset + size > static_cast<std::uint64_t>(about.st_size)) {
    errno = EINVAL;
    return nullptr;
  }
  return make_region(pd, nullptr, size, iova, static_cast<unsigned>(access));
}
#endif

ibv_mr* ibv_reg_mr(ibv_pd* pd, void* at, std::size_t size, int access) {
  LCI_FAKE_ENTER("ibv_reg_mr", nullptr, pd->context)
  return make_region(pd, at, size, reinterpret_cast<std::uintptr_t>(at),
                     static_cast<unsigned>(access));
}

int ibv_dereg_mr(ibv_mr* mr) {
  LCI_FAKE_ENTER("ibv_dereg_mr", wanted)
  const auto at = net().by_lkey.find(mr->lkey);
  if (at == net().by_lkey.end() || at->second != mr) {
    complain("what is not registered was deregistered");
    return EINVAL;
  }
  net().by_rkey.erase(mr->rkey);
  net().by_lkey.erase(at);
  --domain_of(mr->pd).users;
  --net().live.mrs;
  net().registered -= counted(mr->length);
  delete static_cast<region*>(mr);
  return 0;
}

ibv_pd* ibv_alloc_pd(ibv_context* c) {
  LCI_FAKE_ENTER("ibv_alloc_pd", nullptr, c)
  auto* const out = new domain{};
  out->context = c;
  ++net().live.pds;
  return out;
}

int ibv_dealloc_pd(ibv_pd* pd) {
  LCI_FAKE_ENTER("ibv_dealloc_pd", wanted)
  domain& d = domain_of(pd);
  if (d.users != 0) return EBUSY;
  if (d.parent != nullptr) --d.parent->users;
  if (d.threads != nullptr) --d.threads->users;
  delete &d;
  --net().live.pds;
  return 0;
}

ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr* to) {
  LCI_FAKE_ENTER("ibv_create_ah", nullptr, pd->context)
  const fake_port* const port = port_of(pd->context, to->port_num);
  if (port == nullptr || (to->is_global != 0 && to->grh.sgid_index >= port->gids.size())) {
    errno = EINVAL;
    return nullptr;
  }
  auto* const out = new address{};
  out->context = pd->context;
  out->pd = pd;
  out->to = *to;
  ++domain_of(pd).users;
  ++net().live.ahs;
  return out;
}

int ibv_destroy_ah(ibv_ah* ah) {
  LCI_FAKE_ENTER("ibv_destroy_ah", wanted)
  --domain_of(ah->pd).users;
  delete static_cast<address*>(ah);
  --net().live.ahs;
  return 0;
}

int ibv_get_async_event(ibv_context* c, ibv_async_event* out) {
  std::uint64_t one = 0;
  if (read(c->async_fd, &one, sizeof(one)) != sizeof(one)) {
    const std::lock_guard lock(net().lock);
    if (card_of(c).is_removed) errno = EIO;
    return -1;
  }
  LCI_FAKE_ENTER("ibv_get_async_event", -1)
  auto& events = card_of(c).events;
  *out = events.front();
  events.pop_front();
  ++net().live.unacknowledged_events;
  return 0;
}

void ibv_ack_async_event(ibv_async_event*) {
  const std::lock_guard lock(net().lock);
  enter("ibv_ack_async_event");
  --net().live.unacknowledged_events;
}

}  // extern "C"
