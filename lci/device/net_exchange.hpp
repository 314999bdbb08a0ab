// What card queues of two ranks say to each other beside puts and gets: sends, notices of writes
// with immediate data, atomic operations, and the answer to each. Messages are cut into parts that
// a network takes at once; they are meant for what is small. Callers: net_world for what goes out;
// the sink of the device for what comes in; the thread that drives the cards for what had to wait.
// Threads: single, that thread polls the device too. Always true: each request gets one answer,
// when the receiver has taken it or will not (but see MAX_SENDERS); a request whose receiver is not
// ready waits here, and others of other queues go on; what does not parse is dropped; of one queue
// there is one request at a time, and parts of an earlier one are dropped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "lci/device/key_table.hpp"
#include "lci/device/memory_world.hpp"
#include "lci/device/receiver.hpp"
#include "lci/device/world.hpp"
#include "lci/net/backend.hpp"

namespace lci::device {

class net_exchange {
 public:
  static constexpr std::uint32_t MAX_LENGTH = 65536;  // of a request's data
  // Queues of peers that have sent something. Requests of one more are refused with
  // remote_operation, or dropped while there is no place for the answer.
  static constexpr std::size_t MAX_SENDERS = 1024;
  // Answers that the network has not taken. Requests wait for a place.
  static constexpr std::size_t MAX_REPLIES = MAX_SENDERS;

  // A request that goes out: its owner keeps it until it is answered or forgotten.
  struct outgoing {
    int rank = -1;
    wqe::opcode op = wqe::opcode::nop;
    bool solicited = false;
    std::uint32_t to_qpn = 0, from_qpn = 0, imm = 0;
    local_data data{};
    // Set here.
    std::uint32_t ticket = 0, sent = 0;
    bool is_whole = false, is_answered = false;
    wqe::syndrome why{};
    std::uint64_t old = 0;  // of atomic operations, in host order
  };
  // The data of an atomic operation.
  struct atomic_data {
    std::uint64_t address, swap_add, compare, swap_mask, compare_mask;
    std::uint32_t key, size;
  };

  // `keys` are those that peers name in atomic operations. max_inject: of the network.
  net_exchange(net::endpoint& to, std::size_t max_inject, key_table& keys);

  // Receive halves of this rank, and their numbers.
  void add(std::uint32_t qpn, receiver& takes) { receivers_[qpn] = &takes; }

  void begin(outgoing& o) noexcept;
  // What of it the network takes now. The answer comes later.
  void post(outgoing& o) noexcept;
  void forget(outgoing& o) noexcept;  // its owner goes

  // For the device's sink.
  net::verdict on_message(const net::arrival& message) noexcept;
  void on_peer_ended(int rank) noexcept;  // it left or failed

  // What had to wait: requests for receivers, answers for the network.
  void progress_st() noexcept;
  std::size_t senders() const noexcept { return in_.size(); }

 private:
  struct header;
  struct incoming {
    std::uint32_t ticket = 0, received = 0;
    bool is_due = false;  // it is whole and not answered
    wqe::opcode op{};
    bool solicited = false;
    std::uint32_t to_qpn = 0, imm = 0;
    std::vector<std::byte> data;
  };
  struct reply {
    int rank;
    std::uint32_t to_qpn, ticket;
    wqe::syndrome why;
    std::uint64_t old;
  };
  using sender = std::pair<int, std::uint32_t>;  // rank and queue

  void take_part(int rank, const header& h, const std::byte* data, std::size_t size);
  void take_reply(int rank, const header& h) noexcept;
  answer deliver(const sender& from, incoming& m, std::uint64_t* old) noexcept;
  void settle(const sender& from, incoming& m) noexcept;
  errorcode_t post(const reply& r) noexcept;

  net::endpoint& to_;
  const std::size_t part_;  // bytes of data in one message
  memory_world memory_;
  std::map<std::uint32_t, receiver*> receivers_;
  std::vector<outgoing*> out_;
  std::map<sender, incoming> in_;
  std::deque<reply> replies_;
  std::uint32_t tickets_ =
      0;  // grow for as long as peers know this rank: one exchange for a device
};

}  // namespace lci::device
