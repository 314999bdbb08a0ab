// agreement: do all ranks call the same collective, with the same size and root? If they do not,
// messages would wait for each other for ever, or be cut off. On in debug builds, and elsewhere
// with LCI_CHECK_COLLECTIVES=1; costs as much as a barrier before each collective.
//
// Called by: run.cpp. Threads: single; handed on with the plan that uses it. Always true: a rank
// that has carried out the plan knows of a difference exactly if any two ranks differ.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lci/coll/plan.hpp"

namespace lci::coll {

// What must be the same on all ranks.
struct call_t {
  const char* operation = "";
  size_t count = 0;      // items; bytes where the call has no items
  size_t item_size = 1;  // bytes
  int root = 0;
  int algorithm = 0;
  int nsteps = 0;  // of a ring
};

// By LCI_CHECK_COLLECTIVES, the same on all ranks; read once.
bool is_agreement_checked();

class agreement_t {
 public:
  agreement_t(const call_t& mine, int rank);
  agreement_t(const agreement_t&) = delete;
  agreement_t& operator=(const agreement_t&) = delete;

  // Tells all ranks, as a barrier would. The plan uses this object.
  void write(plan_t& plan);
  // The operator that the plan needs, a reduce_op_t.
  static void merge(const void* from, const void*, void* into, size_t);
  // After the plan.
  bool has_difference() const { return view_.has_other != 0; }
  // The same: throws argument_error that names two ranks that differ: this one and another,
  // if this one is among them.
  void check() const;

 private:
  // In the form that travels.
  struct said_t {
    char operation[16];
    uint64_t count, item_size;
    int32_t root, algorithm, nsteps, rank;
  };
  struct view_t {
    said_t mine, other;
    uint64_t has_other;
  };
  static bool is_same(const said_t& a, const said_t& b);
  view_t view_;
};

}  // namespace lci::coll
