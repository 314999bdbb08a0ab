// The lci runtime of a connection: two ranks, one net context, one device, made by steps that never
// wait for the peer. Owned by a pair, which carries what the two say to each other. Threads: single
// until is_whole(); then as the runtime. Always true: a runtime that is whole is listed in
// global(), and one that has ended is not.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lci/attr.hpp"
#include "lci/boot/bootstrap.hpp"
#include "lci/handles.hpp"
#include "lci/proto/engine/core.hpp"
#include "lci/runtime/job_member.hpp"
#include "lci/transport/setup_options.hpp"

namespace lci::transports {

// What a connection takes, unless its program says otherwise: small, since there may be many.
global_attr_t defaults_of_pair(const global_attr_t& of_job);

// Loads the library of a network, unless the peer may be reached by shared memory: which takes
// long on a busy machine, while the time of a set-up runs. address: where one of the two listens;
// theirs: providers that the peer allows, as far as is known; empty: all.
void load_network(const setup_options& ours, const std::string& address,
                  const std::vector<std::string>& theirs);

class pair_runtime {
 public:
  // me: 0 or 1. `allowed`: providers by name; empty: all. Throws what a runtime's making throws.
  pair_runtime(int me, const global_attr_t& defaults, std::vector<std::string> allowed);
  ~pair_runtime();
  pair_runtime(const pair_runtime&) = delete;
  pair_runtime& operator=(const pair_runtime&) = delete;

  // What to say in the first round, and what after the peer has said that; nothing: the networks
  // are open, and the device is ready for what the peer sends once it was told so.
  std::string begin();
  std::optional<std::string> heard(const std::string& theirs);
  bool is_whole() const noexcept { return is_whole_; }

  runtime_t runtime() const noexcept;
  device_t device() const noexcept;
  // The network, and why not one that comes before it.
  std::string summary() const;
  // Operations with the peer end with an error from now on.
  void peer_ended(bool orderly, std::string_view why) noexcept;
  // It has left in an orderly way. What it sent before may be on its way: networks that know the
  // peer say when all is there, and only if they do not is it said here, later; at once if the
  // networks have never met the peer and nothing is expected of it.
  void peer_left(bool expects_more) noexcept { leaving_.begin(expects_more); }
  // Nothing more comes from it.
  bool has_peer_ended() const noexcept;
  // The end follows, orderly; operations are not waited for. sends_rest: what was sent is, until it
  // has left this process or its time is over, unless nothing more comes from the peer.
  void end(bool sends_rest) noexcept;

 private:
  // Asked by progress of the device, now and then.
  class leaving final : public proto::failure_detector {
   public:
    static constexpr std::chrono::milliseconds GRACE{1000};
    explicit leaving(pair_runtime& of) noexcept : of_(of) {}
    void begin(bool expects_more) noexcept;
    void look() noexcept override;

   private:
    pair_runtime& of_;
    // Relaxed: 0: it is here; else when it has left, in cpu_ticks(). Nothing else is said by it.
    std::atomic<std::uint64_t> since_{0};
    std::atomic<bool> expects_more_{false};  // relaxed: written before since_, by the same thread
  };
  void complete();

  const int me_;
  const global_attr_t defaults_;
  std::unique_ptr<boot::bootstrap> bootstrap_;
  std::mutex bootstrap_lock_;
  runtime::made_so_far made_;
  bool is_whole_ = false;
  std::string said_;  // in this round
  leaving leaving_{*this};
  runtime_impl_t* runtime_ = nullptr;      // owned
  net_context_impl_t* opening_ = nullptr;  // owned until it belongs to the runtime
};

}  // namespace lci::transports
