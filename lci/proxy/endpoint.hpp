// The host side of an endpoint that kernels use: its memory, and a card in software for the queue
// to each rank. Callers: the calls of gpu.hpp; the driver of its device, which serves it. Threads:
// made and ended by one; serve_st() single; abort() any. Always true: records are written before
// the handle is given out; a queue that has ended is reported once. Over a card (tiers T0 to T2)
// its queues take all but messages and atomic operations, which go through the card in software,
// and end with the endpoint: no kernel may be using it then.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "lci/device/card_queue.hpp"
#include "lci/gpu.hpp"
#include "lci/proxy/block.hpp"
#include "lci/proxy/card_lane.hpp"
#include "lci/proxy/gpu_queue.hpp"
#include "lci/proxy/keys.hpp"
#include "lci/proxy/messages.hpp"
#include "lci/proxy/proxy_world.hpp"
#include "lci/proxy/raised_words.hpp"
#include "lci/runtime/device.hpp"

namespace lci::proxy {

// Of a request of four blocks.
inline constexpr std::uint32_t MAX_INLINE = 220;

struct endpoint_settings {
  int gpu = gpu::NO_GPU;
  attr_gpu_proxy_t proxy = attr_gpu_proxy_t::off;
  attr_gpu_tier_t tier = attr_gpu_tier_t::proxy;
  std::uint32_t depth = 0, max_inline = 0, receives = 0;
  std::uint64_t wait_limit_ms = 0;
};

class endpoint {
 public:
  // Throws backend_error, argument_error and std::bad_alloc.
  endpoint(device_impl_t& device, const endpoint_settings& wanted, keys& all,
           std::uint64_t generation);
  ~endpoint();
  endpoint(const endpoint&) = delete;
  endpoint& operator=(const endpoint&) = delete;

  // Looks at all queues once; answers how many requests have ended.
  std::size_t serve_st() noexcept;
  // Every request that was posted has ended. In the thread that serves.
  bool is_idle_st() noexcept;
  // lci still has objects that are in here.
  bool is_in_use() const noexcept;
  // Receives that have met a message which is not in yet.
  bool has_receives() const noexcept { return receives_->any(); }
  // Waits of kernels end, and nothing more is posted. What was posted goes on.
  void stop_kernels() noexcept;
  // And what was posted ends as flushed.
  void abort() noexcept;
  // No thread serves it any more: receives that no message has met end.
  void take_receives_back() noexcept;
  // The handle names nothing any more. The record, which has to outlive the endpoint.
  block retire() noexcept;
  // And all else that kernels read, for one whose kernels may still be waiting. Once it is not in
  // use.
  std::array<block, 2> part_with() noexcept { return {std::move(shared_), std::move(own_)}; }

  gpu::endpoint_t handle() const noexcept { return {record_, generation_}; }
  const gpu::endpoint_record* record() const noexcept { return record_; }
  device_impl_t& device() const noexcept { return device_; }
  const endpoint_settings& settings() const noexcept { return settings_; }

  bool is_over_card() const noexcept { return card_ != nullptr; }
  // The number by which the card's requests name what was registered so; 0: none.
  std::uint32_t card_key_of(std::uint64_t local_key) const noexcept {
    return card_->key_of(local_key);
  }

  // A call uses it until unpin(), so that it does not end meanwhile. False: it is hidden, to end
  // when no call uses it any more. Both under the lock of the list in which calls find it.
  bool try_pin() noexcept {
    // Relaxed: the lock orders it.
    if (!is_hidden_) pins_.fetch_add(1, std::memory_order_relaxed);
    return !is_hidden_;
  }
  void hide() noexcept { is_hidden_ = true; }
  // edge proxy.pin: the call is over before the endpoint ends. Partner is is_pinned().
  void unpin() noexcept { pins_.fetch_sub(1, std::memory_order_release); }
  // edge proxy.pin: partner is unpin().
  bool is_pinned() const noexcept { return pins_.load(std::memory_order_acquire) != 0; }

  void add(gpu_queue& queue);
  void remove(gpu_queue& queue) noexcept;
  // A mapping of a peer's memory that a key of this endpoint names. Any thread.
  void keep(mem::mapped_memory&& one) {
    const std::lock_guard lock(mapped_lock_);
    mapped_.push_back(std::move(one));
  }

 private:
  // The queue to one rank.
  struct lane {
    lane(const device::card_queue_options& options, device_impl_t& device, int rank, keys& all,
         open_receives& receives, const std::atomic<bool>& aborted)
        : world(device, rank, all, receives, aborted), queue(options, all.own(), world) {}
    proxy_world world;
    device::card_queue queue;
    bool was_reported = false;
  };
  void make_queues(std::vector<std::byte>& image, std::size_t peers);
  void make_card_queues(std::vector<std::byte>& image);
  static gpu::peer_record* peer_in(std::vector<std::byte>& image, std::size_t peers,
                                   std::uint32_t rank);
  gpu::endpoint_record describe(gpu::receive_slot* slots);
  void name_scratch(void* at, std::size_t size, gpu::key_t& key);
  void unname_scratch() noexcept;
  void end_card() noexcept;
  std::size_t serve_lanes_st() noexcept;
  std::size_t serve_cards_st() noexcept;
  wqe::send_queue queue_to(std::uint32_t rank) const noexcept;
  struct failure {
    wqe::opcode op;
    wqe::syndrome why;
    std::string_view reason;
  };
  void report(std::uint32_t rank, const failure& what) noexcept;
  void look_for_ended() noexcept;

  // Atomic operations that kernels may be waiting for at a time.
  static constexpr std::uint32_t SCRATCHES = 256;

  device_impl_t& device_;
  keys& keys_;
  const endpoint_settings settings_;
  const std::uint32_t ranks_;
  const std::uint64_t generation_;
  // Offsets in the two blocks.
  struct places {
    places(const endpoint_settings& wanted, std::uint32_t ranks);
    layout record, shared, own;
    std::size_t rings, cqs, cq_records, mailboxes, receives;
    std::size_t peers, message_peers, ended, flags, states, next_receive, scratch, scratch_taken;
  };
  const places places_;
  // The record; what host and kernels share; what kernels read all the time, and what they alone
  // change.
  block kept_, shared_, own_;
  raised_words words_;  // by rank, then ANY_ENDED and ABORT
  gpu::endpoint_record* record_ = nullptr;
  std::uint32_t scratch_key_ = 0;
  std::uint64_t* mailboxes_ = nullptr;
  std::uint32_t* ended_ = nullptr;  // by rank
  std::uint32_t* flags_ = nullptr;  // ABORT and ANY_ENDED
  std::unique_ptr<open_receives> receives_;
  std::atomic<bool> aborted_{false};
  std::vector<std::unique_ptr<lane>> lanes_;  // by rank; over a card for what goes past it
  // In tiers T0 to T2: the card, what its queues are mapped by, and the queues by rank.
  net::kernel_card* card_ = nullptr;
  std::unique_ptr<mem::kernel_memory> maps_;
  std::vector<std::unique_ptr<card_lane>> card_lanes_;
  std::vector<std::uint64_t> served_;  // by rank: mailbox values that are done with
  std::uint32_t epoch_ = 0;            // of peers, when they were looked at last
  base::spinlock queues_lock_;         // guards queues_
  std::vector<gpu_queue*> queues_;
  std::mutex mapped_lock_;  // guards mapped_
  std::vector<mem::mapped_memory> mapped_;
  std::atomic<std::uint32_t> queue_count_{0};
  std::atomic<std::uint32_t> pins_{0};  // calls that use it
  bool is_hidden_ = false;              // from further ones
};

}  // namespace lci::proxy
