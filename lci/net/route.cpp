#include "lci/net/route.hpp"

#include <algorithm>
#include <utility>

#include "lci/base/spin.hpp"
#include "lci/errors.hpp"

namespace lci::net {
namespace {

// What holds for all peers, and of the two that are not needed everywhere what holds for some.
capabilities common(const capabilities& a, const capabilities& b) {
  capabilities both;
  both.max_inject = std::min(a.max_inject, b.max_inject);
  both.max_send = std::min(a.max_send, b.max_send);
  both.max_rma = std::min(a.max_rma, b.max_rma);
  both.best_rma = std::min(a.best_rma, b.best_rma);
  both.write_with_immediate = a.write_with_immediate && b.write_with_immediate;
  both.one_sided = a.one_sided && b.one_sided;
  both.device_memory = a.device_memory || b.device_memory;
  both.outlives_stale_keys = a.outlives_stale_keys && b.outlives_stale_keys;
  both.keeps_registrations = a.keeps_registrations || b.keeps_registrations;
  both.ordered = a.ordered && b.ordered;
  both.orders_puts = a.orders_puts && b.orders_puts;
  both.needs_keys = a.needs_keys || b.needs_keys;
  return both;
}

}  // namespace

routes::routes(std::vector<way> ways, const capabilities& local, const capabilities& remote)
    : ways_(std::move(ways)) {
  for (const way one : ways_) caps_.push_back(one == way::local ? &local : &remote);
}

int routes::count(way which) const noexcept {
  return static_cast<int>(std::count(ways_.begin(), ways_.end(), which));
}

routed_fabric::routed_fabric(std::unique_ptr<fabric> local, std::unique_ptr<fabric> remote,
                             std::vector<way> ways)
    : local_(std::move(local)),
      remote_(std::move(remote)),
      routes_(std::move(ways), local_->caps(), remote_->caps()),
      caps_(common(local_->caps(), remote_->caps())) {
  if (local_->caps().needs_keys)
    throw backend_error("network " + std::string(local_->name()) +
                        " needs keys, so it cannot serve the peers of this host beside " +
                        std::string(remote_->name()));
  caps_by_rank_ = routes_.caps_by_rank();
}

routed_fabric::~routed_fabric() = default;

// A device of the remote one that cannot be made takes the other one along.
std::unique_ptr<device> routed_fabric::make_device(int index, device_config& config) {
  device_config ignored = config;
  std::unique_ptr<device> local = local_->make_device(index, ignored);
  return std::make_unique<routed_device>(routes_, std::move(local),
                                         remote_->make_device(index, config));
}

void routed_fabric::leave() noexcept {
  local_->leave();
  remote_->leave();
}

std::unique_ptr<endpoint> routed_device::both(std::unique_ptr<endpoint> local,
                                              std::unique_ptr<endpoint> remote) {
  return std::make_unique<routed_endpoint>(routes_, *this, std::move(local), std::move(remote));
}

// The compiler knows one class of endpoints here, this one, and would guess that the network's is
// one too, five times over.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC push_options
#pragma GCC optimize("no-devirtualize-speculatively")
#endif

errorcode_t routed_endpoint::send_inline(int rank, std::uint32_t imm, const void* head,
                                         std::size_t head_size, const void* payload,
                                         std::size_t size) noexcept {
  return at(rank).send_inline(rank, imm, head, head_size, payload, size);
}

errorcode_t routed_endpoint::put_inline(const small_put& what) noexcept {
  return at(what.rank).put_inline(what);
}
errorcode_t routed_endpoint::send(const net_op& op) noexcept { return at(op.rank).send(op); }
errorcode_t routed_endpoint::put(const net_op& op) noexcept { return at(op.rank).put(op); }
errorcode_t routed_endpoint::put_imm(const net_op& op) noexcept { return at(op.rank).put_imm(op); }
errorcode_t routed_endpoint::get(const net_op& op) noexcept { return at(op.rank).get(op); }

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif

bool routed_device::is_remote_due() noexcept {
  const std::uint32_t quiet = quiet_.load(std::memory_order_relaxed) + 1;
  // Not for ever: a count that wrapped would be taken for news.
  quiet_.store(quiet < 2 * QUIET_AFTER ? quiet : QUIET_AFTER, std::memory_order_relaxed);
  return quiet < QUIET_AFTER || quiet % QUIET_EVERY == 0;
}

// The remote network gets its turn also where the local one has used the budget up.
std::size_t routed_device::poll(sink& to, std::size_t max) noexcept {
  if (!polling_.enter()) return local_->poll_beside(to, max);
  base::turn_away::end();
  std::size_t n = local_->poll(to, max);
  if (has_remote_ && is_remote_due()) {
    const std::size_t more = remote_->poll(to, max > n ? max - n : 1);
    if (more != 0) expect_remote();
    n += more;
  }
  polling_.leave();
  return n;
}

}  // namespace lci::net
