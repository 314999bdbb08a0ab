// What the tests of packet pools in GPU memory share: an allocator that counts and can be told to
// fail, and a device that delivers in packets of such a pool.
// Threads: single, as the suite; the allocator may be called by any.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>

#include "tests/accelerator/interface/common.hpp"

namespace accelerator_test {

// Memory of a kind, by the library's own allocators, or malloc for place::host.
class watched_allocator : public lci::allocator_base_t {
 public:
  explicit watched_allocator(place where) : device_(ordinal()), pinned_(ordinal()) {
    from_ = where == place::host     ? static_cast<lci::allocator_base_t*>(&host_)
            : where == place::pinned ? static_cast<lci::allocator_base_t*>(&pinned_)
                                     : &device_;
  }
  ~watched_allocator() override { EXPECT_EQ(live(), 0u) << "not given back"; }
  void* allocate(std::size_t size) override {
    const std::lock_guard lock(mutex_);
    if (is_empty_) throw std::runtime_error("the allocator of the test is empty");
    void* const memory = from_->allocate(size);
    live_[memory] = size;
    return memory;
  }
  void deallocate(void* memory) override {
    const std::lock_guard lock(mutex_);
    EXPECT_EQ(live_.erase(memory), 1u) << "never given, or given back twice";
    from_->deallocate(memory);
  }
  // A block of that size: one of another size at the same address holds packets.
  bool owns(void* memory, std::size_t size) {
    const std::lock_guard lock(mutex_);
    const auto found = live_.find(memory);
    return found != live_.end() && found->second == size;
  }
  std::size_t live() {
    const std::lock_guard lock(mutex_);
    return live_.size();
  }
  void make_empty(bool on) {
    const std::lock_guard lock(mutex_);
    is_empty_ = on;
  }

 private:
  static int ordinal() { return lci::cuda::real_gpu::get().ordinal(); }
  lci::allocator_default_t host_;
  lci::device_allocator_t device_;
  lci::pinned_allocator_t pinned_;
  lci::allocator_base_t* from_;
  std::mutex mutex_;
  std::map<void*, std::size_t> live_;
  bool is_empty_ = false;
};

// Whether a message is where it should be.
inline bool is_in_device_memory(const void* at) {
  return lci::cuda::real_gpu::get().classify(at).kind == lci::cuda::allocation_kind::device;
}

// As a kernel would build a message.
inline void build(place where, void* at, std::size_t size, std::uint64_t seed) {
  if (size != 0) fill(where, at, message_of(seed, size));
}

// A pool of `npackets` packets, a device that delivers in them, and a queue with zero_copy_am that
// peers name by rcomp(). While it lives the suite works on that device. Collective.
class packet_world {
 public:
  packet_world(place where, std::size_t npackets) : where_(where), memory_(where) {
    pool_ = lci::alloc_packet_pool_x().allocator(&memory_).npackets(npackets)();
    cq_ = lci::alloc_cq_x().zero_copy_am(true)();
    rcomp_ = lci::register_rcomp(cq_);
    before_ = world().device;
    device_ = lci::alloc_device_x().packet_pool(pool_)();
    world().device = device_;
  }
  ~packet_world() {
    barrier();
    lci::wait_drained_x().device(device_)();
    barrier();
    world().device = before_;
    lci::free_device(&device_);
    lci::deregister_rcomp(rcomp_);
    lci::free_comp(&cq_);
    if (!pool_.is_empty()) lci::free_packet_pool(&pool_);
  }
  packet_world(const packet_world&) = delete;
  packet_world& operator=(const packet_world&) = delete;

  watched_allocator& memory() { return memory_; }
  lci::packet_pool_t& pool() { return pool_; }
  lci::comp_t cq() const { return cq_; }
  lci::rcomp_t rcomp() const { return rcomp_; }
  std::size_t bcopy() const { return lci::get_max_bcopy_size_x().packet_pool(pool_)(); }
  void* packet() const { return lci::get_upacket_x().packet_pool(pool_)(); }

  // Posts an active message that signals `sent` in any case.
  void send(int to, void* buffer, std::size_t size, lci::tag_t tag, lci::comp_t sent,
            lci::mr_t mr) const {
    post(lci::post_am_x(to, buffer, size, sent, rcomp_).tag(tag).mr(mr).device(device_));
  }
  // What is wrong with a message from a source that was filled with `seed`, and whose it is; then
  // gives it back.
  std::string take(const lci::status_t& got, std::size_t size, std::uint64_t seed) {
    std::string wrong;
    if (got.size != size) wrong += "size " + std::to_string(got.size) + "; ";
    if (got.buffer == nullptr) return wrong + "no buffer";
    if (is_gpu(where_) != is_in_device_memory(got.buffer)) wrong += "not in the pool's memory; ";
    const bool in_packet = !memory_.owns(got.buffer, got.size);
    if (in_packet != (size <= bcopy())) wrong += in_packet ? "in a packet; " : "in no packet; ";
    if (in_packet && reinterpret_cast<std::uintptr_t>(got.buffer) % 256 != 0) wrong += "aligned; ";
    wrong += difference(got.buffer, got.size, seed, where_);
    give_back(got);
    return wrong;
  }
  void give_back(const lci::status_t& got) {
    if (memory_.owns(got.buffer, got.size))
      memory_.deallocate(got.buffer);
    else
      lci::put_upacket(got.buffer);
  }
  // Packets that can be had now; none of them is kept.
  std::size_t count_free() const {
    std::vector<void*> all;
    while (void* const one = packet()) all.push_back(one);
    for (void* const one : all) lci::put_upacket(one);
    return all.size();
  }

 private:
  place where_;
  watched_allocator memory_;
  lci::packet_pool_t pool_;
  lci::comp_t cq_;
  lci::rcomp_t rcomp_ = 0;
  lci::device_t device_, before_;
};

}  // namespace accelerator_test
