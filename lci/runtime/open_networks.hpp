// Opens what a net context needs, together with all other ranks: the network inside the host, one
// between hosts, or both combined. Callers: net_context. Threads: single; lookup() any. Always
// true: all ranks take part in the same rounds of the bootstrap, even one that could open nothing,
// so no rank waits for it in vain.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lci/attr.hpp"
#include "lci/boot/bootstrap.hpp"
#include "lci/net/backend.hpp"

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
  void fill(std::vector<std::string> addresses) { addresses_ = std::move(addresses); }

 private:
  const int rank_, size_;
  const std::function<void()> on_contact_;
  std::vector<std::string> addresses_;  // by rank
};

// What is requested, and the parts of the process that a network uses.
struct network_order {
  net_context_settings_t attr;
  bool shm_enable = true;
  mem::arena* arena = nullptr;
  mem::region_table* regions = nullptr;
  net::peer_table* peers = nullptr;
  bool use_reg_cache = false;
  std::string key;  // the name of its addresses in the bootstrap, the same on all ranks
};

struct opened_networks {
  std::unique_ptr<net::fabric> fabric;
  attr_backend_t backend = attr_backend_t::none;  // of the network between hosts, if there is one
  net::network_names names;                       // of the same
  bool has_local = false;                         // peers of this host are reached inside it
  int ranks_on_machine = 0;                       // this one included
  std::vector<std::uint64_t> words;               // of all ranks: introduction::word
  std::string summary;  // for people: backend, provider, device, how many peers by which network
};

// Collective. `inside` and `between` outlive the result. Throws backend_error: no network is usable
// (with every provider and its reason); ranks that differ (by number); ranks that cannot be
// reached.
opened_networks open_networks(const network_order& order, boot::bootstrap& boot, directory& inside,
                              directory& between);

}  // namespace lci::runtime
