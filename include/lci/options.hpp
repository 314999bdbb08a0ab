/// @file options.hpp
/// The building blocks of operation classes: one setter group per group of options, and the base
/// that holds the arguments and runs the operation.
///
/// Every operation `op` has a class `op_x`: its constructor takes the positional arguments, each
/// argument has a setter of its name that returns the object itself as an rvalue reference, and
/// `call()` or `operator()` runs it. An operation object can be copied, stored, changed and run any
/// number of times; running does not change it. Two threads must not use one object at the same
/// time.
///
/// A handle passed to an option must name an object: for an empty or freed one the call throws
/// lci::argument_error, even if it does not use the option.
#ifndef LCI_OPTIONS_HPP
#define LCI_OPTIONS_HPP

#include <functional>
#include <utility>
#include <vector>

#include "lci/handles.hpp"
#include "lci/status.hpp"

namespace lci {

/// A value that may be missing.
template <class T>
struct option_t {
  T m_value;      ///< the value; default-constructed if missing
  bool m_is_set;  ///< whether it was given

  option_t() : m_value(), m_is_set(false) {}
  /// A given value.
  /// @param value  the value
  option_t(T value) : m_value(std::move(value)), m_is_set(true) {}
  /// A value, and whether it is given.
  /// @param value   the value
  /// @param is_set  whether it is given
  option_t(T value, bool is_set) : m_value(std::move(value)), m_is_set(is_set) {}
  /// The value, or a fallback if it is missing.
  /// @param fallback  the fallback
  /// @return the value to use
  T get_value_or(T fallback) const { return m_is_set ? m_value : std::move(fallback); }
  /// Stores the value if there is one.
  /// @param out  receives the value; otherwise unchanged
  /// @return whether there is a value
  bool get_set_value(T* out) const {
    if (m_is_set) *out = m_value;
    return m_is_set;
  }
  T get_value() const { return m_value; }   ///< the value, given or not
  bool is_set() const { return m_is_set; }  ///< whether it was given
  operator T() const { return m_value; }    ///< the value, given or not
};

namespace detail {

/// Changes to a copy of the defaults, applied when the operation runs: an allocation therefore uses
/// the defaults at the time of the call. For set-up only: it allocates.
template <class Settings>
class overrides_t {
 public:
  /// Records `value` for `member`; a later change to the same member wins.
  template <class Owner, class T>
  void set(T Owner::*member, T value) {
    changes_.push_back([member, value](Settings& settings) { settings.*member = value; });
  }
  /// `defaults` with all changes applied.
  Settings applied_to(Settings defaults) const {
    for (const auto& change : changes_) change(defaults);
    return defaults;
  }

 private:
  std::vector<std::function<void(Settings&)>> changes_;
};

/// Base of all operation classes: holds the arguments and runs `Run` on them.
template <class Op, class Args, class Result, Result (*Run)(const Args&)>
class operation {
 public:
  Args args;  ///< the arguments given so far

  /// Runs the operation.
  Result operator()() const { return Run(args); }
  /// Runs the operation.
  Result call() const { return Run(args); }

 protected:
  // Members have their own initialisers; `args()` would zero them first.
  operation() {}
  explicit operation(const Args& given) : args(given) {}
  Op&& self() { return std::move(static_cast<Op&>(*this)); }
};

/// The value that a setter stores for a handle: an empty handle that was passed must differ from
/// none, so that the call refuses it.
template <class Handle>
Handle given(Handle value) {
  return value.p_impl != nullptr ? value : Handle(reinterpret_cast<void*>(uintptr_t{1}));
}

// Which runtime; default: the one of the given device or endpoint, else the global one.
template <class Op>
struct runtime_option {
  /// Sets the runtime. Default: the one of the given device or endpoint, else the global default
  /// runtime.
  Op&& runtime(runtime_t value) {
    Op& op = static_cast<Op&>(*this);
    op.args.runtime = given(value);
    return std::move(op);
  }
};

// Which device.
template <class Op>
struct device_option {
  /// Sets the device, which has to belong to the runtime that is given. Default: the runtime's
  /// default device.
  Op&& device(device_t value) {
    Op& op = static_cast<Op&>(*this);
    op.args.device = given(value);
    return std::move(op);
  }
};

// Which endpoint.
template <class Op>
struct endpoint_option {
  /// Sets the endpoint, which has to belong to the device and runtime that are given. Default: the
  /// device's default endpoint. For progress it only names its device, where none is given.
  Op&& endpoint(endpoint_t value) {
    Op& op = static_cast<Op&>(*this);
    op.args.endpoint = given(value);
    return std::move(op);
  }
};

// Which packet pool.
template <class Op>
struct packet_pool_option {
  /// Sets the packet pool. Default: the device's pool for posts, else the runtime's default pool.
  Op&& packet_pool(packet_pool_t value) {
    Op& op = static_cast<Op&>(*this);
    op.args.packet_pool = given(value);
    return std::move(op);
  }
};

// Which matching engine.
template <class Op>
struct matching_engine_option {
  /// Sets the matching engine. Default: the runtime's default engine; for collectives its internal
  /// one.
  Op&& matching_engine(matching_engine_t value) {
    Op& op = static_cast<Op&>(*this);
    op.args.matching_engine = given(value);
    return std::move(op);
  }
};

// What completion means.
template <class Op>
struct comp_semantic_option {
  /// Sets the meaning of local completion. Default: comp_semantic_t::memory.
  Op&& comp_semantic(comp_semantic_t value) {
    Op& op = static_cast<Op&>(*this);
    op.args.comp_semantic = value;
    return std::move(op);
  }
};

// The caller's own pointer.
template <class Op>
struct user_context_option {
  /// Sets a pointer for the caller's use. Default: null.
  Op&& user_context(void* value) {
    Op& op = static_cast<Op&>(*this);
    op.args.user_context = value;
    return std::move(op);
  }
};

// Name and context of a new resource.
template <class Op>
struct name_options : user_context_option<Op> {
  /// Sets the name; stored by pointer, never copied or freed. Default: DEFAULT_NAME.
  Op&& name(const char* value) {
    Op& op = static_cast<Op&>(*this);
    op.args.name = value;
    return std::move(op);
  }
};

// Completion object.
template <class Op>
struct comp_option {
  /// Sets the completion object: the operation then returns at once and signals it on completion.
  /// Default: COMP_NULL, the operation blocks.
  Op&& comp(comp_t value) {
    Op& op = static_cast<Op&>(*this);
    op.args.comp = value;
    return std::move(op);
  }
};

/// Arguments of free_net_context, free_device, free_endpoint, free_packet_pool,
/// free_matching_engine.
template <class Handle>
struct free_args {
  Handle* handle = nullptr;
  runtime_t runtime;
};
/// Arguments of the get_default_* operations.
struct get_default_args {
  runtime_t runtime;
  device_t device;  // get_default_endpoint only
};

/// Base of the allocations of resources with settings.
template <class Op, class Args, class Settings, class Handle, Handle (*Run)(const Args&)>
class alloc_operation : public operation<Op, Args, Handle, Run>,
                        public runtime_option<Op>,
                        public name_options<Op> {
 protected:
  typedef Settings S;
  template <class T>
  Op&& set(T Settings::*member, T value) {
    this->args.settings.set(member, std::move(value));
    return this->self();
  }
};

/// Base of the operations that free a resource.
template <class Op, class Handle, void (*Run)(const free_args<Handle>&)>
class free_operation : public operation<Op, free_args<Handle>, void, Run>,
                       public runtime_option<Op> {
 protected:
  explicit free_operation(Handle* value) { this->args.handle = value; }
  Op&& set(Handle* value) {
    this->args.handle = value;
    return this->self();
  }
};

/// Base of the get_default_* operations.
template <class Op, class Handle, Handle (*Run)(const get_default_args&)>
class get_default_operation : public operation<Op, get_default_args, Handle, Run>,
                              public runtime_option<Op> {};

}  // namespace detail
}  // namespace lci

#endif  // LCI_OPTIONS_HPP
