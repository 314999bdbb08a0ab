// The part of libmlx5 that gives queues to kernels: DevX registers, direct view, raw work requests.
#include <infiniband/mlx5dv.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <utility>

#include "experimental/tests/support/fake_ibv/mlx5.hpp"
#include "tests/support/fake_ibv/state.hpp"

namespace lci::test::fake {
namespace {

constexpr std::size_t FAKE_PAGE = 4096;

class pages {
 public:
  explicit pages(std::size_t size)
      : size_((std::max<std::size_t>(size, 1) + FAKE_PAGE - 1) / FAKE_PAGE * FAKE_PAGE) {
    at_ = static_cast<std::byte*>(
        mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  }
  ~pages() { munmap(at_, size_); }
  pages(const pages&) = delete;
  pages& operator=(const pages&) = delete;
  std::byte* at() const { return at_; }

 private:
  std::size_t size_;
  std::byte* at_;
};

struct finished {
  std::uint64_t wr_id;
  ibv_wc_status status;
  std::uint32_t vendor_error, bytes;
};

struct direct_pair;
struct direct_face : mlx5dv_qp_ex {
  direct_pair* of = nullptr;
};

struct direct_pair : ibv_qp_ex {
  direct_face direct{};
  fake_direct_queue about;
  std::unique_ptr<pages> ring, record, uar, completions, consumer;
  bool has_started = false;
};

struct uar : mlx5dv_devx_uar {
  pages page{FAKE_PAGE};
};

struct everything {
  fake_mlx5_config config;
  std::map<ibv_qp*, std::unique_ptr<direct_pair>> pairs;
  std::map<ibv_cq*, std::deque<finished>> ended;
  std::map<ibv_cq*, std::uint32_t> entries;  // of those with a direct view
  std::vector<fake_raw_call> calls;
  std::size_t uars = 0;
};
everything& all() {
  static everything* const one = new everything;
  return *one;
}

// ---- posting ----

void note(direct_pair& of, const char* what) {
  all().calls.push_back({what, of.about.qpn, of.wr_id, {}});
}
direct_pair& pair_of(ibv_qp_ex* qp) { return *static_cast<direct_pair*>(qp); }

void wr_start(ibv_qp_ex* qp) {
  const std::lock_guard lock(net().lock);
  if (pair_of(qp).has_started) complain("a batch of work requests starts inside of one");
  pair_of(qp).has_started = true;
  note(pair_of(qp), "start");
}
int wr_complete(ibv_qp_ex* qp) {
  const std::lock_guard lock(net().lock);
  if (!pair_of(qp).has_started) complain("a batch of work requests ends that was not started");
  pair_of(qp).has_started = false;
  note(pair_of(qp), "complete");
  return enter("wr_complete");
}
void wr_abort(ibv_qp_ex* qp) {
  const std::lock_guard lock(net().lock);
  pair_of(qp).has_started = false;
  note(pair_of(qp), "abort");
}
void wr_raw_wqe(mlx5dv_qp_ex* direct, const void* wqe) {
  const std::lock_guard lock(net().lock);
  direct_pair* const of = static_cast<direct_face*>(direct)->of;
  if (!of->has_started) complain("a raw work request outside of a batch");
  const auto* const from = static_cast<const unsigned char*>(wqe);
  all().calls.push_back(
      {"raw", of->about.qpn, of->wr_id, {from, from + (from[7] & 0x3f) * std::size_t{16}}});
}

// ---- polling ----

std::deque<finished>& ended_on(ibv_cq_ex* cq) { return all().ended[ibv_cq_ex_to_cq(cq)]; }
void show(ibv_cq_ex* cq) {
  cq->wr_id = ended_on(cq).front().wr_id;
  cq->status = ended_on(cq).front().status;
}
int start_poll(ibv_cq_ex* cq, ibv_poll_cq_attr*) {
  const std::lock_guard lock(net().lock);
  if (ended_on(cq).empty()) return ENOENT;
  show(cq);
  return 0;
}
int next_poll(ibv_cq_ex* cq) {
  const std::lock_guard lock(net().lock);
  ended_on(cq).pop_front();
  if (ended_on(cq).empty()) {
    ended_on(cq).push_front({~std::uint64_t{0}, IBV_WC_SUCCESS, 0, 0});  // for end_poll()
    return ENOENT;
  }
  show(cq);
  return 0;
}
void end_poll(ibv_cq_ex* cq) {
  const std::lock_guard lock(net().lock);
  ended_on(cq).pop_front();
}
std::uint32_t read_byte_len(ibv_cq_ex* cq) {
  const std::lock_guard lock(net().lock);
  if (cq->status != IBV_WC_SUCCESS) complain("the length of what has failed is read");
  return ended_on(cq).front().bytes;
}
std::uint32_t read_vendor_err(ibv_cq_ex* cq) {
  const std::lock_guard lock(net().lock);
  return ended_on(cq).front().vendor_error;
}
void take_over(ibv_cq_ex* cq) {
  cq->start_poll = start_poll;
  cq->next_poll = next_poll;
  cq->end_poll = end_poll;
  cq->read_byte_len = read_byte_len;
  cq->read_vendor_err = read_vendor_err;
}

std::uint32_t power_of_two_from(std::uint32_t least) {
  std::uint32_t out = 1;
  while (out < least) out *= 2;
  return out;
}

void show_queue(direct_pair& of) {
  fake_direct_queue& about = of.about;
  of.ring = std::make_unique<pages>(std::size_t{about.blocks} * 64);
  of.record = std::make_unique<pages>(FAKE_PAGE);
  of.uar = std::make_unique<pages>(FAKE_PAGE);
  of.completions = std::make_unique<pages>(std::size_t{about.count} * 128);
  of.consumer = std::make_unique<pages>(FAKE_PAGE);
  about.ring = of.ring->at();
  about.record = reinterpret_cast<std::uint32_t*>(of.record->at());
  about.page_of_register = of.uar->at();
  about.target = of.uar->at() + 0x800;
  about.half = all().config.blueflame_half;
  about.completions = of.completions->at();
  about.entry_size = all().config.entry_size;
  about.consumer = reinterpret_cast<std::uint32_t*>(of.consumer->at());
}

class control final : public fake_mlx5 {
 public:
  void reset(const fake_mlx5_config& config) override {
    const std::lock_guard lock(net().lock);
    if (all().uars != 0) complain("registers of DevX are still alive");
    all() = everything{};
    all().config = config;
  }
  std::vector<fake_direct_queue> queues() override {
    const std::lock_guard lock(net().lock);
    std::vector<fake_direct_queue> out;
    for (auto& [qp, pair] : all().pairs) {
      const auto alive = net().pairs.find(pair->about.qpn);
      if (alive == net().pairs.end()) continue;
      out.push_back(pair->about);
      out.back().is_connected = alive->second->state == IBV_QPS_RTS;
      out.back().peer = out.back().is_connected ? alive->second->attr.dest_qp_num : 0;
    }
    return out;
  }
  std::vector<fake_raw_call> take_calls() override {
    const std::lock_guard lock(net().lock);
    return std::exchange(all().calls, {});
  }
  void finish(std::uint32_t qpn, std::uint64_t wr_id, ibv_wc_status status,
              std::uint32_t vendor_error, std::uint32_t bytes) override {
    const std::lock_guard lock(net().lock);
    const auto alive = net().pairs.find(qpn);
    if (alive != net().pairs.end())
      all().ended[alive->second->send_cq].push_back({wr_id, status, vendor_error, bytes});
  }
  fake_reach reach(std::uint32_t qpn, std::uint32_t rkey, std::uint64_t at,
                   std::size_t size) override {
    const std::lock_guard lock(net().lock);
    const auto here = net().pairs.find(qpn);
    if (here == net().pairs.end() || here->second->owner()->is_dead) return fake_reach::no_peer;
    const auto there = net().pairs.find(here->second->attr.dest_qp_num);
    if (there == net().pairs.end()) return fake_reach::no_peer;
    const queue_pair& p = *there->second;
    const bool is_ready = p.state == IBV_QPS_RTR || p.state == IBV_QPS_RTS;
    if (!is_ready || p.owner()->is_dead || p.attr.dest_qp_num != qpn ||
        p.attr.rq_psn != here->second->attr.sq_psn)
      return fake_reach::no_peer;
    // An mlx5 card has one number for both sides of a region, and own keys are local ones.
    const auto own = net().by_lkey.find(rkey);
    if (there->first == qpn && own != net().by_lkey.end()) rkey = own->second->rkey;
    return remote_region(p, rkey, at, size, IBV_ACCESS_REMOTE_WRITE) != nullptr
               ? fake_reach::yes
               : fake_reach::no_access;
  }
  std::size_t waiting_completions() override {
    const std::lock_guard lock(net().lock);
    std::size_t out = 0;
    for (auto& [cq, list] : all().ended) out += list.size();
    return out;
  }
  std::size_t live_uars() override {
    const std::lock_guard lock(net().lock);
    return all().uars;
  }
};

}  // namespace

bool is_mlx5() {
  const std::lock_guard lock(net().lock);
  return all().config.is_mlx5;
}

}  // namespace lci::test::fake

using namespace lci::test;        // NOLINT: the names of the library follow
using namespace lci::test::fake;  // NOLINT

#define LCI_FAKE_ENTER(name, failed)                   \
  {                                                    \
    const std::lock_guard lock(net().lock);            \
    if (const int wanted = enter(name); wanted != 0) { \
      errno = wanted;                                  \
      return failed;                                   \
    }                                                  \
  }

extern "C" {

fake_mlx5* lci_fake_mlx5() {
  static control one;
  return &one;
}

ibv_context* mlx5dv_open_device(ibv_device* device, mlx5dv_context_attr* attr) {
  LCI_FAKE_ENTER("mlx5dv_open_device", nullptr)
  if (attr->flags != MLX5DV_CONTEXT_FLAGS_DEVX) {
    errno = EINVAL;
    return nullptr;
  }
  return ibv_open_device(device);
}

mlx5dv_devx_uar* mlx5dv_devx_alloc_uar(ibv_context*, std::uint32_t) {
  LCI_FAKE_ENTER("mlx5dv_devx_alloc_uar", nullptr)
  auto* const out = new uar{};
  out->base_addr = out->page.at();
  out->reg_addr = out->page.at() + 0x800;
  const std::lock_guard lock(net().lock);
  ++all().uars;
  return out;
}

void mlx5dv_devx_free_uar(mlx5dv_devx_uar* gone) {
  const std::lock_guard lock(net().lock);
  --all().uars;
  delete static_cast<uar*>(gone);
}

ibv_cq_ex* mlx5dv_create_cq(ibv_context* c, ibv_cq_init_attr_ex* want, mlx5dv_cq_init_attr*) {
  LCI_FAKE_ENTER("mlx5dv_create_cq", nullptr)
  ibv_cq_ex* const made = ibv_create_cq_ex(c, want);
  if (made == nullptr) return nullptr;
  const std::lock_guard lock(net().lock);
  all().entries[ibv_cq_ex_to_cq(made)] =
      power_of_two_from(want->cqe + 1) / all().config.completions_divided;
  return made;
}

ibv_qp* mlx5dv_create_qp(ibv_context*, ibv_qp_init_attr_ex* want, mlx5dv_qp_init_attr* direct) {
  LCI_FAKE_ENTER("mlx5dv_create_qp", nullptr)
  const bool is_raw = (direct->comp_mask & MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS) != 0;
  if (is_raw) LCI_FAKE_ENTER("mlx5dv_create_qp for raw", nullptr)
  ibv_qp_init_attr plain{};
  plain.qp_type = want->qp_type;
  plain.send_cq = want->send_cq;
  plain.recv_cq = want->recv_cq;
  plain.cap = want->cap;
  ibv_qp* const made = ibv_create_qp(want->pd, &plain);
  if (made == nullptr) return nullptr;
  const std::lock_guard lock(net().lock);
  auto pair = std::make_unique<direct_pair>();
  pair->direct.of = pair.get();
  pair->about.qpn = made->qp_num;
  pair->about.create_flags = direct->create_flags;
  pair->about.send_ops = is_raw ? direct->send_ops_flags : 0;
  pair->about.max_send_wr = want->cap.max_send_wr;
  pair->about.blocks = power_of_two_from(want->cap.max_send_wr * 4);
  pair->about.count = all().entries[want->send_cq];
  all().ended[want->send_cq].clear();
  if (is_raw) {
    pair->wr_start = wr_start;
    pair->wr_complete = wr_complete;
    pair->wr_abort = wr_abort;
    if (all().config.has_raw) pair->direct.wr_raw_wqe = wr_raw_wqe;
    take_over(reinterpret_cast<ibv_cq_ex*>(want->send_cq));
    net().extended_pairs[made] = pair.get();
  } else {
    show_queue(*pair);
  }
  all().pairs[made] = std::move(pair);
  return made;
}

mlx5dv_qp_ex* mlx5dv_qp_ex_from_ibv_qp_ex(ibv_qp_ex* qp) { return &pair_of(qp).direct; }

int mlx5dv_init_obj(mlx5dv_obj* obj, std::uint64_t what) {
  const std::lock_guard lock(net().lock);
  if (const int wanted = enter("mlx5dv_init_obj"); wanted != 0) return wanted;
  if (what != (MLX5DV_OBJ_QP | MLX5DV_OBJ_CQ)) return EINVAL;
  const auto at = all().pairs.find(obj->qp.in);
  if (at == all().pairs.end()) return EINVAL;
  const fake_direct_queue& about = at->second->about;
  *obj->qp.out = {};
  obj->qp.out->dbrec = about.record;
  obj->qp.out->sq = {about.ring, about.blocks, all().config.stride};
  obj->qp.out->bf = {about.target, about.half};
  *obj->cq.out = {};
  obj->cq.out->buf = about.completions;
  obj->cq.out->dbrec = about.consumer;
  obj->cq.out->cqe_cnt = about.count;
  obj->cq.out->cqe_size = about.entry_size;
  return 0;
}

int mlx5dv_get_data_direct_sysfs_path(ibv_context*, char* to, std::size_t size) {
  const std::lock_guard lock(net().lock);
  if (const int wanted = enter("mlx5dv_get_data_direct_sysfs_path"); wanted != 0) return wanted;
  std::strncpy(to, "/sys/fake", size);
  return 0;
}

}  // extern "C"
