// What the threads of one rank have in common: the plan, the queue that messages come to, the
// windows, who lives, and when it is over.
//
// Made and destroyed by the main thread, collectively; everything between is shared. Always true: a
// rank that hears nothing new for `patience` says what is missing and ends with status 1, so
// nothing is waited for in vain.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "lci.hpp"
#include "ledger.hpp"
#include "plan.hpp"
#include "tests/support/running_clock.hpp"

namespace stress {

// What one run is made of, beside the plan. What stands still with its machine is not late.
struct settings {
  long patience_s = 60;
  // So many ranks are on each machine, and those of the other machine will be lost. 0: nobody is.
  int cut = 0;
  long within_ms = 0;  // a lost rank is heard of so soon after the last sign of it; 0: any time
  // The shell command that fault_rank runs when it has completed so many actions.
  int fault_rank = 0;
  long fault_at = -1;
  std::string fault;
  // What the checks are for: one action that is spoilt.
  enum class deed { none, drop, twice, corrupt } sabotage = deed::none;
  std::uint32_t spoilt = 0;  // its number

  bool spoils(deed what, const action& a) const { return sabotage == what && spoilt == a.number; }
};

class site {
 public:
  site(const plan& planned, const settings& chosen, int me);
  ~site();

  const plan& work;
  const settings& set;
  const int rank;
  ledger book;
  lci::rmr_t written_key(int of) const { return written_keys_[static_cast<std::size_t>(of)]; }
  lci::rmr_t read_key(int of) const { return read_keys_[static_cast<std::size_t>(of)]; }
  lci::comp_t inbox() const { return inbox_; }
  lci::rcomp_t number() const { return number_; }
  // The put with signal that a notification stands for; throws if there is none.
  const action& signalled(int origin, std::uint64_t ordinal) const;
  const char* written_at(const action& a) const { return written_.data() + a.place; }

  bool is_alive(int of) const;
  // The library says that a rank is gone. Ends the process where that should not be.
  void lose(int lost, const char* why);
  // Something good has happened between that rank and this one.
  void has_news_of(int of);
  void check_patience() const;
  // An action of this rank is complete.
  void has_completed();

  // A worker has nothing left to do of its own; true for the last one.
  bool is_last_to_end() { return busy.fetch_sub(1, std::memory_order_acq_rel) == 1; }
  void has_farewell_of(int of);
  // All that live have done their part, and all that should be lost are.
  bool has_everything() const;
  std::atomic<bool> is_over{false};
  std::atomic<int> busy;

  // After the end: what is wrong, said on stderr; and what there is to say.
  bool verify_end() const;

 private:
  struct peer_state {
    std::atomic<bool> lost{false};
    std::atomic<bool> has_ended{false};
    std::atomic<long> news_ms{0};  // when, by clock_
  };

  bool is_to_be_lost(int of) const { return set.cut != 0 && of / set.cut != rank / set.cut; }
  bool hears_of(int of) const;

  const lci::test::running_clock clock_;
  std::vector<char> written_, read_;
  lci::mr_t written_mr_, read_mr_;
  std::vector<lci::rmr_t> written_keys_, read_keys_;
  lci::comp_t inbox_;
  lci::rcomp_t number_;
  std::vector<std::vector<const action*>> signals_;  // by pair
  std::unique_ptr<peer_state[]> peers_;
  std::atomic<long> news_ms_;
  std::atomic<long> completed_{0};
  std::atomic<long> after_loss_{0};  // good news since the first rank was lost
  std::atomic<bool> has_loss_{false};
};

}  // namespace stress
