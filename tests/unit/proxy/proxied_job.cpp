#include "tests/unit/proxy/proxied_job.hpp"

#include <atomic>
#include <map>
#include <utility>

#include "lci/boot/bootstrap.hpp"
#include "lci/net/provider.hpp"
#include "lci/runtime/global.hpp"
#include "lci/runtime/job.hpp"

namespace lci {

namespace {

test::sim_world* the_network = nullptr;  // of the job that is alive

std::unique_ptr<net::fabric> open_sim(const net::fabric_config& config) {
  return the_network->open(test::proxied_job::ME, config);
}

// The peer says what this rank says.
class mirror final : public boot::bootstrap {
 public:
  const char* name() const noexcept override { return "mirror"; }
  int rank() const noexcept override { return test::proxied_job::ME; }
  int size() const noexcept override { return 2; }
  void put(const std::string& key, const std::string& value) override { said_[key] = value; }
  void fence() override {}
  std::string get(int, const std::string& key) override { return said_.at(key); }

 private:
  std::map<std::string, std::string> said_;
};

}  // namespace

std::span<const net::provider> net::providers() {
  static const net::provider one[] = {
      {"sim", attr_backend_t::ofi, [] { return std::string(); }, &open_sim}};
  return one;
}

namespace test {

std::span<const mem::memory_domain>& proxied_domains() {
  static std::span<const mem::memory_domain> all;
  return all;
}
}  // namespace test

std::span<const mem::memory_domain> mem::memory_domains() { return test::proxied_domains(); }

namespace test {

// Polled in each round, as it keeps the core busy until it is stopped.
class proxied_job::last_round final : public proto::part {
 public:
  explicit last_round(proto::core& of) : core_(of) { core_.expect(1); }
  std::size_t poll() override {
    if (rounds_ != 0 && --rounds_ == 0)
      core_.peers.report(PEER, net::peer_event::fail, "the test has waited long enough");
    return 0;
  }
  void stop() noexcept {
    rounds_ = 0;
    core_.expect(-1);
  }

 private:
  proto::core& core_;
  int rounds_ = 1000;  // that are left; 0: none is counted any more
};

proxied_job::proxied_job(const sim_options& options) : sim_(2, options), before_(g_default_attr) {
  the_network = &sim_;
  runtime::global_state& g = runtime::global();
  g.bootstrap = std::make_unique<mirror>();
  g.rank = ME;
  g.size = 2;
  g.initialized = 1;
  g_default_attr.backend = attr_backend_t::ofi;
  peer_ = std::make_unique<node>(
      [this](int r, const net::fabric_config& config) { return sim_.open(r, config); }, PEER, 2,
      std::size_t{1} << 30, mem::ladder_rules{});
  owner_ = base::make_live<runtime_impl_t>(runtime_attr_t(), "");
  g.runtimes.add(*owner_);
}

proxied_job::~proxied_job() {
  if (last_round_ != nullptr) last_round_->stop();
  owner_->end_extension();
  runtime::global().runtimes.remove(*owner_);
  base::free_live(owner_, "runtime");
  peer_->fabric->leave();
  peer_.reset();
  runtime::finalize();
  g_default_attr = before_;
}

void proxied_job::step(int rounds) {
  for (int i = 0; i < rounds; ++i) {
    try {
      device().queues.progress();
    } catch (...) {
      thrown.push_back(std::current_exception());
    }
    try {
      peer_->queues->progress();
    } catch (...) {  // it hears of itself
    }
  }
}

bool proxied_job::step_until(const std::function<bool()>& done) {
  for (int i = 0; i < 20000; ++i) {
    if (done()) return true;
    step();
  }
  return done();
}

gpu::status proxied_job::run(const std::function<gpu::status()>& call) {
  std::atomic<bool> is_over{false};
  gpu::status said = gpu::status::ok;
  std::thread kernel([&] {
    said = call();
    is_over.store(true);
  });
  while (!is_over.load()) step();
  kernel.join();
  return said;
}

void proxied_job::meet() {
  if (std::exchange(has_met_, true)) return;
  std::uint64_t word = 0, got = 0;
  const rmr_t rmr = expose(&word, sizeof(word));
  status_t status;
  do {
    status = post_get_x(PEER, &got, sizeof(got), COMP_NULL, 0, rmr).device(device_t(&device()))();
    step();
  } while (status.is_retry());
  step(100);
}

void proxied_job::kill() {
  meet();
  sim_.kill(PEER);
}

void proxied_job::leave_network() {
  device().queues.engine().watch.only_over(*device().context.fabric);
  peer_->fabric->leave();
}

void proxied_job::end_after_rounds() {
  last_round_ = std::make_unique<last_round>(owner_->core);
  device().queues.engine().add_part(*last_round_);
}

gpu::endpoint_t proxied_job::endpoint(std::uint32_t depth, std::uint64_t wait_limit_ms) {
  return alloc_gpu_endpoint_x(device_t(&device()))
      .gpu(gpu::NO_GPU)
      .gpu_proxy(attr_gpu_proxy_t::progress)
      .depth(depth)
      .wait_limit_ms(wait_limit_ms)
      .receives(4)
      .runtime(handle())();
}

rmr_t proxied_job::expose(void* at, std::size_t size) {
  const net::remote_key key = peer_->expose(at, size);
  rmr_t rmr;
  rmr.base = reinterpret_cast<std::uintptr_t>(at);
  rmr.opaque_rkey = static_cast<std::uint64_t>(key.generation) << 32 | key.slot;
  rmr.mr_base = owner_->core.seal.check_of(rmr.base, rmr.opaque_rkey, PEER);
  return rmr;
}

}  // namespace test
}  // namespace lci
