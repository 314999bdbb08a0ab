#include "lci/runtime/open_networks.hpp"

#include <algorithm>
#include <random>
#include <span>
#include <utility>

#include "lci/errors.hpp"
#include "lci/net/provider.hpp"
#include "lci/net/route.hpp"
#include "lci/proto/engine/wire.hpp"
#include "lci/runtime/attribute_text.hpp"
#include "lci/runtime/introduction.hpp"
#include "lci/runtime/net_settings.hpp"

namespace lci::runtime {

std::string directory::lookup(int peer) {
  if (addresses_.empty()) return {};
  on_contact_();
  return addresses_[static_cast<std::size_t>(peer)];
}

namespace {

constexpr auto VERSION = proto::wire::VERSION;

bool stays_inside(const net::provider& p) noexcept { return p.place != nullptr; }

// Null: this build has no such network.
const net::provider* find_inner() {
  const std::span<const net::provider> all = net::providers();
  const auto found = std::find_if(all.begin(), all.end(), &stays_inside);
  return found == all.end() ? nullptr : &*found;
}

net::fabric_config config_of(const network_order& order, net::address_book& book, int number) {
  net::fabric_config config = settings_of(order.attr, number);
  config.book = &book;
  config.arena = order.arena;
  config.regions = order.regions;
  config.peers = order.peers;
  config.use_reg_cache = order.use_reg_cache;
  config.gpu_rules = mem::ladder_rules::from_environment(order.attr.use_dmabuf);
  return config;
}

std::uint64_t random_word() {
  std::random_device random;
  return std::uint64_t{random()} << 32 | random();
}

std::string peers_over(int count, const net::provider& network) {
  return ", " + std::to_string(count) + (count == 1 ? " peer over " : " peers over ") +
         std::string(network.name);
}

// One opened network and its provider.
struct one_network {
  const net::provider* provider = nullptr;
  std::unique_ptr<net::fabric> fabric;
};

class opening {
 public:
  opening(const network_order& order, boot::bootstrap& boot, directory& inside, directory& between)
      : order_(order),
        boot_(boot),
        inside_(inside),
        between_(between),
        me_(inside.rank()),
        wanted_(order.attr.backend) {}
  opened_networks run();

 private:
  void open_inner();
  void introduce();
  bool needs_outer() const;
  void require_all_inside() const;
  const net::provider& choose_outer() const;
  void open_outer();
  void require_all_reached(const std::vector<std::string>& addresses) const;
  opened_networks put_together();
  std::vector<std::string> exchange(const std::string& key, const std::string& mine);
  bool is_inner_wanted() const noexcept { return wanted_ != attr_backend_t::none && wants(inner_); }
  bool wants(const one_network& it) const noexcept {
    return it.provider != nullptr && it.provider->backend == wanted_;
  }

  const network_order& order_;
  boot::bootstrap& boot_;
  directory& inside_;
  directory& between_;
  const int me_;
  const attr_backend_t wanted_;
  one_network inner_, outer_;
  std::string why_no_inner_;
  std::vector<introduction> all_;
  std::vector<net::way> ways_;
};

std::vector<std::string> opening::exchange(const std::string& key, const std::string& mine) {
  boot_.put(key, mine);
  boot_.fence();
  // Read now: at first contact any thread may ask, and the bootstrap serves one thread only.
  std::vector<std::string> said;
  said.reserve(static_cast<std::size_t>(inside_.size()));
  for (int r = 0; r < inside_.size(); ++r) said.push_back(boot_.get(r, key));
  return said;
}

void opening::open_inner() {
  inner_.provider = find_inner();
  if (inner_.provider == nullptr) {
    why_no_inner_ = "this build has none";
    return;
  }
  why_no_inner_ = order_.shm_enable ? inner_.provider->probe() : "switched off by shm_enable";
  if (why_no_inner_.empty())
    inner_.fabric = inner_.provider->open(config_of(order_, inside_, me_));
  else if (is_inner_wanted())
    throw backend_error("backend " + std::string(inner_.provider->name) +
                        " is not usable: " + why_no_inner_);
}

void opening::introduce() {
  introduction mine;
  mine.word = random_word();
  if (wanted_ != attr_backend_t::none) mine.wanted = text_of("backend", wanted_);
  if (inner_.fabric != nullptr) {
    mine.place = inner_.provider->place();
    mine.address = inner_.fabric->address();
  }
  const std::vector<std::string> said = exchange(order_.key, runtime::text_of(VERSION, mine));
  std::vector<std::string> addresses;
  for (std::size_t r = 0; r < said.size(); ++r) {
    all_.push_back(read_introduction(said[r], static_cast<int>(r), VERSION));
    addresses.push_back(all_.back().address);
  }
  check_settings(all_, me_);
  ways_ = ways_from(all_, me_);
  inside_.fill(std::move(addresses));
}

// The same on all ranks: if some rank is not in the place of rank 0, then some rank is not in ours.
bool opening::needs_outer() const {
  if (is_inner_wanted()) return false;
  return wanted_ != attr_backend_t::none || !elsewhere(all_, me_).empty();
}

void opening::require_all_inside() const {
  const std::vector<int> out = elsewhere(all_, me_);
  if (out.empty()) return;
  throw backend_error("backend " + std::string(inner_.provider->name) +
                      " was asked for, and it does not reach " + list_ranks(out) +
                      ": on other hosts, or in other containers (\"" +
                      all_[static_cast<std::size_t>(out.front())].place + "\", this one is at \"" +
                      all_[static_cast<std::size_t>(me_)].place + "\")");
}

// The first provider that is wanted and usable. The error lists every one with its reason.
const net::provider& opening::choose_outer() const {
  std::string reasons;
  for (const net::provider& p : net::providers()) {
    std::string reason;
    if (wanted_ != attr_backend_t::none && wanted_ != p.backend)
      reason = "not the backend that was asked for";
    else if (stays_inside(p))
      reason = !why_no_inner_.empty() ? why_no_inner_
                                      : "does not reach " + list_ranks(elsewhere(all_, me_)) +
                                            ", on other hosts or in other containers";
    else
      reason = p.probe();
    if (reason.empty()) return p;
    reasons += "\n  " + std::string(p.name) + ": " + reason;
  }
  const std::string asked =
      wanted_ == attr_backend_t::none ? "" : " " + text_of("backend", wanted_);
  throw backend_error("backend" + asked + " is not usable:" + reasons);
}

// A rank that cannot open one tells the others, and only then gives up.
void opening::open_outer() {
  std::string told;
  std::exception_ptr problem;
  try {
    outer_.provider = &choose_outer();
    const std::vector<int> neighbours = on_machine(all_, me_);
    const auto number = std::find(neighbours.begin(), neighbours.end(), me_) - neighbours.begin();
    outer_.fabric = outer_.provider->open(config_of(order_, between_, static_cast<int>(number)));
    told = tell_network(outer_.provider->name, outer_.fabric->address());
  } catch (const std::exception& e) {
    problem = std::current_exception();
    told = tell_failure(e.what());
  }
  const std::vector<std::string> said = exchange(order_.key + ".network", told);
  if (problem) std::rethrow_exception(problem);
  std::vector<std::string> addresses = addresses_in(said, me_);
  require_all_reached(addresses);
  between_.fill(std::move(addresses));
}

void opening::require_all_reached(const std::vector<std::string>& addresses) const {
  for (std::size_t r = 0; r < addresses.size(); ++r) {
    // A rank that is reached inside the host needs no other network.
    if (static_cast<int>(r) == me_ || (inner_.fabric != nullptr && ways_[r] == net::way::local))
      continue;
    if (const std::string why = outer_.fabric->why_out_of_reach(addresses[r]); !why.empty())
      throw backend_error("backend " + std::string(outer_.provider->name) + " does not reach " +
                          list_ranks({static_cast<int>(r)}) + ": " + why);
  }
}

opened_networks opening::put_together() {
  const auto others = static_cast<int>(std::count(ways_.begin(), ways_.end(), net::way::local)) -
                      (inner_.fabric != nullptr ? 1 : 0);
  // A rank that is alone on its host needs one network only, which also reaches itself.
  if (outer_.fabric != nullptr && others <= 0) inner_.fabric.reset();
  opened_networks out;
  out.has_local = inner_.fabric != nullptr;
  out.ranks_on_machine = static_cast<int>(on_machine(all_, me_).size());
  for (const introduction& one : all_) out.words.push_back(one.word);
  const one_network& main = outer_.fabric != nullptr ? outer_ : inner_;
  out.backend = main.provider->backend;
  out.names = main.fabric->names();
  const int inside = out.has_local ? others : 0;
  const int between = outer_.fabric == nullptr ? 0 : inside_.size() - 1 - inside;
  out.summary = "backend " + std::string(main.provider->name) + ", provider " + out.names.provider +
                (out.names.device.empty() ? "" : ", device " + out.names.device);
  if (out.has_local) out.summary += peers_over(inside, *inner_.provider);
  if (outer_.fabric != nullptr) out.summary += peers_over(between, *outer_.provider);
  if (!out.has_local || outer_.fabric == nullptr)
    out.fabric = std::move(out.has_local ? inner_.fabric : outer_.fabric);
  else
    out.fabric = std::make_unique<net::routed_fabric>(std::move(inner_.fabric),
                                                      std::move(outer_.fabric), std::move(ways_));
  return out;
}

opened_networks opening::run() {
  open_inner();
  introduce();
  if (is_inner_wanted()) require_all_inside();
  if (needs_outer()) open_outer();
  return put_together();
}

}  // namespace

opened_networks open_networks(const network_order& order, boot::bootstrap& boot, directory& inside,
                              directory& between) {
  return opening(order, boot, inside, between).run();
}

}  // namespace lci::runtime
