// A job in one process: its ranks' memory behind one key table, an endpoint of each rank over cards
// in software, and a world that matches messages as the host's engine would. Endpoints are for
// threads of the process. Callers: the tests of lci/gpu; one thread drives the cards. Threads: any
// make calls, one drives. Always true: each rank's memory lies between guards; keys of memory that
// is "mapped" say where it is, the others leave it to the cards.
#pragma once

#include <atomic>
#include <cstring>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "lci/device.cuh"
#include "lci/device/card_queue.hpp"
#include "lci/device/memory_world.hpp"
#include "tests/unit/device/pair.hpp"

namespace lci::test {

struct job_options {
  int ranks = 2;
  std::uint32_t blocks = 64;
  std::uint32_t max_inline = 220;
  std::uint64_t max_message = wqe::DEFAULT_MAX_MESSAGE;
  std::size_t memory = 4096;
  std::uint32_t receives = 4, scratch = 4;
  std::uint32_t queue_capacity = 4, queue_message = 64;
};

class gpu_job;

// Of the queue from rank `from` to rank `to`.
class matching_world final : public device::world {
 public:
  matching_world(gpu_job& job, device::key_table& keys, int from, int to)
      : memory_(keys, nullptr, 0), job_(job), from_(from), to_(to) {}
  device::answer put(wqe::opcode op, const device::local_data& data, device::remote_place to,
                     std::uint32_t imm, bool solicited) noexcept override;
  device::answer get(device::remote_place from, const device::local_data& to) noexcept override;
  device::answer send(wqe::opcode op, const device::local_data& data, std::uint32_t imm,
                      bool solicited) noexcept override;
  device::answer atomic(wqe::opcode op, const wqe::atomic_operands& with, device::remote_place at,
                        std::byte* old) noexcept override;

 private:
  device::memory_world memory_;
  gpu_job& job_;
  int from_, to_;
};

// One queue with all its memory.
struct job_queue {
  job_queue(gpu_job& job, device::key_table& keys, const job_options& options, int from, int to,
            const wqe::wait_limits& waits)
      : ring(std::size_t{options.blocks} * 64),
        cq(std::size_t{options.blocks} * 64),
        world(job, keys, from, to) {
    wqe::send_queue& q = queue;
    q.qpn = static_cast<std::uint32_t>(from * 16 + to + 1);
    q.ring = {ring.data(), options.blocks};
    q.cq = {cq.data(), options.blocks, wqe::CQE_SIZE, record};
    q.bell = {wqe::doorbell_form::mailbox, record, &mailbox, 0};
    q.limits = {220, options.max_message};
    q.waits = waits;
    q.state = &state;
    EXPECT_EQ(wqe::prepare(q), wqe::status::ok);
    card = std::make_unique<device::card_queue>(
        device::card_queue_options{q.ring, q.cq, q.bell, q.qpn, 0, options.max_message}, keys,
        world);
  }
  wqe::send_queue queue;
  guarded ring, cq;
  std::uint32_t record[2] = {};
  std::uint64_t mailbox = 0;
  wqe::send_queue_state state = {};
  matching_world world;
  std::unique_ptr<device::card_queue> card;
};

// What a rank is.
struct job_rank {
  job_rank(gpu_job& job, device::key_table& keys, const job_options& o, int me)
      : memory(o.memory, 0x11),
        scratch(8 * (std::size_t{o.scratch} + 1)),
        receives(o.receives),
        slots(std::size_t{o.queue_capacity} * stride(o)) {
    using namespace device;
    key = keys.add(
        {memory.data(), memory.size(), WRITE | REMOTE_READ | REMOTE_WRITE | REMOTE_ATOMIC});
    scratch_key = keys.add({scratch.data(), scratch.size(), WRITE});
    scratch_taken.assign(o.scratch, 0);
    for (int to = 0; to < o.ranks; ++to)
      queues.push_back(
          std::make_unique<job_queue>(job, keys, o, me, to, wqe::wait_limits{&abort, 0}));
    for (const auto& q : queues) peers.push_back({q->queue, nullptr});
    ended.assign(peers.size(), 0);
    for (std::size_t i = 0; i < peers.size(); ++i) peers[i].ended = &ended[i];
    record.generation = 7;
    record.me = static_cast<std::uint32_t>(me);
    record.ranks = static_cast<std::uint32_t>(o.ranks);
    record.max_inline = o.max_inline;
    record.peers = peers.data();
    record.waits = {&abort, 0};
    record.any_ended = &any_ended;
    record.receives = receives.data();
    record.receive_count = o.receives;
    record.next_receive = &next_receive;
    record.scratch = {scratch.address(), scratch.size(), scratch.address(), scratch_key, me};
    record.scratch_count = o.scratch;
    record.scratch_taken = scratch_taken.data();
    queue.slots = reinterpret_cast<unsigned char*>(slots.data());
    queue.capacity = o.queue_capacity;
    queue.stride = stride(o);
    queue.taken = &taken;
    queue.endpoint = &record;
    queue.generation = 7;
  }
  static std::uint32_t stride(const job_options& o) {
    return static_cast<std::uint32_t>(sizeof(gpu::message_slot) + (o.queue_message + 7) / 8 * 8);
  }
  struct posted_receive {
    std::uint32_t slot;
    int from;
    std::uint64_t tag;
    std::byte* to;
    std::uint64_t room;
  };
  struct message {
    int from;
    std::uint64_t tag;
    std::vector<std::byte> bytes;
  };

  guarded memory, scratch;
  std::uint32_t key = 0, scratch_key = 0;
  std::vector<std::uint64_t> scratch_taken;
  std::vector<gpu::receive_slot> receives;
  guarded slots;
  std::vector<std::unique_ptr<job_queue>> queues;
  std::vector<gpu::peer_record> peers;
  std::vector<std::uint32_t> ended;
  std::uint32_t abort = 0, any_ended = 0;
  std::uint64_t next_receive = 0, taken = 0;
  gpu::endpoint_record record;
  gpu::queue_record queue;
  // Of its host; under the thread that drives.
  std::deque<posted_receive> waiting;
  std::deque<message> unexpected, for_queue;
  std::vector<message> active;  // to other remote completions
  std::uint64_t queue_turn = 0;
};

class gpu_job {
 public:
  static constexpr std::uint32_t KERNEL_QUEUE = 5, HANDLER = 6;  // remote completions

  explicit gpu_job(const job_options& options = {}) {
    for (int i = 0; i < options.ranks; ++i)
      ranks_.push_back(std::make_unique<job_rank>(*this, keys, options, i));
  }
  ~gpu_job() { stop(); }

  job_rank& operator[](int rank) { return *ranks_[static_cast<std::size_t>(rank)]; }
  gpu::endpoint_t endpoint(int rank) { return {&(*this)[rank].record, 7}; }
  gpu::queue_t kernel_queue(int rank) { return {&(*this)[rank].queue}; }
  // The memory of `owner`, reached directly or not.
  gpu::key_t key(int owner, bool mapped = false) {
    job_rank& r = (*this)[owner];
    return {r.memory.address(), r.memory.size(), mapped ? r.memory.address() : 0, r.key, owner};
  }
  gpu::place_t at(int owner, std::uint64_t offset, bool mapped = false) {
    return {key(owner, mapped), offset};
  }
  // Own memory, which threads read and write.
  gpu::place_t here(int rank, std::uint64_t offset) { return at(rank, offset, true); }
  std::byte* bytes(int rank, std::uint64_t offset = 0) {
    return (*this)[rank].memory.data() + offset;
  }
  std::uint64_t* word(int rank, std::uint64_t offset) {
    return reinterpret_cast<std::uint64_t*>(bytes(rank, offset));
  }
  bool is_whole() {
    bool all = true;
    for (auto& r : ranks_) {
      all &= r->memory.is_whole() && r->scratch.is_whole() && r->slots.is_whole();
      for (auto& q : r->queues) all &= q->ring.is_whole() && q->cq.is_whole();
    }
    return all;
  }

  // Requests that ended.
  std::size_t progress() {
    std::size_t n = 0;
    for (auto& r : ranks_) {
      for (auto& q : r->queues) n += q->card->progress_st();
      fill_queue(*r);
    }
    return n;
  }
  // In a thread of its own, until stop().
  void start() {
    driver_ = std::thread([this] {
      while (!stopped_.load(std::memory_order_relaxed))
        if (progress() == 0) std::this_thread::yield();
    });
  }
  void stop() {
    stopped_.store(true, std::memory_order_relaxed);
    if (driver_.joinable()) driver_.join();
  }

  device::answer take(int from, int to, const std::byte* bytes, std::uint64_t length) {
    gpu::message_head head;
    if (!gpu::read_head(bytes, length, &head))
      return device::failed(wqe::syndrome::local_qp_operation);
    std::byte* data = nullptr;
    if (head.length != 0) {
      data = keys.resolve(head.lkey, head.laddr, head.length, device::READ);
      if (data == nullptr) return device::failed(wqe::syndrome::local_protection);
    }
    if (head.kind == gpu::message_kind::recv) {
      receive((*this)[from], {head.rcomp, head.rank, head.tag, data, head.length});
      return {};
    }
    job_rank::message m{from, head.tag, {}};
    if (data != nullptr) m.bytes.assign(data, data + head.length);
    if (head.inline_length != 0)
      m.bytes.assign(bytes + sizeof(head), bytes + sizeof(head) + head.inline_length);
    job_rank& r = (*this)[to];
    if (head.kind == gpu::message_kind::send) {
      arrive(r, std::move(m));
    } else if (head.rcomp == KERNEL_QUEUE) {
      r.for_queue.push_back(std::move(m));
    } else {
      r.active.push_back(std::move(m));
    }
    return {};
  }

  device::key_table keys;

 private:
  static bool fits(const job_rank::posted_receive& r, const job_rank::message& m) {
    return r.tag == m.tag && (r.from == gpu::ANY_RANK || r.from == m.from);
  }
  static void deliver(job_rank& rank, const job_rank::posted_receive& r,
                      const job_rank::message& m) {
    const bool is_short = m.bytes.size() <= r.room;
    if (is_short && !m.bytes.empty()) std::memcpy(r.to, m.bytes.data(), m.bytes.size());
    gpu::receive_slot& slot = rank.receives[r.slot];
    slot.result = static_cast<std::int32_t>(is_short ? gpu::status::ok : gpu::status::too_long);
    slot.rank = m.from;
    slot.size = m.bytes.size();
    slot.tag = m.tag;
    wqe::word_at<std::uint64_t> state(&slot.state);
    state.store(state.load(std::memory_order_acquire) + 1, std::memory_order_release);
  }
  static void receive(job_rank& rank, const job_rank::posted_receive& r) {
    for (auto m = rank.unexpected.begin(); m != rank.unexpected.end(); ++m) {
      if (!fits(r, *m)) continue;
      deliver(rank, r, *m);
      rank.unexpected.erase(m);
      return;
    }
    rank.waiting.push_back(r);
  }
  static void arrive(job_rank& rank, job_rank::message m) {
    for (auto r = rank.waiting.begin(); r != rank.waiting.end(); ++r) {
      if (!fits(*r, m)) continue;
      deliver(rank, *r, m);
      rank.waiting.erase(r);
      return;
    }
    rank.unexpected.push_back(std::move(m));
  }
  static void fill_queue(job_rank& r) {
    while (!r.for_queue.empty()) {
      auto* const slot = reinterpret_cast<gpu::message_slot*>(
          r.queue.slots + (r.queue_turn & (r.queue.capacity - 1)) * r.queue.stride);
      wqe::word_at<std::uint64_t> turn(&slot->turn);
      if (turn.load(std::memory_order_acquire) != 0) return;
      const job_rank::message& m = r.for_queue.front();
      slot->tag = m.tag;
      slot->rank = m.from;
      // Relaxed: the turn behind it says that it is there.
      wqe::word_at<std::uint32_t>(&slot->size)
          .store(static_cast<std::uint32_t>(m.bytes.size()), std::memory_order_relaxed);
      if (!m.bytes.empty()) std::memcpy(slot + 1, m.bytes.data(), m.bytes.size());
      turn.store(++r.queue_turn, std::memory_order_release);
      r.for_queue.pop_front();
    }
  }

  std::vector<std::unique_ptr<job_rank>> ranks_;
  std::atomic<bool> stopped_{false};
  std::thread driver_;
};

inline device::answer matching_world::put(wqe::opcode op, const device::local_data& data,
                                          device::remote_place to, std::uint32_t imm,
                                          bool solicited) noexcept {
  return memory_.put(op, data, to, imm, solicited);
}
inline device::answer matching_world::get(device::remote_place from,
                                          const device::local_data& to) noexcept {
  return memory_.get(from, to);
}
inline device::answer matching_world::send(wqe::opcode, const device::local_data& data,
                                           std::uint32_t imm, bool) noexcept {
  if (imm != gpu::MESSAGE) return device::failed(wqe::syndrome::local_qp_operation);
  alignas(8) std::byte bytes[220];
  if (data.count != 1 || data.length > sizeof(bytes))
    return device::failed(wqe::syndrome::local_length);
  std::memcpy(bytes, data.pieces[0].at, data.length);
  return job_.take(from_, to_, bytes, data.length);
}
inline device::answer matching_world::atomic(wqe::opcode op, const wqe::atomic_operands& with,
                                             device::remote_place at, std::byte* old) noexcept {
  return memory_.atomic(op, with, at, old);
}

}  // namespace lci::test
