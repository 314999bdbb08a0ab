// Two or more ranks in one process, each with the protocols over the fake fabric: what the tests of
// lci/proto stand on. Threads: single; a test moves all ranks by hand with step().
#pragma once

#include <functional>
#include <memory>
#include <stdexcept>
#include <vector>

#include "lci/comp/signal.hpp"
#include "lci/completion.hpp"
#include "lci/match/make_engine.hpp"
#include "lci/mem/packet_pool.hpp"
#include "lci/proto/device_queues.hpp"
#include "lci/proto/engine/packet_size.hpp"
#include "lci/proto/host/eager.hpp"
#include "lci/proto/host/matcher.hpp"
#include "lci/proto/host/select.hpp"
#include "tests/support/sim/sim.hpp"

namespace lci::test {

// Sent by rendezvous in every world here.
inline constexpr std::size_t LARGE = 100'000;

// Remembers what it was told.
class recorder final : public comp_impl_t {
 public:
  void signal(status_t status) override { seen.push_back(status); }
  std::vector<status_t> seen;
};

// Calls progress of every rank a few times; progress of a rank may throw, which the tests look for.
inline constexpr int ROUNDS = 400;

struct node {
  using opener =
      std::function<std::unique_ptr<net::fabric>(int rank, const net::fabric_config& config)>;
  node(const opener& open, int rank, int n, std::size_t max_piece, const mem::ladder_rules& rules)
      : shared(rank, n, proto::wire::imm_layout{}, n),
        pool(core.arena, proto::packet_bytes_for(8192), 64) {
    net::fabric_config config;
    config.arena = &core.arena;
    config.regions = &core.regions;
    config.peers = &core.peers;
    config.gpu_rules = rules;
    fabric = open(rank, config);
    make_device(max_piece);
    matcher =
        std::make_unique<proto::matcher>(match::make_engine(attr_matching_engine_type_t::map));
    core.rcomps.add_engine(matcher.get());
    core.failure_notice = attr_failure_notice_t::all;
  }
  ~node() {
    // Messages nobody received still hold packets.
    matcher->engine().drain_st([](void*, matching_entry_type_t, bool) {});
  }

  // The first one, or another with its number.
  void make_device(std::size_t max_piece = std::size_t{1} << 30) {
    queue.reset();
    queues.reset();
    queues = std::make_unique<proto::device_queues>(shared, *fabric, 0, net::device_config{}, pool,
                                                    max_piece);
    queue = queues->engine().lend_queue();
  }
  proto::outgoing outgoing(int to, void* buffer, std::size_t size, rcomp_t rcomp, tag_t tag,
                           comp_impl_t* comp = nullptr) {
    return outgoing_from(pool, to, buffer, size, rcomp, tag, comp);
  }
  proto::outgoing outgoing_from(mem::packet_pool& packets, int to, void* buffer, std::size_t size,
                                rcomp_t rcomp, tag_t tag, comp_impl_t* comp) {
    proto::outgoing out{*queue, queues->host, packets};
    out.inject_limit = 64;
    out.bcopy_limit = queue->engine.max_copy;
    out.rank = to;
    out.buffer = buffer;
    out.size = size;
    out.tag = tag;
    out.rcomp = rcomp;
    out.user.comp = comp;
    out.user.status = status_t(errorcode_t::done);
    out.user.status.rank = to;
    out.user.status.buffer = buffer;
    out.user.status.size = size;
    out.user.status.tag = tag;
    out.extended = !core.imm.fits(rcomp, tag);
    return out;
  }
  errorcode_t receive(int from, void* buffer, std::size_t size, tag_t tag, comp_impl_t* comp,
                      status_t& got) {
    proto::receive& record = *shared.host.receives.get();
    record.user.comp = comp;
    record.user.status = status_t();
    record.user.status.rank = from;
    record.user.status.buffer = buffer;
    record.user.status.size = size;
    record.host = &queues->host;
    record.region = {};
    return matcher->post(record, from, tag, matching_policy_t::rank_tag, got);
  }
  // Registers host memory for peers, as register_memory() does, until the node goes.
  net::remote_key expose(void* address, std::size_t size) {
    const mem::region_name name = core.regions.insert(address, size);
    const net::remote_key key{name.slot, name.generation};
    exposed.emplace_back(*fabric, fabric->caps(), queues->host.gpu_path, address, size,
                         mem::mem_kind::host);
    fabric->publish(key, exposed.back().get());
    return key;
  }
  // rcomp of the default engine for rank_tag.
  rcomp_t engine_rcomp() const { return matcher->first_rcomp + 3; }

  proto::shared_state shared;
  proto::core& core = shared.core;
  mem::packet_pool pool;
  std::unique_ptr<net::fabric> fabric;
  std::unique_ptr<proto::device_queues> queues;
  proto::lent_queue queue;
  std::unique_ptr<proto::matcher> matcher;
  std::vector<proto::network_key> exposed;  // goes before the fabric
};

// A network that knows keys only, as cards do.
inline sim_options card_options() {
  sim_options options{.packets = sim_packets::own, .late = true, .needs_keys = true};
  options.caps.max_inject = 88;
  return options;
}

// A base, so that it is there before the ranks.
struct one_sim {
  sim_world sim;
};

// Ranks on whatever the opener gives them.
struct nodes_world {
  nodes_world(const node::opener& open, int n, std::size_t max_piece = std::size_t{1} << 30,
              const mem::ladder_rules& rules = {}) {
    for (int r = 0; r < n; ++r)
      nodes.push_back(std::make_unique<node>(open, r, n, max_piece, rules));
  }
  ~nodes_world() {
    for (auto& node : nodes)
      if (node) node->fabric->leave();
  }
  node& operator[](int r) { return *nodes[static_cast<std::size_t>(r)]; }
  // Moves everybody; exceptions of progress are kept in `thrown`.
  void step(int rounds = ROUNDS) {
    for (int i = 0; i < rounds; ++i)
      for (auto& node : nodes) {
        if (!node) continue;
        try {
          node->queues->progress();
        } catch (...) {
          thrown.push_back(std::current_exception());
        }
      }
  }

  std::vector<std::unique_ptr<node>> nodes;
  std::vector<std::exception_ptr> thrown;
};

// All of them on one network.
struct proto_world : private one_sim, nodes_world {
  explicit proto_world(sim_options options = {}, int n = 2,
                       std::size_t max_piece = std::size_t{1} << 30,
                       const mem::ladder_rules& rules = {})
      : one_sim{sim_world(n, options)},
        nodes_world([this](int r, const net::fabric_config& c) { return sim.open(r, c); }, n,
                    max_piece, rules) {}
  using one_sim::sim;
};

// Bytes that depend on their place, so that misplaced pieces are found.
inline std::vector<std::byte> pattern(std::size_t n, unsigned seed = 1) {
  std::vector<std::byte> bytes(n);
  for (std::size_t i = 0; i < n; ++i)
    bytes[i] = static_cast<std::byte>((i * 131 + i / 251 + seed) & 0xff);
  return bytes;
}

}  // namespace lci::test
