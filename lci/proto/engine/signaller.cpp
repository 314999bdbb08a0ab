#include "lci/proto/engine/signaller.hpp"

#include <exception>
#include <new>
#include <utility>

#include "lci/comp/signal.hpp"
#include "lci/library_comp.hpp"
#include "lci/mem/packet_pool.hpp"
#include "lci/proto/engine/waiter.hpp"

namespace lci::proto {

void signaller::fail(const user_side& user) noexcept {
  const int rank = user.status.rank;
  const bool is_by_loss = rank >= 0 && watch_.is_lost(rank);
  end_failed(user, is_by_loss, is_by_loss ? nullptr : errors_.newest());
}

void signaller::fail_here(const user_side& user, std::exception_ptr why) noexcept {
  end_failed(user, false, std::move(why));
}

void signaller::end_failed(const user_side& user, bool is_by_loss,
                           std::exception_ptr why) noexcept {
  const int rank = user.status.rank;
  if (is_by_loss && !user.is_arrival) {
    errors_.concern(rank);
    watch_.miss(rank);
  }
  if (user.comp == nullptr) return;
  if (user.is_waiter) {
    auto* const of = static_cast<waiter*>(user.comp);
    return is_by_loss ? of->fail_by_loss(rank) : of->fail(std::move(why));
  }
  if (user.comp->attr.serial != user.serial) return;  // it was freed
  if (user.comp->attr.comp_type == detail::LIBRARY_COMP) {
    auto* const of = static_cast<detail::library_comp_t*>(user.comp);
    return is_by_loss ? of->lose() : of->fail(std::move(why));
  }
  if (is_by_loss) comp::lose(user.comp, rank, user.number);
}

// Too deep inside of handlers, or behind others that were.
void signaller::signal_in_turn(comp_impl_t& to, const status_t& status, bool is_completion,
                               news what) noexcept {
  if (handler_depth::now() > handlers_.limit()) {
    if (handlers_.add(to, status, is_completion, what)) return;
    // Without memory it is better to be too deep than to lose it.
  } else {
    handlers_.run(handlers_.size());
  }
  signal_now(&to, status, what, is_completion);
}

void signaller::signal_now(comp_impl_t* to, const status_t& status, news what,
                           bool is_completion) noexcept {
  try {
    comp::signal(to, status, [&] {
      if (what == news::message) drop_buffer(status, what);
    });
  } catch (const comp::freed_error& error) {
    errors_.keep_made([&] { return freed_too_early(status, what, error.what()); });
    drop_buffer(status, what);
  } catch (const std::bad_alloc&) {
    // A queue could not grow. What code of the program throws is the program's.
    if (to->attr.comp_type == attr_comp_type_t::cq &&
        handlers_.add(*to, status, is_completion, what))
      return;
    drop_refused(*to, status, what);
  } catch (...) {
    drop_refused(*to, status, what);
  }
}

// By the exception that is being handled. A synchronizer that is full, a queue without memory and a
// graph, whose nodes no message names, have not kept the status; the program's own code has got it.
void signaller::drop_refused(const comp_impl_t& to, const status_t& status, news what) noexcept {
  errors_.keep(std::current_exception());
  const attr_comp_type_t kind = to.attr.comp_type;
  if (kind == attr_comp_type_t::sync || kind == attr_comp_type_t::cq ||
      kind == attr_comp_type_t::graph)
    drop_buffer(status, what);
}

void signaller::keep_freed(const comp_impl_t* to, const status_t& status, news what) noexcept {
  errors_.keep_made([&] { return freed_too_early(status, what, comp::freed_text(to).c_str()); });
}

void signaller::drop_buffer(const status_t& status, news what) noexcept {
  if (what != news::message) return;
  const bool is_packet = mem::packet_pool::held(shared_.arena, status.buffer) != nullptr;
  // edge core.allocator: partner is set_allocator().
  shared_.give_back(status.buffer,
                    is_packet ? nullptr : shared_.allocator.load(std::memory_order_acquire));
}

}  // namespace lci::proto
