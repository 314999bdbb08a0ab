/// @file runtime.hpp
/// Starting and ending the library, and runtimes.
///
/// Threads: one at a time, while no thread communicates. Any thread may call get_rank_me(),
/// get_rank_n() and get_g_runtime() in between.
#ifndef LCI_RUNTIME_HPP
#define LCI_RUNTIME_HPP

#include <string>
#include <vector>

#include "lci/options.hpp"

namespace lci {

/// Initializes the library: finds the other processes and reads the environment. Calls are counted;
/// only the first one has an effect.
/// @throws std::runtime_error  no bootstrap is usable, or an environment variable has an invalid
/// value
LCI_PUBLIC void global_initialize();
/// Undoes one global_initialize(); the last call finalizes the library.
LCI_PUBLIC void global_finalize();
/// Rank of this process. In a process forked from a rank: that rank. All other calls throw
/// argument_error there.
/// @return 0..n-1; -1 outside of initialize..finalize
LCI_PUBLIC int get_rank_me();
/// Number of processes.
/// @return at least 1; -1 outside of initialize..finalize
LCI_PUBLIC int get_rank_n();

namespace detail {

/// Arguments of alloc_runtime and g_runtime_init.
struct alloc_runtime_args {
  overrides_t<runtime_settings_t> settings;
  option_t<std::string> device_name;  // for the default net context
  const char* name = nullptr;         // null: DEFAULT_NAME
  void* user_context = nullptr;
};
/// Arguments of free_runtime.
struct free_runtime_args {
  runtime_t* runtime = nullptr;
};
/// For operations without arguments.
struct no_args {};

LCI_PUBLIC runtime_t alloc_runtime(const alloc_runtime_args& args);
LCI_PUBLIC runtime_t g_runtime_init(const alloc_runtime_args& args);
LCI_PUBLIC void free_runtime(const free_runtime_args& args);
LCI_PUBLIC void g_runtime_fina(const no_args& args);
LCI_PUBLIC runtime_t get_g_runtime(const no_args& args);

struct failed_ranks_args {
  runtime_t runtime;
};
LCI_PUBLIC std::vector<int> get_failed_ranks(const failed_ranks_args& args);

/// Setters of a new runtime; defaults: the global defaults at the time of the call.
template <class Op, runtime_t (*Run)(const alloc_runtime_args&)>
class alloc_runtime_operation : public operation<Op, alloc_runtime_args, runtime_t, Run>,
                                public name_options<Op> {
  typedef runtime_settings_t S;
  template <class T>
  Op&& set(T S::*member, T value) {
    this->args.settings.set(member, value);
    return this->self();
  }

 public:
  /// Sets an attribute; attr.hpp says what it means.
  ///@{
  Op&& packet_return_threshold(size_t value) { return set(&S::packet_return_threshold, value); }
  Op&& imm_nbits_tag(int value) { return set(&S::imm_nbits_tag, value); }
  Op&& imm_nbits_rcomp(int value) { return set(&S::imm_nbits_rcomp, value); }
  Op&& rdv_protocol(attr_rdv_protocol_t value) { return set(&S::rdv_protocol, value); }
  Op&& gpu_resident(int value) { return set(&S::gpu_resident, value); }
  Op&& gpu_gdrcopy(attr_gpu_gdrcopy_t value) { return set(&S::gpu_gdrcopy, value); }
  Op&& gpu_proxy(attr_gpu_proxy_t value) { return set(&S::gpu_proxy, value); }
  Op&& gpu_tier(attr_gpu_tier_t value) { return set(&S::gpu_tier, value); }
  Op&& max_handler_depth(int value) { return set(&S::max_handler_depth, value); }
  Op&& max_handler_wait_s(int value) { return set(&S::max_handler_wait_s, value); }
  Op&& failure_notice(attr_failure_notice_t value) { return set(&S::failure_notice, value); }
  Op&& alloc_default_device(bool value) { return set(&S::alloc_default_device, value); }
  Op&& alloc_default_packet_pool(bool value) { return set(&S::alloc_default_packet_pool, value); }
  Op&& alloc_default_matching_engine(bool value) {
    return set(&S::alloc_default_matching_engine, value);
  }
  ///@}
  /// Sets the NIC of the default net context. Default: the global default `device_name`.
  Op&& device_name(std::string value) {
    this->args.device_name = option_t<std::string>(std::move(value));
    return this->self();
  }
};

}  // namespace detail

/// Creates a runtime that is independent of the global one. Collective: every rank calls it, in the
/// same order. Calls global_initialize(). While it waits for the other ranks it makes progress on
/// the devices of other runtimes, as alloc_device() does.
/// @return  the runtime; free it with free_runtime()
/// @throws lci::backend_error  no backend is usable; the text gives the reason for each
class alloc_runtime_x
    : public detail::alloc_runtime_operation<alloc_runtime_x, &detail::alloc_runtime> {};

/// Frees a runtime and empties the handle. Local: synchronise first. Calls global_finalize().
class free_runtime_x : public detail::operation<free_runtime_x, detail::free_runtime_args, void,
                                                &detail::free_runtime> {
 public:
  /// Takes the handle to empty.
  explicit free_runtime_x(runtime_t* value) { args.runtime = value; }
  /// Sets the handle to empty.
  free_runtime_x&& runtime(runtime_t* value) {
    args.runtime = value;
    return self();
  }
};

/// Creates the global default runtime. A second call warns and returns the existing one; each call
/// needs its own g_runtime_fina(). Collective. Errors: as alloc_runtime_x.
/// @return  the global default runtime, new or existing
class g_runtime_init_x
    : public detail::alloc_runtime_operation<g_runtime_init_x, &detail::g_runtime_init> {};

/// Frees the global default runtime.
class g_runtime_fina_x
    : public detail::operation<g_runtime_fina_x, detail::no_args, void, &detail::g_runtime_fina> {};

/// The global default runtime; empty if there is none.
/// @return  the global default runtime; empty outside of g_runtime_init()..g_runtime_fina()
class get_g_runtime_x : public detail::operation<get_g_runtime_x, detail::no_args, runtime_t,
                                                 &detail::get_g_runtime> {};

/// The ranks that have died or are no longer reachable, as far as progress on any device of the
/// runtime has detected it, in ascending order. Ranks that disconnected are not included.
/// @return  their numbers, ascending; empty if there is none
/// Threads: any. Errors: there is no runtime.
class get_failed_ranks_x : public detail::operation<get_failed_ranks_x, detail::failed_ranks_args,
                                                    std::vector<int>, &detail::get_failed_ranks>,
                           public detail::runtime_option<get_failed_ranks_x> {};

/// alloc_runtime_x without options.
inline runtime_t alloc_runtime() { return alloc_runtime_x().call(); }
/// free_runtime_x without options.
inline void free_runtime(runtime_t* runtime) { free_runtime_x(runtime).call(); }
/// g_runtime_init_x without options.
inline runtime_t g_runtime_init() { return g_runtime_init_x().call(); }
/// g_runtime_fina_x without options.
inline void g_runtime_fina() { g_runtime_fina_x().call(); }
/// get_g_runtime_x without options.
inline runtime_t get_g_runtime() { return get_g_runtime_x().call(); }
/// get_failed_ranks_x without options.
inline std::vector<int> get_failed_ranks() { return get_failed_ranks_x().call(); }

}  // namespace lci

#endif  // LCI_RUNTIME_HPP
