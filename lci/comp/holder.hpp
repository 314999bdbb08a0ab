// Objects that something under way will signal at its end although no operation names them: those
// of a graph that runs, or of a collective that no call waits for. free_comp() refuses them, so
// that the mistake shows where it is made. Operations do not hold their objects: that would cost
// each message two locked instructions (docs/decisions/0025-what-a-call-is-given.md).
//
// Called by: graphs and collectives, which hold; free_comp(). Threads: shared; each holder is used
// by one thread at a time.
// Always true: a holder releases its object before it is signalled, since the receiver of the
// signal may free it.
#pragma once

#include "lci/completion.hpp"

namespace lci::comp {

class holder {
 public:
  holder() = default;
  ~holder() { let_go(); }
  holder(const holder&) = delete;
  holder& operator=(const holder&) = delete;

  // by: for people, "graph". of: the runtime that has to make progress for it; null: none.
  void hold(const comp_impl_t& object, const char* by, const void* of) noexcept;
  void let_go() noexcept;

 private:
  friend struct held;
  friend void forget_holders(const void* of) noexcept;
  void unlink_locked() noexcept;

  const comp_impl_t* object_ = nullptr;  // null: holds nothing
  const char* by_ = nullptr;
  const void* of_ = nullptr;
  holder* next_ = nullptr;
  holder** link_ = nullptr;  // the pointer that leads here
};

// What holds an object.
struct held {
  const char* by = nullptr;  // null: nothing
  const void* of = nullptr;

  static held find(const comp_impl_t& object) noexcept;
};

// That runtime ends, so nothing in it will signal any object.
void forget_holders(const void* of) noexcept;

}  // namespace lci::comp
