// Who owns what: the objects behind runtime_t, net_context_t, packet_pool_t, matching_engine_t and
// mr_t. One thread at a time makes and frees them (api 6.11); any may use them. Always true: a
// runtime outlives everything allocated from it; what a program forgot to free is freed with the
// runtime, with a warning.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "lci/base/type_stable.hpp"
#include "lci/collective.hpp"
#include "lci/handles.hpp"
#include "lci/mem/packet_pool.hpp"
#include "lci/mem/payload_pool.hpp"
#include "lci/net/backend.hpp"
#include "lci/proto/device_queues.hpp"
#include "lci/proto/engine/network_key.hpp"
#include "lci/proto/host/matcher.hpp"
#include "lci/runtime/device_numbers.hpp"
#include "lci/runtime/extension.hpp"
#include "lci/runtime/failure_detector.hpp"
#include "lci/runtime/job_member.hpp"
#include "lci/runtime/open_networks.hpp"

namespace lci {

// What reaches all ranks: a network, or shared memory inside the host and a network between hosts.
class net_context_impl_t : public base::live_object<net_context_impl_t> {
 public:
  // Collective: exchanges addresses with all ranks. Throws what open_networks() throws.
  net_context_impl_t(runtime_impl_t& owner, const net_context_attr_t& wanted);
  // The same by steps, for a caller that must not wait: it carries what the ranks say in each round
  // of opening(), and then calls finish(). `allowed`: see network_order.
  net_context_impl_t(runtime_impl_t& owner, const net_context_attr_t& wanted,
                     std::vector<std::string> allowed);
  runtime::opening& opening() noexcept { return *opening_; }
  void finish();
  ~net_context_impl_t();

  runtime_impl_t& owner;
  net_context_attr_t attr;
  const std::size_t wanted_msg_size;  // attribute max_msg_size, before the common limit lowered it

 private:
  void say_once() noexcept;
  runtime::network_order order_from(std::vector<std::string> allowed) const;

  std::once_flag said_;
  std::string summary_, why_;
  runtime::directory inside_, between_;
  std::unique_ptr<runtime::opening> opening_;  // until finish(); looks into the directories

 public:
  std::unique_ptr<net::fabric> fabric;  // looks into the directories
  bool has_local = false;               // peers of this host are reached inside it
  runtime::device_numbers numbers;
  // Some peer is reached by a network that delivers data and then an immediate.
  bool may_use_putimm() const noexcept;
  // For people: backend, provider, device, how many peers by which network.
  const std::string& summary() const noexcept { return summary_; }
  // Why not by networks that come before those: a line for each, or nothing.
  const std::string& why() const noexcept { return why_; }
};

class packet_pool_impl_t : public base::live_object<packet_pool_impl_t> {
 public:
  // `allocator`: for the payloads, not owned; null: they lie in the arena, as usual.
  packet_pool_impl_t(runtime_impl_t& owner, const packet_pool_attr_t& wanted,
                     allocator_base_t* allocator = nullptr);
  ~packet_pool_impl_t();

  runtime_impl_t& owner;
  packet_pool_attr_t attr;
  mem::packet_pool packets;  // with an allocator: holds none, but is what they name as their pool
  std::unique_ptr<mem::payload_pool> payloads;  // with an allocator
  // "B" (api 6.2): the largest message that can be sent through a packet with room for the extended
  // header.
  std::size_t max_bcopy() const noexcept;
};

class matching_engine_impl_t : public base::live_object<matching_engine_impl_t> {
 public:
  matching_engine_impl_t(runtime_impl_t& owner, const matching_engine_attr_t& wanted);
  ~matching_engine_impl_t();

  runtime_impl_t& owner;
  matching_engine_attr_t attr;
  proto::matcher match;
  std::atomic<std::uint64_t> next_collective{0};  // number of the next collective on this engine
};

// Where a buffer is; starts the accelerator if one is needed. Throws argument_error for memory that
// is never handled, with a sentence that names the kind, and backend_error when the accelerator
// cannot be used.
mem::memory_place place_of(proto::shared_state& shared, const void* address);

class mr_impl_t : public base::live_object<mr_impl_t> {
 public:
  // As for completion objects.
  static constexpr std::size_t QUARANTINE = 4096;
  mr_impl_t(net_context_impl_t& network, void* address, std::size_t size);
  ~mr_impl_t();

  runtime_impl_t& owner;
  mr_attr_t attr;
  void* const address;
  const std::size_t size;
  const mem::memory_place place;
  const proto::network_key key;  // of `address` with the network
  mem::region_name name;

 private:
  void withdraw() noexcept;
  mem::share_place shared_;  // what peers of this machine are told to find it by
};

// Collectives that have not ended. Threads: shared; end_all() expects no other thread inside.
class unfinished_list {
 public:
  void add(detail::unfinished_t& one) noexcept {
    const std::lock_guard lock(lock_);
    one.before = nullptr;
    one.after = first_;
    if (first_ != nullptr) first_->before = &one;
    first_ = &one;
  }
  void remove(detail::unfinished_t& one) noexcept {
    const std::lock_guard lock(lock_);
    (one.before != nullptr ? one.before->after : first_) = one.after;
    if (one.after != nullptr) one.after->before = one.before;
  }
  // Calls see(description) for each; false when another thread holds the lock. For a signal
  // handler.
  template <class Fn>
  bool try_look(Fn&& see) noexcept {
    const std::unique_lock lock(lock_, std::try_to_lock);
    if (!lock.owns_lock()) return false;
    for (const detail::unfinished_t* one = first_; one != nullptr; one = one->after)
      see(one->calls->describe(one));
    return true;
  }
  void end_all() noexcept {
    while (detail::unfinished_t* const one = first_) {
      remove(*one);
      one->calls->end(one);
    }
  }

 private:
  base::spinlock lock_;
  detail::unfinished_t* first_ = nullptr;
};

class runtime_impl_t : public base::live_object<runtime_impl_t> {
 public:
  // Of the job.
  explicit runtime_impl_t(const runtime_attr_t& wanted, const std::string& device_name);
  // Without a net context: the caller makes it, and then calls complete().
  runtime_impl_t(const runtime_attr_t& wanted, const runtime::job_member& member);
  ~runtime_impl_t();
  // Takes the net context, whole, as the default and makes the other defaults. Collective, if a
  // device is one of them.
  void complete(net_context_impl_t& network);

  const runtime::job_member member;
  runtime_attr_t attr;
  proto::shared_state shared;
  proto::core& core = shared.core;
  net_context_t default_net_context;
  packet_pool_t default_packet_pool;
  matching_engine_t default_matching_engine;
  matching_engine_t collective_engine;
  device_t default_device;
  // The default packet pool, or a hidden one, which exists so that devices have a pool when the
  // program wants no default.
  packet_pool_t internal_pool();

  // Everything allocated from this runtime and not freed yet, oldest first.
  std::vector<net_context_impl_t*> net_contexts;
  std::vector<packet_pool_impl_t*> packet_pools;
  std::vector<matching_engine_impl_t*> engines;
  std::vector<device_impl_t*> devices;
  std::vector<mr_impl_t*> regions;
  base::spinlock regions_lock;  // guards regions: registration may be concurrent
  unfinished_list unfinished;
  // When progress last asked for news of other ranks, which it does every 128 rounds, at most once
  // in 10 ms; in cpu_ticks(), 0: never.
  std::uint64_t last_look() const noexcept { return failures_.last_look(); }

  // Before the runtime ends: its operations are of no use any more. What is still on its way to
  // other ranks is not waited for, only what uses memory without them.
  void let_go() noexcept { is_let_go_ = true; }
  bool is_let_go() const noexcept { return is_let_go_; }

  // Before the runtime ends, while its devices and regions are whole: tells the extension of each.
  void end_extension() noexcept {
    lci::runtime::extension* const above = extension();
    if (above == nullptr) return;
    for (device_impl_t* const one : devices) above->on_device_ends(*one);
  }
  // Null until extend() was called. edge runtime.extension: partner is extend().
  lci::runtime::extension* extension() const noexcept {
    return extension_.load(std::memory_order_acquire);
  }
  // The one that is there, or make() has made. Any thread; throws what make() throws.
  template <class Make>
  lci::runtime::extension& extend(Make&& make) {
    const std::lock_guard lock(extension_lock_);
    if (!extension_owned_) {
      extension_owned_ = make();
      // edge runtime.extension: partner is extension().
      extension_.store(extension_owned_.get(), std::memory_order_release);
    }
    return *extension_owned_;
  }

 private:
  std::mutex extension_lock_;  // guards the making
  std::unique_ptr<lci::runtime::extension> extension_owned_;
  std::atomic<lci::runtime::extension*> extension_{nullptr};
  lci::runtime::failure_detector failures_{core};
  packet_pool_t hidden_pool_;
  bool is_let_go_ = false;
  void free_children() noexcept;
};

// Removes `child` from a list of its owner.
template <class T>
void forget(std::vector<T*>& list, T* child) {
  std::erase(list, child);
}

}  // namespace lci
