/// @file library_comp.hpp
/// Internal completion objects; not for programs.
#ifndef LCI_LIBRARY_COMP_HPP
#define LCI_LIBRARY_COMP_HPP

#include "lci/completion.hpp"

namespace lci {
namespace detail {

/// Kind of internal objects, in addition to the named kinds: they run no code of the program. They
/// are signalled at every depth of handlers.
constexpr attr_comp_type_t LIBRARY_COMP =
    static_cast<attr_comp_type_t>(static_cast<int>(attr_comp_type_t::custom) + 1);

/// Base of all objects of that kind.
class LCI_PUBLIC library_comp_t : public comp_impl_t {
 public:
  library_comp_t() { attr.comp_type = LIBRARY_COMP; }
  /// An operation that should have signalled this object has failed or was abandoned. Called by any
  /// thread.
  virtual void lose() noexcept {}
};

}  // namespace detail
}  // namespace lci

#endif
