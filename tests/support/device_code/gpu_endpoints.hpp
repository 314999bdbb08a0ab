// Endpoints of several ranks for kernels of one GPU, without a proxy: records and shared words in
// memory of the GPU, rings and completions in pinned memory, and a card in software for each queue,
// which the caller drives. Callers: the suites of tests/accelerator and the benchmark of calls of
// kernels. Threads: single; kernels use the endpoints meanwhile. Always true: what kernels are
// given was written before finish() returned; memory is the source's, which frees it.
#pragma once

#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "lci/device/card_queue.hpp"
#include "lci/gpu/record.hpp"

namespace lci::test {

// Where memory comes from: zeroed, and aligned to 256 bytes.
class gpu_memory {
 public:
  virtual ~gpu_memory() = default;
  // What is taken from now on is for this rank.
  virtual void select(int /*rank*/) {}
  virtual void* of_gpu(std::size_t size) = 0;
  virtual void* pinned(std::size_t size) = 0;
  virtual void write(void* gpu, const void* from, std::size_t size) = 0;
};

struct gpu_endpoint_options {
  int ranks = 2;
  std::uint32_t blocks = 1024;
  std::uint32_t max_inline = 220;
  std::uint64_t limit_ns = 30'000'000'000;
  bool words_in_gpu = true;  // abort and ends; else in pinned memory, where the host sets them
};

class gpu_endpoints {
 public:
  static constexpr std::uint64_t GENERATION = gpu::OF_GPU | 9;
  using make_world =
      std::function<std::unique_ptr<device::world>(int from, int to, device::key_table& keys)>;

  gpu_endpoints(gpu_memory& memory, const gpu_endpoint_options& options, const make_world& world)
      : memory_(memory), options_(options) {
    for (int i = 0; i < options.ranks; ++i) add_rank(i, world);
  }

  gpu::endpoint_t endpoint(int rank) const { return {ranks_[at(rank)].in_gpu, GENERATION}; }
  device::key_table& keys() { return keys_; }
  // Requests that ended.
  std::size_t progress() {
    std::size_t n = 0;
    for (auto& r : ranks_)
      for (auto& q : r.cards) n += q->progress_st();
    return n;
  }
  std::size_t progress(int from, int to) { return ranks_[at(from)].cards[at(to)]->progress_st(); }
  std::uint32_t* abort_word(int rank) { return ranks_[at(rank)].words; }
  std::uint32_t* ended_word(int rank) { return ranks_[at(rank)].words + 1; }
  void free_endpoint(int rank) {
    const std::uint64_t other = GENERATION + 1;
    memory_.select(rank);
    memory_.write(ranks_[at(rank)].in_gpu, &other, sizeof(other));
  }
  // Pinned memory that requests may name.
  gpu::key_t register_pinned(int rank, void* memory, std::uint64_t size) {
    const std::uint64_t address = reinterpret_cast<std::uintptr_t>(memory);
    using namespace device;
    const std::uint32_t key = keys_.add({static_cast<std::byte*>(memory), size,
                                         WRITE | REMOTE_READ | REMOTE_WRITE | REMOTE_ATOMIC});
    return {address, size, 0, key, rank};
  }

 private:
  struct rank_memory {
    gpu::endpoint_record* in_gpu = nullptr;
    std::uint32_t* words = nullptr;
    std::vector<std::unique_ptr<device::world>> worlds;
    std::vector<std::unique_ptr<device::card_queue>> cards;
  };
  static std::size_t at(int rank) { return static_cast<std::size_t>(rank); }
  template <class T>
  T* gpu_array(std::size_t count) {
    return static_cast<T*>(memory_.of_gpu(count * sizeof(T)));
  }
  template <class T>
  T* pinned_array(std::size_t count) {
    return static_cast<T*>(memory_.pinned(count * sizeof(T)));
  }

  gpu::peer_record add_queue(rank_memory& r, int from, int to, const make_world& world) {
    gpu::peer_record peer;
    wqe::send_queue& q = peer.queue;
    q.qpn = static_cast<std::uint32_t>(from * options_.ranks + to + 1);
    q.ring = {pinned_array<wqe::octoword>(options_.blocks * 4), options_.blocks};
    auto* const record = pinned_array<std::uint32_t>(4);
    q.cq = {pinned_array<unsigned char>(std::size_t{options_.blocks} * wqe::CQE_SIZE),
            options_.blocks, wqe::CQE_SIZE, record};
    q.bell = {wqe::doorbell_form::mailbox, record + 2, pinned_array<std::uint64_t>(1), 0};
    q.limits.max_inline = 220;
    q.waits = {r.words, options_.limit_ns};
    // In the GPU's memory it is zero, which is how it begins.
    q.state = gpu_array<wqe::send_queue_state>(1);
    wqe::make_unused(q.cq);
    peer.ended = r.words + 2 + to;
    r.worlds.push_back(world(from, to, keys_));
    r.cards.push_back(std::make_unique<device::card_queue>(
        device::card_queue_options{q.ring, q.cq, q.bell, q.qpn}, keys_, *r.worlds.back()));
    return peer;
  }

  void add_rank(int me, const make_world& world) {
    constexpr std::uint32_t SCRATCH = 64, RECEIVES = 64;
    memory_.select(me);
    ranks_.emplace_back();
    rank_memory& r = ranks_.back();
    const std::size_t words = 2 + at(options_.ranks);
    r.words = options_.words_in_gpu ? gpu_array<std::uint32_t>(words)
                                    : pinned_array<std::uint32_t>(words);
    std::vector<gpu::peer_record> peers;
    for (int to = 0; to < options_.ranks; ++to) peers.push_back(add_queue(r, me, to, world));
    auto* const in_gpu = gpu_array<gpu::peer_record>(peers.size());
    memory_.write(in_gpu, peers.data(), peers.size() * sizeof(peers[0]));
    gpu::endpoint_record record;
    record.generation = GENERATION;
    record.me = static_cast<std::uint32_t>(me);
    record.ranks = static_cast<std::uint32_t>(options_.ranks);
    record.gpu = 0;
    record.max_inline = options_.max_inline;
    record.peers = in_gpu;
    record.waits = {r.words, options_.limit_ns};
    record.any_ended = r.words + 1;
    record.receives = pinned_array<gpu::receive_slot>(RECEIVES);
    record.receive_count = RECEIVES;
    record.next_receive = gpu_array<std::uint64_t>(1);
    auto* const scratch = pinned_array<std::uint64_t>(SCRATCH + 1);
    record.scratch = register_pinned(me, scratch, (SCRATCH + 1) * 8);
    record.scratch.mapped = record.scratch.base;
    record.scratch_count = SCRATCH;
    record.scratch_taken = gpu_array<std::uint64_t>(SCRATCH);
    r.in_gpu = gpu_array<gpu::endpoint_record>(1);
    memory_.write(r.in_gpu, &record, sizeof(record));
  }

  gpu_memory& memory_;
  gpu_endpoint_options options_;
  device::key_table keys_;
  std::vector<rank_memory> ranks_;
};

}  // namespace lci::test
