// Ranks with fake GPUs over the fake fabric, and operations between any kinds of memory that check
// every byte: what the tests of GPU memory stand on. Threads: single, as world.hpp.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "tests/unit/proto/fake_gpu.hpp"
#include "tests/unit/proto/world.hpp"

namespace lci::test {

// A buffer with guard bytes around it, in host memory or in that of a fake GPU.
class test_buffer {
 public:
  static constexpr std::size_t GUARD = 64;
  test_buffer(mem::mem_kind kind, std::size_t size);
  std::byte* at() const noexcept;  // what the library gets
  std::size_t size() const noexcept { return size_; }
  mem::mem_kind kind() const noexcept { return kind_; }
  void fill(unsigned seed);
  void clear() noexcept;
  std::byte* bytes() const noexcept;  // for the test
  // Holds the pattern of `seed`, and nothing was written beside it.
  testing::AssertionResult holds(unsigned seed) const;
  testing::AssertionResult is_guarded() const;

 private:
  mem::mem_kind kind_;
  std::size_t size_;
  std::vector<std::byte> host_;
  std::unique_ptr<fake_memory> gpu_;
};

struct gpu_options {
  sim_options sim;
  lci::attr_gpu_path_t way = lci::attr_gpu_path_t::auto_select;
  fake_gpu::settings gpu;
  bool by_cpu = false;      // the processor copies a few bytes itself
  bool is_tight = false;    // staging memory is short: few small sets, so that slots are used again
  bool is_starved = false;  // there is no staging memory at all
  int ranks = 2;
  // The buffers at both ends are registered by the program, not by the operations.
  bool registers_buffers = false;
  mem::ladder_rules rules;  // by which rungs the network may register GPU memory
};

// What can be said of staging sets from outside: how many of each class can be had.
using set_counts = std::array<std::size_t, proto::gpu::staging_store::CLASSES>;

class gpu_world : public proto_world {
 public:
  explicit gpu_world(const gpu_options& options);
  fake_gpu& gpu(int rank) { return *gpus_[static_cast<std::size_t>(rank)]; }
  // As proto_world::step(), and counts what each rank heard.
  void step(int rounds = ROUNDS);
  void step_one(int rank);
  void set_all(const fake_gpu::settings& how);
  // The process of `rank` dies, and its GPU with it.
  void kill(int rank);
  bool is_dead(int rank) const { return dead_[static_cast<std::size_t>(rank)]; }
  // Nothing of ended operations is left at `rank`.
  void expect_clean(int rank);
  // Steps until `done` or for a long time.
  template <class F>
  bool step_until(F&& done, int rounds = 5000) {
    for (int i = 0; i < rounds; ++i) {
      if (done()) return true;
      step(1);
    }
    return done();
  }
  std::size_t failures_of(int rank) const;  // peer_failure_error of it in `thrown`
  std::string errors() const;               // texts of `thrown`
  std::vector<std::size_t> heard;           // by rank: exceptions that its progress threw
  std::vector<std::size_t> kept;            // by rank: registrations of exchanges that live
  const bool registers_buffers;

 private:
  set_counts sets_home(int rank);
  std::vector<fake_gpu*> gpus_;
  std::vector<bool> dead_;
  std::vector<set_counts> sets_;
};

enum class verb : std::uint8_t { send, active_message, put, put_signal, get };
inline constexpr verb VERBS[] = {verb::send, verb::active_message, verb::put, verb::put_signal,
                                 verb::get};
const char* name_of(verb what) noexcept;

// Is told of an end, and sees to it that no GPU uses the buffer any more.
class watcher final : public comp_impl_t {
 public:
  void signal(status_t status) override;
  void watch(gpu_world& world, const test_buffer& buffer);
  std::vector<status_t> seen;

 private:
  gpu_world* world_ = nullptr;
  const test_buffer* buffer_ = nullptr;
};

// One operation of rank `from` with rank `to`. near: the memory of `from`; far: of `to`.
class exchange {
 public:
  exchange(gpu_world& world, verb what, mem::mem_kind near, mem::mem_kind far, std::size_t size,
           int from = 0, int to = 1);
  ~exchange();
  exchange(const exchange&) = delete;
  exchange& operator=(const exchange&) = delete;
  // Posts the receive of a send, which start() does otherwise.
  void receive();
  // The same where the sender is told of it before it sends.
  void preposted();
  // Posts, again while the answer is retry; afterwards both ends are under way. may_retry false:
  // what is refused waits in the backlog. Throws what the post throws; fatal: the peer is gone.
  errorcode_t start(bool may_retry = true);
  // Both ends were told what they are to be told.
  bool is_over() const;
  // ... exactly once, and the bytes are there.
  void expect_good() const;
  bool is_posted() const { return error_t(answer_).is_posted(); }
  bool tells_far() const { return what_ != verb::put && what_ != verb::get; }
  std::string text() const;

  test_buffer here, there;
  watcher near_, far_;
  unsigned seed;

 private:
  gpu_world& world_;
  verb what_;
  int from_, to_;
  // Registers `buffer` as register_memory() does.
  proto::network_key registered(int rank, const test_buffer& buffer);
  bool names_far() const { return what_ != verb::send && what_ != verb::active_message; }

  mem::region_name region_;
  proto::network_key near_key_, far_key_;  // of the program's registrations
  rcomp_t rcomp_ = 0;
  tag_t tag_;
  errorcode_t answer_ = errorcode_t::retry;
  bool is_received_ = false;
};

// It has failed: both ends were told, each once, and nothing was signalled.
inline void expect_both_heard(gpu_world& w, const exchange& one) {
  EXPECT_TRUE(one.near_.seen.empty());
  EXPECT_TRUE(one.far_.seen.empty());
  EXPECT_EQ(w.heard[0], 1u) << w.errors();
  EXPECT_EQ(w.heard[1], 1u) << w.errors();
}

using exchanges = std::vector<std::unique_ptr<exchange>>;
inline bool are_over(const exchanges& all) {
  return std::all_of(all.begin(), all.end(), [](const auto& e) { return e->is_over(); });
}

// Calls run(verb, near, far) for every operation and pair of memories of which one is a GPU's.
template <class F>
void for_each_transfer(F&& run) {
  constexpr mem::mem_kind HOST = mem::mem_kind::host, GPU = mem::mem_kind::device;
  for (const verb what : VERBS) {
    run(what, GPU, HOST);
    if (what == verb::active_message) continue;  // arrives in host memory
    run(what, HOST, GPU);
    run(what, GPU, GPU);
  }
}

// One of them from rank 0, until both ends are quiet.
void run_one(gpu_world& w, verb what, mem::mem_kind near, mem::mem_kind far, std::size_t size,
             int to = 1);
// Each of them with each of those sizes, which arrives and leaves nothing behind.
void expect_each_arrives(gpu_world& w, std::initializer_list<std::size_t> sizes, int to = 1);
// All of them at once, in both directions and so often, from posts that may not be refused.
void expect_many_complete(gpu_world& w, int rounds);

}  // namespace lci::test
