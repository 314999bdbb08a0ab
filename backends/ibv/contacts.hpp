// Who the peers are: where their datagrams go, where their table of registrations is, and whether
// the process behind a rank exists. Owned by connector. Threads: directory_of() and has_died()
// shared; the rest under the connector's lock. Always true: what is known of a rank does not
// change.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "backends/ibv/handles.hpp"
#include "backends/ibv/select.hpp"
#include "backends/ibv/wire.hpp"
#include "lci/net/backend.hpp"

namespace lci::ibv {

// The fabric of this process, but for its queue pair. Throws backend_error.
fabric_address describe_this_process(const chosen_port& where);

// What is known of a rank.
struct contact {
  bool is_known = false;
  fabric_address address;
  ah_handle handle;
  // edge ibv.directory: address before key; partner is directory_of().
  std::atomic<std::uint64_t> directory{0};
  std::atomic<std::uint32_t> directory_key{0};
  // Of a process of this machine: readable once it has ended. -1: of another machine, not known, or
  // no such descriptors here; ENDED: it had ended already.
  std::atomic<int> process{-1};
  static constexpr int ENDED = -2;
};

class contacts {
 public:
  contacts(const chosen_port& where, ibv_pd* pd, net::address_book& book);
  ~contacts();
  contacts(const contacts&) = delete;
  contacts& operator=(const contacts&) = delete;

  // Null while the rank's address is not known. here: of this process. Throws backend_error.
  contact* find(int rank, const fabric_address& here);
  // The first word of a peer about its table counts.
  static void set_directory(contact& who, std::uint64_t address, std::uint32_t key) noexcept;
  // What a peer published; false before its first hello.
  bool directory_of(int rank, std::uint64_t& address, std::uint32_t& key) const noexcept;
  // Whether it is a process of this machine that does not exist any more.
  bool has_died(int rank) const noexcept;

 private:
  const chosen_port& where_;
  ibv_pd* const pd_;
  net::address_book& book_;
  std::vector<contact> of_;  // by rank
};

}  // namespace lci::ibv
