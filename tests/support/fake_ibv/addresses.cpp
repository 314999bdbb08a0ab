// Where packets of a queue pair go, and whether they are taken there. As in the specification
// (InfiniBand volume 1, 9.6.1) a connected queue pair takes packets only from the address that it
// was told, and answers go there.
#include <algorithm>

#include "tests/support/fake_ibv/state.hpp"

namespace lci::test::fake {
namespace {

const fake_port& port_of(const queue_pair& q) {
  return q.owner()->about->ports[q.attr.port_num - 1u];
}

bool is_same(const ibv_gid& a, const ibv_gid& b) {
  return std::equal(std::begin(a.raw), std::end(a.raw), std::begin(b.raw));
}

}  // namespace

bool is_at(const queue_pair& q, const ibv_ah_attr& to) {
  const fake_port& port = port_of(q);
  if (to.is_global == 0) return to.dlid == port.lid && port.link_layer != IBV_LINK_LAYER_ETHERNET;
  ibv_gid gid{};
  for (std::size_t i = 0; i < port.gids.size(); ++i) {
    if (gid_at(port, static_cast<int>(i), gid) && is_same(gid, to.grh.dgid)) return true;
  }
  return false;
}

bool is_usable(const queue_pair& q, const ibv_ah_attr& to) {
  const fake_port& port = port_of(q);
  ibv_gid gid{};
  return to.port_num == q.attr.port_num &&
         (to.is_global != 0
              ? to.grh.sgid_index < port.gids.size() && gid_at(port, to.grh.sgid_index, gid)
              : port.link_layer != IBV_LINK_LAYER_ETHERNET);
}

bool reaches(const queue_pair& from, const queue_pair& to) {
  const ibv_ah_attr& path = from.attr.ah_attr;
  const ibv_ah_attr& known = to.attr.ah_attr;
  if (!is_at(to, path) || path.is_global != known.is_global) return false;
  const bool has_lids = port_of(from).link_layer != IBV_LINK_LAYER_ETHERNET;
  if (has_lids && (path.dlid != port_of(to).lid || known.dlid != port_of(from).lid)) return false;
  ibv_gid source{};
  return path.is_global == 0 ||
         (gid_at(port_of(from), path.grh.sgid_index, source) && is_same(source, known.grh.dgid));
}

}  // namespace lci::test::fake
