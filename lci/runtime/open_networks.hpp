// Opens what a net context needs, together with all other ranks: the network inside the host, one
// between hosts, or both combined. Callers: net_context. Threads: single; lookup() any. Always
// true: all ranks take part in the same rounds, even one that could open nothing, so no rank waits
// for it in vain.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lci/attr.hpp"
#include "lci/boot/bootstrap.hpp"
#include "lci/net/backend.hpp"
#include "lci/net/provider.hpp"
#include "lci/net/route.hpp"
#include "lci/runtime/introduction.hpp"
#include "lci/runtime/text_list.hpp"

namespace lci::runtime {

// The addresses of one network. Known after the exchange and fixed from then on, since any thread
// may ask.
class directory final : public net::address_book {
 public:
  directory(int rank, int size, std::function<void()> on_contact)
      : rank_(rank), size_(size), on_contact_(std::move(on_contact)) {}
  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return size_; }
  // A network calls it when it meets a peer.
  std::string lookup(int peer) override;
  void fill(text_list addresses) { addresses_ = std::move(addresses); }

 private:
  const int rank_, size_;
  const std::function<void()> on_contact_;
  text_list addresses_;  // by rank
};

// What is requested, and the parts of the process that a network uses.
struct network_order {
  net_context_settings_t attr;
  bool shm_enable = true;
  mem::arena* arena = nullptr;
  mem::region_table* regions = nullptr;
  net::peer_table* peers = nullptr;
  bool use_reg_cache = false;
  bool is_one_of_many = false;  // as net::fabric_config
  std::string key;              // the name of its addresses in the bootstrap, the same on all ranks
  std::vector<std::string> allowed;  // providers by name; empty: all
};

struct opened_networks {
  std::unique_ptr<net::fabric> fabric;
  attr_backend_t backend = attr_backend_t::none;  // of the network between hosts, if there is one
  net::network_names names;                       // of the same
  bool has_local = false;                         // peers of this host are reached inside it
  bool is_crowded = false;                        // more ranks than cores for them here
  std::vector<std::uint64_t> words;               // of all ranks: introduction::word
  std::string summary;  // for people: backend, provider, device, how many peers by which network
  std::string why;      // for people: why not by those that come first
};

// The steps, one for each round in which every rank says something to all others. They never wait.
// `inside` and `between` outlive the result. Throws backend_error: no network is usable (with every
// provider and its reason); ranks that differ (by number); ranks that cannot be reached.
class opening {
 public:
  opening(network_order order, directory& inside, directory& between);
  const std::string& key() const noexcept { return order_.key; }
  // What this rank says in the first round.
  std::string begin();
  // What all ranks have said in this round. Answers what this one says in the next round; nothing:
  // there is none.
  std::optional<std::string> heard(const told_by& said);
  // Once after the last round.
  opened_networks result();

 private:
  // One opened network and its provider.
  struct one_network {
    const net::provider* provider = nullptr;
    std::unique_ptr<net::fabric> fabric;
  };
  void open_inner();
  void read_introductions(const told_by& said);
  bool needs_outer() const;
  void require_all_inside() const;
  std::string why_not(const net::provider& p) const;
  const net::provider& choose_outer();
  std::string open_outer();
  void connect_outer(const told_by& said);
  void require_all_reached(const text_list& addresses) const;
  bool is_allowed(const net::provider& p) const noexcept;
  bool is_inner_wanted() const noexcept { return wanted_ != attr_backend_t::none && wants(inner_); }
  bool wants(const one_network& it) const noexcept {
    return it.provider != nullptr && it.provider->backend == wanted_;
  }

  const network_order order_;
  directory& inside_;
  directory& between_;
  const int me_;
  const attr_backend_t wanted_;
  one_network inner_, outer_;
  std::string why_no_inner_;
  std::string passed_over_;  // each with its reason
  introductions all_;
  std::vector<net::way> ways_;
  bool has_opened_outer_ = false;
  std::exception_ptr problem_;  // of this rank, which the others are told before it is thrown
};

// Has the library of the network between hosts loaded that would be chosen among those that are
// allowed (network_order). The first time in a process takes tenths of a second, and many times
// that on a busy machine: better before a peer waits. Threads: any.
void load_network(const std::vector<std::string>& allowed);

// Collective: the rounds by the bootstrap; work: see bootstrap::fence_with(). Throws what the steps
// throw.
void open_all(opening& steps, boot::bootstrap& boot, boot::meanwhile* work);
opened_networks open_networks(const network_order& order, boot::bootstrap& boot, directory& inside,
                              directory& between);

}  // namespace lci::runtime
