#include "lci/transport/pair_runtime.hpp"

#include <algorithm>
#include <utility>

#include "lci/base/platform.hpp"
#include "lci/base/undo.hpp"
#include "lci/errors.hpp"
#include "lci/runtime/device.hpp"
#include "lci/runtime/global.hpp"
#include "lci/runtime/open_networks.hpp"
#include "lci/runtime/runtime.hpp"
#include "lci/transport/without_job.hpp"

namespace lci::transports {

namespace {

// Packets and lanes lie there, nothing of the program.
constexpr std::size_t RESERVE = std::size_t{1} << 30;

// Two ranks that have one device need no bootstrap: what they say while they open networks goes
// by control messages, and so does that the device is ready.
class no_more_rounds final : public boot::bootstrap {
 public:
  explicit no_more_rounds(int me) noexcept : me_(me) {}
  const char* name() const noexcept override { return "transport"; }
  int rank() const noexcept override { return me_; }
  int size() const noexcept override { return 2; }
  void put(const std::string&, const std::string&) override { refuse(); }
  // The first device's. The pair sends "ready", and receives it, before anything is sent.
  void fence() override {
    if (std::exchange(is_used_, true)) refuse();
  }
  std::string get(int, const std::string&) override { refuse(); }

 private:
  [[noreturn]] static void refuse() {
    throw argument_error("the runtime of a connection has one net context and one device");
  }
  const int me_;
  bool is_used_ = false;
};

}  // namespace

global_attr_t defaults_of_pair(const global_attr_t& of_job) {
  global_attr_t out = of_job;
  out.npackets = std::min<std::size_t>(out.npackets, 1024);
  out.net_max_sends = std::min<std::size_t>(out.net_max_sends, 128);
  out.net_max_recvs = std::min<std::size_t>(out.net_max_recvs, 128);
  out.net_max_cqes = std::min<std::size_t>(out.net_max_cqes, 1024);
  out.alloc_default_device = true;
  out.alloc_default_packet_pool = true;
  out.alloc_default_endpoint = true;
  // Its tables are the largest part of a small runtime. A connection has no sends and receives that
  // have to be matched, and no collectives.
  out.alloc_default_matching_engine = false;
  out.failure_notice = attr_failure_notice_t::all;  // there is one peer
  return out;
}

void load_network(const setup_options& ours, const std::string& address,
                  const std::vector<std::string>& theirs) {
  const auto is_shm_in = [](const std::vector<std::string>& allowed) {
    return allowed.empty() || std::find(allowed.begin(), allowed.end(), "shm") != allowed.end();
  };
  const bool is_loopback = address.starts_with("127.") || address == "::1";
  if (!is_loopback || !is_shm_in(ours.providers) || !is_shm_in(theirs))
    runtime::load_network(ours.providers);
}

pair_runtime::pair_runtime(int me, const global_attr_t& defaults, std::vector<std::string> allowed)
    : me_(me), defaults_(defaults), bootstrap_(std::make_unique<no_more_rounds>(me)) {
  runtime::job_member member;
  member.rank = me;
  member.size = 2;
  member.ranks_here = 2;
  member.bootstrap = &bootstrap_;
  member.bootstrap_lock = &bootstrap_lock_;
  member.defaults = &defaults_;
  member.made = &made_;
  member.most_reserve = RESERVE;
  member.is_job = false;
  runtime_attr_t attr;
  static_cast<runtime_settings_t&>(attr) = defaults_;
  runtime_ = base::make_live<runtime_impl_t>(attr, member);
  base::undo made([&]() noexcept { base::free_live(runtime_, "runtime"); });
  net_context_attr_t network;
  static_cast<net_context_settings_t&>(network) = defaults_;
  runtime_->core.failures = &leaving_;
  runtime_->shared.gpu.paths.say_by(&without_job, me);
  opening_ = base::make_live<net_context_impl_t>(*runtime_, network, std::move(allowed));
  made.keep();
}

pair_runtime::~pair_runtime() {
  if (runtime::global().is_forked) return;  // it is the parent's
  if (is_whole_) runtime::global().runtimes.remove(*runtime_);
  runtime_->let_go();
  if (opening_ != nullptr) base::free_live(opening_, "net_context");
  base::free_live(runtime_, "runtime");
}

std::string pair_runtime::begin() { return said_ = opening_->opening().begin(); }

std::optional<std::string> pair_runtime::heard(const std::string& theirs) {
  std::optional<std::string> next = opening_->opening().heard([&](const auto& visit) {
    for (int rank = 0; rank < 2; ++rank) visit(rank, rank == me_ ? said_ : theirs);
  });
  if (next)
    said_ = *next;
  else
    complete();
  return next;
}

void pair_runtime::complete() {
  opening_->finish();
  net_context_impl_t& network = *std::exchange(opening_, nullptr);
  runtime_->complete(network);
  runtime::global().runtimes.add(*runtime_);
  is_whole_ = true;
}

runtime_t pair_runtime::runtime() const noexcept { return runtime_t(runtime_); }
device_t pair_runtime::device() const noexcept { return runtime_->default_device; }

std::string pair_runtime::summary() const {
  const net_context_impl_t& network = *runtime_->default_net_context.p_impl;
  return network.summary() + network.why();
}

void pair_runtime::peer_ended(bool orderly, std::string_view why) noexcept {
  runtime_->core.peers.report(1 - me_, orderly ? net::peer_event::leave : net::peer_event::fail,
                              why);
}

bool pair_runtime::has_peer_ended() const noexcept {
  return runtime_->core.peers.has_ended(1 - me_);
}

void pair_runtime::end(bool sends_rest) noexcept {
  const net_context_impl_t& network = *runtime_->default_net_context.p_impl;
  if (!sends_rest || has_peer_ended())
    network.fabric->let_go(1 - me_, runtime_->core.peers.has_failed(1 - me_));
  peer_ended(true, "the connection was closed here");
}

void pair_runtime::leaving::begin(bool expects_more) noexcept {
  expects_more_.store(expects_more, std::memory_order_relaxed);  // a hint to wait, no data behind
  since_.store(base::cpu_ticks() | 1, std::memory_order_relaxed);
  look();
}

void pair_runtime::leaving::look() noexcept {
  const std::uint64_t since = since_.load(std::memory_order_relaxed);
  if (since == 0) return;
  proto::core& core = of_.runtime_->core;
  const int peer = 1 - of_.me_;
  const bool is_late = base::cpu_ticks() - since > GRACE.count() * base::ticks_per_ms();
  // Relaxed: no data behind it.
  const bool is_unmet = !expects_more_.load(std::memory_order_relaxed) && core.is_unmet(peer);
  if (!core.peers.has_ended(peer) && (is_late || is_unmet))
    core.peers.report(peer, net::peer_event::leave, "it has closed the connection");
}

}  // namespace lci::transports
