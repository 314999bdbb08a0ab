// Signals a completion object, on the message path. lci's own kinds are reached by a switch and a
// direct call that can be inlined; only objects of the user cost a virtual call.
//
// Threads: any.
#pragma once

#include "lci/comp/counter.hpp"
#include "lci/comp/graph.hpp"
#include "lci/comp/handler.hpp"
#include "lci/comp/kind.hpp"
#include "lci/comp/queue.hpp"
#include "lci/comp/sync.hpp"

namespace lci::comp {

// Throws argument_error for an object that was freed; what the kind throws (a synchronizer that
// gets too many signals); and whatever a handler, a graph's functions or an object of the user
// throws. The object is not empty: callers know what an empty handle means. drop(): called before a
// counter, which keeps no status, counts.
template <class Drop>
void signal(comp_impl_t* object, const status_t& status, Drop&& drop) {
  switch (object->attr.comp_type) {
    case attr_comp_type_t::sync:
      return static_cast<sync*>(object)->add(status);
    case attr_comp_type_t::counter:
      drop();
      return static_cast<counter*>(object)->add_one();
    case attr_comp_type_t::cq:
      return static_cast<queue*>(object)->push(status);
    case attr_comp_type_t::handler:
      return static_cast<handler*>(object)->run(status);
    case attr_comp_type_t::graph:
      return static_cast<graph*>(object)->complete(status.user_context, status);
    case attr_comp_type_t::custom:
      return object->signal(status);
  }
  if (object->attr.comp_type == detail::LIBRARY_COMP) [[likely]]
    return object->signal(status);
  throw_freed(object);
}
inline void signal(comp_impl_t* object, const status_t& status) {
  signal(object, status, [] {});
}

// The operation of that number that was to signal the object has failed, because that rank has
// failed or left: threads that wait for the object are told. The other kinds are not waited for.
LCI_COLD inline void lose(comp_impl_t* object, int rank, std::uint32_t number) noexcept {
  if (object->attr.comp_type == attr_comp_type_t::sync)
    static_cast<sync*>(object)->lose(rank, number);
}

// Lives while an object is given to another operation, once a rank has failed or left; until then
// all operations have the number 0. Unless keep() is called, the destructor takes it back.
class renewal {
 public:
  LCI_COLD explicit renewal(comp_impl_t* object) noexcept {
    if (object->attr.comp_type != attr_comp_type_t::sync) return;
    object_ = static_cast<sync*>(object);
    known_ = object_->renew();
    number_ = object_->number();
  }
  LCI_COLD ~renewal() {
    if (object_ != nullptr) object_->restore(known_);
  }
  renewal(const renewal&) = delete;
  renewal& operator=(const renewal&) = delete;
  void keep() noexcept { object_ = nullptr; }
  std::uint32_t number() const noexcept { return number_; }

 private:
  sync* object_ = nullptr;
  sync::loss known_;
  std::uint32_t number_ = 0;
};

}  // namespace lci::comp
