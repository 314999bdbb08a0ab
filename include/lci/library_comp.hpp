/// @file library_comp.hpp
/// Completion objects of the library's own; not for programs.
#ifndef LCI_LIBRARY_COMP_HPP
#define LCI_LIBRARY_COMP_HPP

#include "lci/completion.hpp"

namespace lci {
namespace detail {

/// Kind of objects in which none of the program's code runs, beside those that have a name: the
/// library's own. They are signalled at every depth of handlers.
constexpr attr_comp_type_t LIBRARY_COMP =
    static_cast<attr_comp_type_t>(static_cast<int>(attr_comp_type_t::custom) + 1);

/// Base of all of that kind.
class LCI_PUBLIC library_comp_t : public comp_impl_t {
 public:
  library_comp_t() { attr.comp_type = LIBRARY_COMP; }
  /// An operation that was to signal it has failed, or was given up, and will not. Called by any
  /// thread.
  virtual void lose() noexcept {}
};

}  // namespace detail
}  // namespace lci

#endif
