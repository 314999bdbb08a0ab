// One rank in a process of its own: the member of a group whose other members are elsewhere.
//
// Threads: the process's. Always true: constructed means that
// every rank has opened its fabric and published its address.
#pragma once

#include <sched.h>
#include <unistd.h>

#include <cstdio>
#include <stdexcept>
#include <string>
#include <string_view>

#include "lci/net/provider.hpp"
#include "tests/contract/group.hpp"
#include "tests/support/process_harness.hpp"

namespace lci::test {

class rank_process final : public net::address_book {
 public:
  rank_process(rank_job& me, const std::string& provider) : self(me.size()), me_(me) {
    net::fabric_config config;
    config.book = this;
    config.arena = &self.arena;
    config.regions = &self.regions;
    config.peers = &self.peers;
    for (const net::provider& p : net::providers()) {
      if (p.name == provider) self.fabric = p.open(config);
    }
    if (!self.fabric) throw std::runtime_error("no provider is called " + provider);
    self.add_device(0);
    // Addresses may hold any byte but are exchanged as text.
    me.publish("address", self.fabric->address());
    me.publish("pid", std::to_string(getpid()));
    std::string sockets;
    for (const std::string& name : own_abstract_sockets()) sockets += name + " ";
    me.publish("sockets", sockets);
    me.barrier("opened", [] { sched_yield(); });
    // Now, since a bootstrap is one thread's, and a later barrier may fence in another.
    for (int rank = 0; rank < me.size(); ++rank) addresses_.push_back(me.lookup(rank, "address"));
  }
  ~rank_process() { self.close(); }
  int rank() const noexcept override { return me_.rank(); }
  int size() const noexcept override { return me_.size(); }
  std::string lookup(int rank) override { return addresses_.at(static_cast<std::size_t>(rank)); }

  // Polls, and lets others run: there are more processes than cores.
  void poll() {
    self.poll();
    if (++polls_ % 16 == 0) sched_yield();
  }
  void until(const std::function<bool()>& done) {
    while (!done()) poll();  // the child's watchdog bounds it
  }
  // False when the peer is gone.
  bool post(const std::function<errorcode_t()>& one_post) {
    for (;;) {
      const errorcode_t answer = one_post();
      if (answer == errorcode_t::fatal) return false;
      if (!is_retry(answer)) return true;
      poll();
    }
  }
  // A registration of ours, for all; and that of another rank.
  void publish(net::remote_key key) {
    me_.publish("key", std::to_string(key.slot) + " " + std::to_string(key.generation));
  }
  net::remote_key published(int rank) {
    net::remote_key key;
    until([&] { return !me_.lookup(rank, "key").empty(); });
    EXPECT_EQ(std::sscanf(me_.lookup(rank, "key").c_str(), "%u %u", &key.slot, &key.generation), 2);
    return key;
  }
  // Connects, until the bounds of that registration are known.
  void meet(int rank, net::remote_key key) {
    self.fabric->connect(rank);
    until(
        [&] { return self.fabric->check_remote(rank, key).what == net::remote_view::answer::ok; });
  }
  void barrier(std::string_view point) {
    me_.barrier(point, [&] { poll(); });
  }
  bool is_gone(int rank) {
    for (const seen_gone& g : self.seen().gone()) {
      if (g.rank == rank) return true;
    }
    return false;
  }
  // Meets the others at a point while polling, takes leave, and waits until all that are left have
  // done so.
  void leave(const std::vector<int>& dead = {}) {
    me_.barrier(
        "before leave", [&] { poll(); }, dead);
    self.fabric->leave();
    me_.barrier(
        "after leave", [&] { poll(); }, dead);
  }

  member self;

 private:
  rank_job& me_;
  std::vector<std::string> addresses_;  // by rank
  unsigned polls_ = 0;
};

}  // namespace lci::test
