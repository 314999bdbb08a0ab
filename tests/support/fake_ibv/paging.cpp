// The younger calls of a context: on-demand paging, what a card says of it and what it is told.
#include <cerrno>
#include <cstddef>

#include "tests/support/fake_ibv/state.hpp"

namespace lci::test::fake {
namespace {

int query_device_ex(ibv_context* c, const ibv_query_device_ex_input*, ibv_device_attr_ex* out,
                    std::size_t size) {
  const std::lock_guard lock(net().lock);
  if (const int wanted = enter("ibv_query_device_ex"); wanted != 0) return wanted;
  if (size < sizeof(*out)) return EINVAL;
  const fake_device& about = *card_of(c).about;
  *out = {};
  if (about.has_paging) {
    out->odp_caps.general_caps = IBV_ODP_SUPPORT;
    out->odp_caps.per_transport_caps.rc_odp_caps =
        IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ;
  }
  if (about.has_implicit_paging) out->odp_caps.general_caps |= IBV_ODP_SUPPORT_IMPLICIT;
  return 0;
}

int advise_mr(ibv_pd* pd, ibv_advise_mr_advice what, std::uint32_t, ibv_sge* parts,
              std::uint32_t count) {
  const std::lock_guard lock(net().lock);
  if (const int wanted = enter("ibv_advise_mr"); wanted != 0) return wanted;
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto at = net().by_lkey.find(parts[i].lkey);
    if (at == net().by_lkey.end() || at->second->pd != pd) return EINVAL;
    const region& r = *at->second;
    const std::uint64_t begin = parts[i].addr - r.iova;
    if ((r.access & IBV_ACCESS_ON_DEMAND) == 0 || parts[i].addr < r.iova || begin > r.length ||
        parts[i].length > r.length - begin)
      return EINVAL;
    net().advice.push_back({what, parts[i].addr, parts[i].length});
  }
  return 0;
}

}  // namespace

void offer_paging(open_card& c) {
  c.query_device_ex = &query_device_ex;
  c.advise_mr = &advise_mr;
}

}  // namespace lci::test::fake
