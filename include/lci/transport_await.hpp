/// @file transport_await.hpp
/// `co_await` of a transfer, where the compiler has coroutines; else nothing. Header only, so that
/// the library is the same for every language level.
#ifndef LCI_TRANSPORT_AWAIT_HPP
#define LCI_TRANSPORT_AWAIT_HPP

#include "lci/transfer.hpp"

#if defined(__cpp_impl_coroutine) && __cpp_impl_coroutine >= 201902L
#define LCI_HAVE_AWAIT 1  ///< transfers can be awaited

#include <coroutine>
#include <exception>

namespace lci {

/// Waits in a coroutine. It is resumed in the thread that makes progress.
class transfer_awaiter {
 public:
  /// @param what  the operation
  explicit transfer_awaiter(const transfer& what) : what_(what) {}
  /// Part of the protocol of coroutines.
  /// @return whether it has ended
  bool await_ready() const { return what_.is_done(); }
  /// Part of the protocol of coroutines.
  /// @param waiting  is resumed at the end
  void await_suspend(std::coroutine_handle<> waiting) const {
    // The coroutine, and with it this object, may end inside the call.
    const transfer held = what_;
    held.on_done([waiting](std::exception_ptr) { waiting.resume(); });
  }
  /// Part of the protocol of coroutines. Throws as transfer::get() does.
  void await_resume() const { what_.get(); }

 private:
  transfer what_;
};

/// Makes a transfer awaitable.
/// @param what  the operation
/// @return what the compiler needs
inline transfer_awaiter operator co_await(const transfer& what) { return transfer_awaiter(what); }

}  // namespace lci
#endif

#endif  // LCI_TRANSPORT_AWAIT_HPP
