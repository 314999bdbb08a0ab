// A fabric, as far as it is the same over every network: devices by index, registrations and what
// is known of those of peers. Base of a backend's `fabric`, which owns all of it. Callers: runtime
// through net::fabric. Threads: as net::fabric says.
#pragma once

#include <memory>
#include <string>

#include "lci/errors.hpp"
#include "lci/mem/arena.hpp"
#include "lci/mem/packet_pool.hpp"
#include "lci/mem/region_table.hpp"
#include "lci/net/backend.hpp"
#include "lci/net/connected/device.hpp"
#include "lci/net/connected/device_list.hpp"
#include "lci/net/connected/region_store.hpp"

namespace lci::net::connected {

// Before any member is made. network: for messages.
inline const fabric_config& checked(const fabric_config& config, const char* network) {
  if (config.book == nullptr || config.arena == nullptr || config.regions == nullptr)
    throw backend_error(std::string(network) +
                        ": a fabric needs an address book, an arena and a table of regions");
  return config;
}
// 8 KiB and room for the head of a message; receives are as long.
inline constexpr std::size_t MAX_SEND = 8192 + base::CACHE_LINE;

// Driver, derived from this, has config(), memory(), keys(), calls(), devices() and
// make_queue(index, device_config). Its queues have tell_withdrawn(rank, name),
// which does nothing where there is no connection or it has ended, and leave(says_so).
template <class Driver, class Queue, class Endpoint>
class fabric : public net::fabric {
 public:
  std::string address() const final { return self().calls().address(); }
  using net::fabric::make_device;
  std::unique_ptr<net::device> make_device(int index, device_config& config) final {
    Queue& where = self().devices().get(index, [&] {
      std::unique_ptr<Queue> made = self().make_queue(index, config);
      self().calls().add_queues(*made);
      return made;
    });
    config = where.config();
    return std::make_unique<connected::device<Queue, Endpoint>>(where);
  }
  void connect(int rank) noexcept final {
    if (rank != book().rank()) self().devices().request(rank);
  }
  using net::fabric::check_remote;
  remote_view check_remote(int rank, remote_key key, int device) noexcept final {
    if (rank == book().rank())
      return view_of(self().config().regions->look_up({key.slot, key.generation}));
    const remote_view found = self().keys().find(rank, key, device);
    if (found.what == remote_view::answer::not_connected) self().devices().request(rank, device);
    return found;
  }
  std::uint64_t register_region(void* address, std::size_t size, mem::mem_kind kind,
                                std::string& why_not) final {
    return self().memory().add(address, size, kind, why_not);
  }
  // A rank that was told of it is told of its end on every device on which we are connected, before
  // anything that is sent there from now on, unless the network is full: what it keeps serves all
  // of its devices. On a device on which we are not connected yet it need not be told: it forgets
  // what it keeps, and asks again, whenever it gets one more connection to this rank. One
  // exception: a connection that we still call while it is ready for that rank, since a hello is
  // late. It is told there, but what is sent as soon as the connection is ready may come before.
  void deregister_region(std::uint64_t local_key) noexcept final {
    remote_key name;
    for (const int rank : self().memory().remove(local_key, &name))
      self().devices().for_each([&](Queue& one) { one.tell_withdrawn(rank, name); });
  }
  void publish(remote_key name, std::uint64_t local_key) final {
    self().memory().publish(name, local_key);
  }
  remote_target target_of(remote_key name) noexcept final {
    return self().memory().target_of(name);
  }
  void let_go(int rank, bool has_failed) noexcept final {
    self().devices().for_each([&](Queue& one) { one.let_go(rank, has_failed); });
  }

 protected:
  // All that are connected or called are told that we leave.
  void leave_all() noexcept {
    const auto leave_devices = [this] {
      self().devices().for_each([](Queue& one) { one.leave(true); });
    };
    leave_devices();
    self().calls().leave();
    // Peers that have become ready after the turn of their device.
    leave_devices();
  }

 private:
  Driver& self() noexcept { return static_cast<Driver&>(*this); }
  const Driver& self() const noexcept { return static_cast<const Driver&>(*this); }
  address_book& book() noexcept { return *self().config().book; }
};

}  // namespace lci::net::connected
