// Which handler a message of the protocols goes to: each protocol registers its kinds before the
// first message, and the rest of the engine knows none of them. One per device. Threads: handle()
// in the polling thread; add() before that. Always true: a kind has one handler; what has none, or
// a body of another length than its kind has, is not handled.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <type_traits>

#include "lci/net/backend.hpp"
#include "lci/proto/engine/wire.hpp"

namespace lci::proto {

class control_dispatch {
 public:
  // Handle(to, rank, body) answers nothing, or a verdict; a member of To, or a function. It may
  // throw std::bad_alloc, and then nothing has changed.
  template <class Body, auto Handle, class To>
  void add(wire::kind of, To& to) noexcept {
    rows_[static_cast<std::size_t>(of)] = {&call<Body, Handle, To>, &to};
  }
  // False: it has no handler, or none that fits. Throws std::bad_alloc: nothing has changed.
  bool handle(const net::arrival& message, net::verdict& answer) const {
    const auto number = static_cast<std::size_t>(wire::kind_of(message.imm));
    const row* const found = number < wire::KINDS ? &rows_[number] : nullptr;
    return found != nullptr && found->call != nullptr && found->call(found->to, message, answer);
  }

 private:
  struct row {
    bool (*call)(void* to, const net::arrival& message, net::verdict& answer) = nullptr;
    void* to = nullptr;
  };
  template <class Body, auto Handle, class To>
  static bool call(void* with, const net::arrival& message, net::verdict& answer) {
    Body body;
    if (!wire::decode(message.data, message.size, body)) return false;
    To& to = *static_cast<To*>(with);
    if constexpr (std::is_void_v<std::invoke_result_t<decltype(Handle), To&, int, const Body&>>) {
      std::invoke(Handle, to, message.rank, body);
      answer = net::verdict::taken;
    } else {
      answer = std::invoke(Handle, to, message.rank, body);
    }
    return true;
  }

  std::array<row, wire::KINDS> rows_{};
};

}  // namespace lci::proto
