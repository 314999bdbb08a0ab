#include "backends/ofi/queues.hpp"

#include "lci/errors.hpp"

namespace lci::ofi {

queues queues::open(const opened_domain& on, std::size_t entries, std::size_t peers) {
  queues out;
  fi_cq_attr cq_wanted{};
  cq_wanted.size = entries;
  cq_wanted.format = FI_CQ_FORMAT_DATA;
  cq_wanted.wait_obj = FI_WAIT_NONE;
  fid_cq* cq = nullptr;
  int rc = fi_cq_open(on.domain, &cq_wanted, &cq, nullptr);
  if (rc != 0) {
    cq_wanted.size = 0;  // as many as the provider likes
    rc = fi_cq_open(on.domain, &cq_wanted, &cq, nullptr);
  }
  if (rc != 0) throw_error("fi_cq_open", on.name, rc);
  out.cq.reset(cq);
  fi_av_attr av_wanted{};
  av_wanted.type = on.info->domain_attr->av_type;
  av_wanted.count = peers;
  fid_av* av = nullptr;
  rc = fi_av_open(on.domain, &av_wanted, &av, nullptr);
  if (rc != 0) throw_error("fi_av_open", on.name, rc);
  out.av.reset(av);
  fid_ep* ep = nullptr;
  rc = fi_endpoint(on.domain, on.info, &ep, nullptr);
  if (rc != 0) throw_error("fi_endpoint", on.name, rc);
  out.ep.reset(ep);
  rc = fi_ep_bind(ep, &out.av->fid, 0);
  if (rc == 0) rc = fi_ep_bind(ep, &out.cq->fid, FI_TRANSMIT | FI_RECV);
  if (rc != 0) throw_error("fi_ep_bind", on.name, rc);
  rc = fi_enable(ep);
  if (rc != 0) throw_error("fi_enable", on.name, rc);
  return out;
}

endpoint_name queues::name(const opened_domain& on) const {
  endpoint_name out;
  std::size_t size = MAX_NAME;
  const int rc = fi_getname(&ep->fid, out.bytes, &size);
  if (rc == -FI_ETOOSMALL || size > MAX_NAME)
    throw backend_error("ofi: an address of " + on.name + " has " + bytes_text(size) +
                        ", lci sends at most " + bytes_text(MAX_NAME));
  if (rc != 0) throw_error("fi_getname", on.name, rc);
  out.size = static_cast<std::uint16_t>(size);
  return out;
}

fi_addr_t queues::insert(const opened_domain& on, const endpoint_name& peer) const {
  fi_addr_t out = FI_ADDR_UNSPEC;
  const int n = fi_av_insert(av.get(), peer.bytes, 1, &out, 0, nullptr);
  if (n != 1) throw_error("fi_av_insert", on.name, n < 0 ? n : -FI_EINVAL);
  return out;
}

}  // namespace lci::ofi
