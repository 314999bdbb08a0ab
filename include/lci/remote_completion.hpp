/// @file remote_completion.hpp
/// Numbers by which peers name completion objects: in active messages and in puts with signal.
#ifndef LCI_REMOTE_COMPLETION_HPP
#define LCI_REMOTE_COMPLETION_HPP

#include "lci/completion.hpp"

namespace lci {
namespace detail {

/// Arguments of register_rcomp.
struct register_rcomp_args {
  comp_t comp;
  rcomp_t rcomp = 0;
  runtime_t runtime;
};
/// Arguments of reserve_rcomps and deregister_rcomp.
struct rcomp_args {
  rcomp_t n = 0;  // how many, or which
  runtime_t runtime;
};

LCI_PUBLIC rcomp_t register_rcomp(const register_rcomp_args& args);
LCI_PUBLIC rcomp_t reserve_rcomps(const rcomp_args& args);
LCI_PUBLIC void deregister_rcomp(const rcomp_args& args);

}  // namespace detail

/// Gives an object a number that peers use in active messages and puts with signal. Numbers are
/// assigned in the order of the calls, so symmetric programs need no exchange, but they need a
/// barrier before first use. An empty object gets a number as well: messages for it are dropped and
/// counted, and with `LCI_LOG_LEVEL=info` the end of the runtime logs the count.
/// @return  the number by which peers name the object; never 0
class register_rcomp_x : public detail::operation<register_rcomp_x, detail::register_rcomp_args,
                                                  rcomp_t, &detail::register_rcomp>,
                         public detail::runtime_option<register_rcomp_x>,
                         public detail::comp_positional<register_rcomp_x> {
 public:
  /// Takes the object.
  explicit register_rcomp_x(comp_t comp) { args.comp = comp; }
  /// Sets a number that reserve_rcomps() reserved. Default: 0, the next free one.
  register_rcomp_x&& rcomp(rcomp_t value) {
    args.rcomp = value;
    return self();
  }
};

/// Reserves `n` consecutive numbers.
/// @return  the first of them
class reserve_rcomps_x : public detail::operation<reserve_rcomps_x, detail::rcomp_args, rcomp_t,
                                                  &detail::reserve_rcomps>,
                         public detail::runtime_option<reserve_rcomps_x> {
 public:
  /// Takes the count.
  explicit reserve_rcomps_x(rcomp_t value) { args.n = value; }
  /// Sets the count.
  reserve_rcomps_x&& n(rcomp_t value) {
    args.n = value;
    return self();
  }
};

/// Removes a number; a late message to it makes the receiver's progress() throw, and the sender's
/// too if the message is longer than get_max_bcopy_size(). Large messages of this host that wait
/// for their turn when the number is removed are late.
class deregister_rcomp_x : public detail::operation<deregister_rcomp_x, detail::rcomp_args, void,
                                                    &detail::deregister_rcomp>,
                           public detail::runtime_option<deregister_rcomp_x> {
 public:
  /// Takes the number.
  explicit deregister_rcomp_x(rcomp_t value) { args.n = value; }
  /// Sets the number.
  deregister_rcomp_x&& rcomp(rcomp_t value) {
    args.n = value;
    return self();
  }
};

/// register_rcomp_x without options.
inline rcomp_t register_rcomp(comp_t comp) { return register_rcomp_x(comp).call(); }
/// reserve_rcomps_x without options.
inline rcomp_t reserve_rcomps(rcomp_t n) { return reserve_rcomps_x(n).call(); }
/// deregister_rcomp_x without options.
inline void deregister_rcomp(rcomp_t rcomp) { deregister_rcomp_x(rcomp).call(); }

}  // namespace lci

#endif  // LCI_REMOTE_COMPLETION_HPP
