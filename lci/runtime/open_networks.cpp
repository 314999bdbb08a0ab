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
#include "lci/runtime/cores.hpp"
#include "lci/runtime/introduction.hpp"
#include "lci/runtime/net_settings.hpp"

namespace lci::runtime {

std::string directory::lookup(int peer) {
  if (addresses_.empty()) return {};
  on_contact_();
  return std::string(addresses_[static_cast<std::size_t>(peer)]);
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
  config.is_one_of_many = order.is_one_of_many;
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

// " ibv, ofi, shm".
std::string names_of(std::span<const net::provider> all) {
  std::string out;
  for (const net::provider& p : all) out += (out.empty() ? " " : ", ") + std::string(p.name);
  return out;
}

}  // namespace

opening::opening(network_order order, directory& inside, directory& between)
    : order_(std::move(order)),
      inside_(inside),
      between_(between),
      me_(inside.rank()),
      wanted_(order_.attr.backend) {}

std::string opening::begin() {
  open_inner();
  introduction mine;
  mine.word = random_word();
  mine.cores = tell_cores(usable_cores());
  if (wanted_ != attr_backend_t::none) mine.wanted = text_of("backend", wanted_);
  if (inner_.fabric != nullptr) {
    mine.place = inner_.provider->place();
    mine.address = inner_.fabric->address();
  }
  return runtime::text_of(VERSION, mine);
}

std::optional<std::string> opening::heard(const told_by& said) {
  if (has_opened_outer_) {
    connect_outer(said);
    return std::nullopt;
  }
  read_introductions(said);
  if (is_inner_wanted()) require_all_inside();
  if (!needs_outer()) return std::nullopt;
  has_opened_outer_ = true;
  return open_outer();
}

bool opening::is_allowed(const net::provider& p) const noexcept {
  return order_.allowed.empty() ||
         std::find(order_.allowed.begin(), order_.allowed.end(), p.name) != order_.allowed.end();
}

void opening::open_inner() {
  inner_.provider = find_inner();
  if (inner_.provider == nullptr) {
    why_no_inner_ = "this build has none";
    return;
  }
  why_no_inner_ = !is_allowed(*inner_.provider) ? "not allowed here"
                  : order_.shm_enable           ? inner_.provider->probe()
                                                : "switched off by shm_enable";
  if (why_no_inner_.empty())
    inner_.fabric = inner_.provider->open(config_of(order_, inside_, me_));
  else if (is_inner_wanted())
    throw backend_error("backend " + std::string(inner_.provider->name) +
                        " is not usable: " + why_no_inner_);
}

void opening::read_introductions(const told_by& said) {
  text_list addresses;
  said([&](int rank, std::string_view words) {
    const introduction one = read_introduction(words, rank, VERSION);
    all_.add(one);
    addresses.add(one.address);
  });
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
                      ": on other hosts, or in other containers (\"" + all_.place(out.front()) +
                      "\", this one is at \"" + all_.place(me_) + "\")");
}

std::string opening::why_not(const net::provider& p) const {
  if (wanted_ != attr_backend_t::none && wanted_ != p.backend)
    return "not the backend that was asked for";
  if (stays_inside(p))
    return !why_no_inner_.empty() ? why_no_inner_
                                  : "does not reach " + list_ranks(elsewhere(all_, me_)) +
                                        ", on other hosts or in other containers";
  return is_allowed(p) ? p.probe() : "not allowed here";
}

// The first provider that is wanted and usable. The error lists every one with its reason.
const net::provider& opening::choose_outer() {
  std::string& reasons = passed_over_;
  const std::string asked =
      wanted_ == attr_backend_t::none ? "" : " " + text_of("backend", wanted_);
  const std::span<const net::provider> all = net::providers();
  if (!asked.empty() && std::none_of(all.begin(), all.end(), [this](const net::provider& p) {
        return p.backend == wanted_;
      }))
    throw backend_error("backend" + asked + " is not usable: there is no such backend; there are" +
                        names_of(all));
  for (const net::provider& p : all) {
    const std::string reason = why_not(p);
    if (reason.empty()) return p;
    // A backend begins most of its texts with its name.
    const std::string name = std::string(p.name) + ": ";
    reasons += "\n  " + (reason.starts_with(name) ? "" : name) + reason;
  }
  throw backend_error("backend" + asked + " is not usable:" + reasons);
}

// A rank that cannot open one tells the others, and only then gives up.
std::string opening::open_outer() {
  try {
    outer_.provider = &choose_outer();
    const std::vector<int> neighbours = on_machine(all_, me_);
    const auto number = std::find(neighbours.begin(), neighbours.end(), me_) - neighbours.begin();
    outer_.fabric = outer_.provider->open(config_of(order_, between_, static_cast<int>(number)));
    return tell_network(outer_.provider->name, outer_.fabric->address());
  } catch (const std::exception& e) {
    problem_ = std::current_exception();
    return tell_failure(e.what());
  }
}

void opening::connect_outer(const told_by& said) {
  if (problem_) std::rethrow_exception(problem_);
  text_list addresses = addresses_in(said, me_);
  require_all_reached(addresses);
  between_.fill(std::move(addresses));
}

void opening::require_all_reached(const text_list& addresses) const {
  for (std::size_t r = 0; r < addresses.size(); ++r) {
    // A rank that is reached inside the host needs no other network.
    if (static_cast<int>(r) == me_ || (inner_.fabric != nullptr && ways_[r] == net::way::local))
      continue;
    if (const std::string why = outer_.fabric->why_out_of_reach(addresses[r]); !why.empty())
      throw backend_error("backend " + std::string(outer_.provider->name) + " does not reach " +
                          list_ranks({static_cast<int>(r)}) + ": " + why);
  }
}

opened_networks opening::result() {
  const auto others = static_cast<int>(std::count(ways_.begin(), ways_.end(), net::way::local)) -
                      (inner_.fabric != nullptr ? 1 : 0);
  // A rank that is alone on its host needs one network only, which also reaches itself.
  if (outer_.fabric != nullptr && others <= 0) inner_.fabric.reset();
  opened_networks out;
  out.has_local = inner_.fabric != nullptr;
  out.is_crowded = is_crowded(all_, me_);
  out.words = all_.words();
  const one_network& main = outer_.fabric != nullptr ? outer_ : inner_;
  out.backend = main.provider->backend;
  out.names = main.fabric->names();
  out.why = passed_over_;
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

void load_network(const std::vector<std::string>& allowed) {
  for (const net::provider& one : net::providers()) {
    const bool is_allowed =
        allowed.empty() || std::find(allowed.begin(), allowed.end(), one.name) != allowed.end();
    if (!stays_inside(one) && is_allowed && one.probe().empty()) return;
  }
}

void open_all(opening& steps, boot::bootstrap& boot, boot::meanwhile* work) {
  std::string key = steps.key();
  for (std::optional<std::string> mine = steps.begin(); mine; key += ".network") {
    boot.put(key, *mine);
    boot.fence_with(work);
    // Read now: at first contact any thread may ask, and the bootstrap serves one thread only.
    mine = steps.heard([&](const auto& visit) { boot.get_all(key, visit); });
  }
}

opened_networks open_networks(const network_order& order, boot::bootstrap& boot, directory& inside,
                              directory& between) {
  opening steps(order, inside, between);
  open_all(steps, boot, nullptr);
  return steps.result();
}

}  // namespace lci::runtime
