// A group of ranks inside one process, connected by the backend under test.
//
// A test makes a group, posts through its members and polls all of them until something has
// happened. Threads: set-up, until() and post() belong to the test's thread; single calls to
// endpoints and devices are as shared as the contract says. Always true: waiting ends; who waits in
// vain gets a test failure that says for what, and where everybody stands.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lci/mem/arena.hpp"
#include "lci/mem/packet_pool.hpp"
#include "lci/mem/region_table.hpp"
#include "lci/net/backend.hpp"
#include "lci/net/peer_table.hpp"
#include "tests/contract/recorder.hpp"
#include "tests/contract/registering.hpp"

namespace lci::test {

// Everything that one rank owns, in the order in which a runtime would make it.
struct member {
  static constexpr std::size_t PACKET_SIZE = 8320;  // bytes, as the library's for messages of 8 KiB
  static constexpr std::size_t MAX_PACKETS = 160;

  explicit member(int ranks = 1)
      : arena(std::size_t{1} << 30),
        regions(arena),
        peers(ranks),
        packets(arena, PACKET_SIZE, MAX_PACKETS) {}
  void poll();
  void add_device(int index);
  // Endpoints, devices and the fabric go.
  void close();
  // Registers memory for peers, with the table and with the fabric.
  net::remote_key expose(void* address, std::size_t size);
  void hide(net::remote_key key);
  // How many packets can be had at once, wherever they lie now: all of them, unless one was lost.
  std::size_t obtainable_packets();
  net::endpoint& to(int device = 0) { return *endpoints[static_cast<std::size_t>(device)]; }
  recorder& seen(int device = 0) { return *sinks[static_cast<std::size_t>(device)]; }

  mem::arena arena;
  mem::region_table regions;
  net::peer_table peers;
  mem::packet_pool packets;
  net::device_config wanted;                     // of devices
  std::vector<std::unique_ptr<recorder>> sinks;  // by device
  std::atomic<std::size_t> presented{0};         // events, as poll() of the devices answered
  std::unique_ptr<net::fabric> fabric;
  std::vector<std::unique_ptr<net::device>> devices;
  std::vector<std::unique_ptr<net::endpoint>> endpoints;
  held_keys held;  // of local buffers
  std::vector<std::pair<net::remote_key, std::uint64_t>>
      registered;  // and the fabric's own key of it
};

using open_fabric =
    std::function<std::unique_ptr<net::fabric>(int rank, const net::fabric_config& config)>;

class group {
 public:
  group(int ranks, int devices, const open_fabric& open, const net::device_config& wanted = {});
  ~group();
  group(const group&) = delete;
  group& operator=(const group&) = delete;

  int size() const { return static_cast<int>(members_.size()); }
  member& at(int rank) { return *members_[static_cast<std::size_t>(rank)]; }
  bool is_open(int rank) const {
    return members_[static_cast<std::size_t>(rank)]->fabric != nullptr;
  }
  const net::capabilities& caps() const { return caps_; }
  // Polls every open device once.
  void poll();
  // Polls until `done`; on a standstill fails the test and answers false.
  bool until(const std::function<bool()>& done, std::string_view what);
  // Repeats a post until it is accepted, polling in between. Answers done or posted.
  errorcode_t post(const std::function<errorcode_t()>& one_post);
  // Connects and waits until `from` knows the bounds of a registration of `to`.
  void learn(int from, int to, net::remote_key key);
  // Polls until nothing posted is under way any more, and a little longer, so that what comes too
  // often is seen.
  void settle();
  // Polls until every pool can hand out all of its packets. A thread that has ended may have kept
  // some of a peer's until its device's poller notices.
  void bring_packets_home();
  // Closes one rank: device and fabric go, with leave() or, as in a death, without a word.
  void close(int rank, bool orderly);

 private:
  class book;
  net::capabilities caps_;
  // How long until() waits; short after the first time in vain, so that a broken backend fails
  // soon.
  std::chrono::milliseconds patience_{20000};
  std::vector<std::unique_ptr<book>> books_;
  std::vector<std::unique_ptr<member>> members_;
};

// What a backend brings to the suite.
struct backend_under_test {
  std::string name;
  std::function<std::unique_ptr<group>(int ranks, int devices)> make_group;
};

// For failure texts; the library's own table is on a floor that this suite does not link.
inline const char* name_of(errorcode_t code) {
  switch (code) {
    case errorcode_t::done:
      return "done";
    case errorcode_t::posted:
      return "posted";
    case errorcode_t::retry:
      return "retry";
    case errorcode_t::retry_lock:
      return "retry_lock";
    case errorcode_t::retry_nopacket:
      return "retry_nopacket";
    case errorcode_t::retry_nomem:
      return "retry_nomem";
    case errorcode_t::fatal:
      return "fatal";
    default:
      return "an answer that no backend gives";
  }
}
inline bool is_retry(errorcode_t code) {
  return code > errorcode_t::retry_min && code < errorcode_t::retry_max;
}

// Bytes that differ between messages and between places of one message.
std::vector<std::byte> pattern(std::size_t size, std::uint32_t salt);

}  // namespace lci::test
