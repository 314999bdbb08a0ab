/// @file library_comp.hpp
/// Internal completion objects; not for programs.
#ifndef LCI_LIBRARY_COMP_HPP
#define LCI_LIBRARY_COMP_HPP

#include <exception>
#include <vector>

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
  /// The same for an operation that has failed although its peer is there. `why` is what progress()
  /// throws, or null where another thread's has done so.
  virtual void fail(std::exception_ptr /*why*/) noexcept { lose(); }  // NOLINT: overrides keep it
};

/// What a collective leaves for the call that waits for it, before it signals the synchronizer.
struct collective_end_t {
  bool has_failed = false;
  bool is_with_progress = false;  // progress() throws it, too, unless it is taken away
  std::exception_ptr why;         // null: progress() of another thread has thrown it
  std::vector<int> backlogged;    // ranks to which a message went into the backlog
};
/// Throws argument_error where no call may wait: in an allocator of active messages.
LCI_PUBLIC void check_may_wait();
/// sync_wait() for a call whose buffers are in use until the collective ends: only that end, or the
/// loss of any rank, ends it. What else progress() throws meanwhile leaves the call afterwards; or
/// a later progress(), if the collective failed or was not the last one of its call.
LCI_PUBLIC void wait_for_collective(const sync_args& args, const collective_end_t& end,
                                    bool is_last);

}  // namespace detail
}  // namespace lci

#endif
