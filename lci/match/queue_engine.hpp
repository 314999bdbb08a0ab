// The plain engine: two lists in order of arrival behind one lock. Good for a handful of
// outstanding receives and for comparison; the cost of an insert grows with what is filed.
//
// Threads: shared, one spinlock.
//
// Always true: the lists are in order of filing, so the oldest partner is the first one found.
#pragma once

#include "lci/base/spinlock.hpp"
#include "lci/match/engine.hpp"
#include "lci/match/entry.hpp"

namespace lci::match {

class queue_engine final : public engine {
 public:
  void* insert_send(const match_key& key, void* value) override;
  void* insert_recv(const recv_pattern& pattern, void* value) override;
  void* insert_recv(const recv_pattern& pattern, entry& mine) override;
  void* insert_raw(matching_entry_key_t key, void* value, matching_entry_type_t type) override;
  bool remove_recv(const recv_pattern& pattern, const void* value) override;
  void remove_recvs(const recv_test& takes) override;
  void remove_sends(const send_test& takes) override;
  bool all_older(const recv_pattern& pattern, const void* value, const value_test& is_it) override;
  void drain_st(const leave_fn& leave) override;
  std::size_t size() override;
  std::size_t look_at(look_fn see, void* with) noexcept override;

 private:
  // The key's space of a receive with a wildcard; its pattern is in rank and tag.
  static constexpr std::uint32_t WILDCARD = exact_key::RAW + 1;

  template <class Predicate>
  void* meet_or_file(entry* mine, Predicate&& is_partner);
  static exact_key key_of(const recv_pattern& pattern) noexcept;

  entry_pool pool_;      // synchronises itself; may allocate, so never used under the lock
  base::spinlock lock_;  // guards all below
  arrival_list sends_;
  arrival_list recvs_;
};

}  // namespace lci::match
