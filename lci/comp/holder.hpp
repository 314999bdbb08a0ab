// Objects that something under way will signal at its end though no operation names them: a graph
// that runs, a collective that no call waits for. free_comp() refuses them, so that the mistake
// shows where it is made. Operations do not hold their objects: that would cost each message two
// locked instructions (docs/decisions/0025-what-a-call-is-given.md).
//
// Called by: what holds; free_comp(). Threads: shared; each holder is one thread's at a time.
// Always true: whoever holds an object lets it go before it signals it, since who is signalled may
// free it.
#pragma once

#include "lci/completion.hpp"

namespace lci::comp {

class holder {
 public:
  holder() = default;
  ~holder() { let_go(); }
  holder(const holder&) = delete;
  holder& operator=(const holder&) = delete;

  // by: for people, "graph". of: the runtime without which it goes no further; null: none.
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
  holder** link_ = nullptr;  // what leads here
};

// Who holds an object.
struct held {
  const char* by = nullptr;  // null: nobody
  const void* of = nullptr;

  static held find(const comp_impl_t& object) noexcept;
};

// That runtime ends, so nothing of it will signal anybody.
void forget_holders(const void* of) noexcept;

}  // namespace lci::comp
