// Keeps free_comp() from freeing an object that something under way will signal at its end although
// no operation names it: that of a graph that runs, or of a collective that no call waits for. So
// the mistake shows where it is made. Operations have no guard: that would cost each message two
// locked instructions (docs/decisions/0025-what-a-call-is-given.md).
//
// Called by: graphs and collectives, which own guards; free_comp(). Threads: shared; each guard is
// used by one thread at a time.
// Always true: a guard lets go of its object before that is signalled, since the receiver of the
// signal may free it.
#pragma once

#include "lci/completion.hpp"

namespace lci::comp {

class free_guard {
 public:
  free_guard() = default;
  ~free_guard() { let_go(); }
  free_guard(const free_guard&) = delete;
  free_guard& operator=(const free_guard&) = delete;

  // by: for people, "graph". of: the runtime that has to make progress for it; null: none.
  void hold(const comp_impl_t& object, const char* by, const void* of) noexcept;
  void let_go() noexcept;

 private:
  friend struct held;
  friend void forget_free_guards(const void* of) noexcept;
  void unlink_locked() noexcept;

  const comp_impl_t* object_ = nullptr;  // null: guards nothing
  const char* by_ = nullptr;
  const void* of_ = nullptr;
  free_guard* next_ = nullptr;
  free_guard** link_ = nullptr;  // the pointer that leads here
};

// Whose guard an object has.
struct held {
  const char* by = nullptr;  // null: nothing
  const void* of = nullptr;

  static held find(const comp_impl_t& object) noexcept;
};

// That runtime ends, so nothing in it will signal any object.
void forget_free_guards(const void* of) noexcept;

}  // namespace lci::comp
