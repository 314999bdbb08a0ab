// The test's side of the fake, and what all entry points share.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "tests/support/fake_ibv/state.hpp"

namespace lci::test::fake {

network::network() {
  // For programs that do not know this interface: queues as odd as cards may be.
  if (const char* const odd = std::getenv("LCI_FAKE_IBV_ODD"); odd != nullptr) {
    config.most_per_poll = 3;
    config.delay = 2;
    config.order_seed = random = static_cast<unsigned>(std::strtoul(odd, nullptr, 10)) | 1u;
    config.flush_delay = 5;
    config.lose = config.repeat = config.hold = 3;
  }
  if (const char* const count = std::getenv("LCI_FAKE_IBV_CARDS"); count != nullptr)
    config.devices = fake_cards(std::strtoul(count, nullptr, 10));
  if (const char* const most = std::getenv("LCI_FAKE_IBV_MAX_MSG"); most != nullptr) {
    for (fake_device& one : config.devices)
      one.max_msg_sz = static_cast<std::uint32_t>(std::strtoul(most, nullptr, 10));
  }
  make_cards();
}

void network::make_cards() {
  cards.clear();
  for (const fake_device& about : config.devices) {
    auto one = std::make_unique<card>();
    one->about = &about;
    one->node_type = IBV_NODE_CA;
    one->transport_type = about.transport;
    std::snprintf(one->name, sizeof(one->name), "%s", about.name.c_str());
    cards.push_back(std::move(one));
  }
}

std::uint32_t network::draw() {
  random = random * 1664525u + 1013904223u;
  return random >> 8;
}

// Never destroyed: the program may end in the middle of a call.
network& net() {
  static network* const one = new network;
  return *one;
}

int enter(const char* call) {
  network& all = net();
  const auto at = all.calls.find(std::string_view(call));
  if (at == all.calls.end())
    all.calls.emplace(call, 1);
  else
    ++at->second;
  const auto wanted = all.failures.find(std::string_view(call));
  if (wanted == all.failures.end()) return 0;
  int error = 0;
  for (failure& one : wanted->second) {
    --one.in;
    if (one.in <= 0 && -one.in < one.times) error = one.error;
  }
  return error;
}

int enter(const char* call, ibv_context* c) {
  const int wanted = enter(call);
  return wanted == 0 && card_of(c).is_removed ? EIO : wanted;
}

void complain(const std::string& what) {
  if (!net().config.collects) {
    std::fprintf(stderr, "fake libibverbs: %s\n", what.c_str());
    std::abort();
  }
  net().complaints.push_back(what);
}

namespace {

class control final : public fake_ibv {
 public:
  void reset(const fake_ibv_config& config) override {
    network& all = net();
    const std::lock_guard lock(all.lock);
    if (all.live.all() != 0) complain(std::to_string(all.live.all()) + " objects are still alive");
    all.config = config;
    all.calls.clear();
    all.failures.clear();
    all.complaints.clear();
    all.advice.clear();
    all.held.clear();
    all.random = config.order_seed | 1u;
    all.make_cards();
  }
  void change(const fake_ibv_config& config) override {
    const std::lock_guard lock(net().lock);
    // The open contexts refer to the devices.
    auto devices = std::move(net().config.devices);
    net().config = config;
    net().config.devices = std::move(devices);
  }
  void fail_nth(const std::string& call, int n, int error, int times) override {
    const std::lock_guard lock(net().lock);
    net().failures[call].push_back({n, times, error});
  }
  void reset_failures() override {
    const std::lock_guard lock(net().lock);
    net().failures.clear();
  }
  std::size_t count(const std::string& call) override {
    const std::lock_guard lock(net().lock);
    const auto at = net().calls.find(call);
    return at == net().calls.end() ? 0 : at->second;
  }
  void forget_counts() override {
    const std::lock_guard lock(net().lock);
    net().calls.clear();
  }
  fake_ibv_live live() override {
    const std::lock_guard lock(net().lock);
    return net().live;
  }
  std::vector<std::string> take_complaints() override {
    const std::lock_guard lock(net().lock);
    return std::exchange(net().complaints, {});
  }
  void kill(std::size_t context) override {
    const std::lock_guard lock(net().lock);
    net().contexts.at(context)->is_dead = true;
    run_waiting();
  }
  void break_datagrams(std::size_t context) override {
    const std::lock_guard lock(net().lock);
    for (const auto& [number, q] : net().pairs)
      if (q->qp_type == IBV_QPT_UD && q->owner() == net().contexts.at(context)) break_pair(*q);
  }
  void remove(std::size_t context, bool says_so) override {
    const std::lock_guard lock(net().lock);
    open_card& gone = *net().contexts.at(context);
    gone.is_dead = gone.is_removed = true;
    if (says_so) raise_event(gone, IBV_EVENT_DEVICE_FATAL, nullptr);
    run_waiting();
  }
  void change_device(std::size_t device, const std::function<void(fake_device&)>& how) override {
    const std::lock_guard lock(net().lock);
    how(net().config.devices.at(device));
  }
  void raise(std::size_t context, ibv_event_type what, int port) override {
    const std::lock_guard lock(net().lock);
    raise_event(*net().contexts.at(context), what, nullptr, port);
  }
  std::size_t waiting_completions() override {
    const std::lock_guard lock(net().lock);
    std::set<completion_queue*> queues;
    for (const auto& [number, q] : net().pairs) queues.insert({&q->sent(), &q->received()});
    std::size_t n = 0;
    for (const completion_queue* cq : queues) n += cq->entries.size();
    return n;
  }
  std::size_t posted_receives() override {
    const std::lock_guard lock(net().lock);
    std::size_t n = 0;
    for (const auto& [number, q] : net().pairs) n += q->receives.size();
    return n;
  }
  void call_around(void (*begin)(), void (*end)()) override { net().lock.call_around(begin, end); }
  std::size_t registered_bytes() override {
    std::size_t n = 0;
    for (const fake_region& one : registrations()) n += one.size;
    return n;
  }
  std::vector<fake_advice> take_advice() override {
    const std::lock_guard lock(net().lock);
    return std::exchange(net().advice, {});
  }
  std::vector<fake_connection> connections() override {
    const std::lock_guard lock(net().lock);
    std::vector<fake_connection> out;
    for (const auto& [number, q] : net().pairs)
      if (q->qp_type == IBV_QPT_RC && q->state == IBV_QPS_RTS)
        out.push_back({q->owner()->about->name, q->attr.max_dest_rd_atomic, q->attr.max_rd_atomic});
    return out;
  }
  std::vector<fake_region> registrations() override {
    const std::lock_guard lock(net().lock);
    std::vector<fake_region> all;
    for (const auto& [key, r] : net().by_lkey) all.push_back({r->addr, r->length, r->access});
    return all;
  }
};

}  // namespace
}  // namespace lci::test::fake

extern "C" lci::test::fake_ibv* lci_fake_ibv() {
  static lci::test::fake::control one;
  return &one;
}
