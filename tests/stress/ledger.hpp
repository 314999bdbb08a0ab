// What has to happen at this rank, and what has: every action is verified at exactly one rank,
// once.
//
// Owned by the site. Threads: shared; the checks of the end are for one thread when all others are
// through. Always true: an action that is verified a second time, and one that nobody planned for
// this rank, throw.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "plan.hpp"

namespace stress {

class ledger {
 public:
  ledger(const plan& work, int rank);

  // The action that a peer means by a number; throws where it is not to be verified here.
  const action& expected(std::uint64_t number, kind what, int origin) const;
  // Throws when `data` is not what the action brings.
  static void compare(const action& a, const void* data);
  void verified(const action& a);
  // Whether everything has come that concerns that rank, plain puts left aside: nobody is told of
  // those.
  bool is_complete_with(int rank) const;

  using predicate = std::function<bool(int rank)>;
  // Names of what has not come, of that which concerns ranks that live.
  std::vector<std::string> missing(const predicate& is_alive) const;
  // What is wrong in the window that others wrote to.
  std::vector<std::string> wrong_in(const std::vector<char>& window,
                                    const predicate& is_alive) const;
  static constexpr char UNTOUCHED = 0x5c;  // what the window is filled with before

 private:
  // At which rank it is verified, and which other one has to live for that.
  static int verifier_of(const action& a) { return a.what == kind::get ? a.origin : a.peer; }
  static int partner_of(const action& a) { return a.what == kind::get ? a.peer : a.origin; }

  const plan& work_;
  const int rank_;
  std::unique_ptr<std::atomic<bool>[]> seen_;               // by number
  std::vector<std::uint32_t> expected_;                     // by partner
  std::unique_ptr<std::atomic<std::uint32_t>[]> verified_;  // by partner
};

}  // namespace stress
