// Sends, active messages and receives of kernels that are under way in lci. Callers: proxy_world,
// which posts them; the engine, which signals. Threads: an object is used by one thread until it is
// posted, and signalled in any. Always true: a record lives until lci has signalled it or given it
// up; a receive slot is written before its state is.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <vector>

#include "lci/gpu/message.hpp"
#include "lci/gpu/record.hpp"
#include "lci/library_comp.hpp"

namespace lci::proto {
class matcher;
}

namespace lci::proxy {

// What a world waits for, one at a time.
class request_end final : public detail::library_comp_t {
 public:
  enum state : std::uint32_t { idle, waiting, done, lost };
  // Relaxed: no other thread has it.
  void arm() noexcept { state_.store(waiting, std::memory_order_relaxed); }
  void disarm() noexcept { state_.store(idle, std::memory_order_relaxed); }
  // edge proxy.request: partners are signal() and lose().
  state now() const noexcept { return state_.load(std::memory_order_acquire); }
  // edge proxy.request: what the operation wrote. Partner is now().
  void signal(status_t) override { state_.store(done, std::memory_order_release); }
  // edge proxy.request, likewise.
  void lose() noexcept override { state_.store(lost, std::memory_order_release); }

 private:
  std::atomic<state> state_{idle};
};

// Messages of one world that the network has not sent yet.
class open_sends {
 public:
  static constexpr std::size_t MOST = 64;
  // A message, with a copy of what was inline in its request.
  class record final : public detail::library_comp_t {
   public:
    void signal(status_t) override { end(); }
    void lose() noexcept override;

    open_sends* home = nullptr;
    unsigned char bytes[gpu::MOST_INLINE_MESSAGE];

   private:
    friend class open_sends;
    void end() noexcept;
    // edge proxy.send, from the end of the message to take().
    std::atomic<bool> is_out_{false};
  };

  // Null: as many as may be are under way. Single.
  record* take() noexcept;
  // One that was not posted, or was done at once. Any thread.
  static void put(record& one) noexcept { one.end(); }
  // edge proxy.send: buffers were read before the kernel learns of it. Partner is end().
  bool any() const noexcept { return out_.load(std::memory_order_acquire) != 0; }
  bool was_any_lost() const noexcept { return lost_.load(std::memory_order_relaxed); }

 private:
  std::vector<std::unique_ptr<record>> records_;
  std::atomic<std::uint32_t> out_{0};
  std::atomic<bool> lost_{false};
};

// The receives that kernels may have posted: one record for each slot.
class open_receives {
 public:
  open_receives(gpu::receive_slot* slots, std::uint32_t count);

  class record final : public detail::library_comp_t {
   public:
    void signal(status_t status) override;
    void lose() noexcept override;
    // Its message is longer than the room.
    void fail(std::exception_ptr /*why*/) noexcept override;
    void end(gpu::status how, const status_t& status) noexcept;
    int rank = -1;  // the sender; -1: any rank

   private:
    friend class open_receives;
    // With that, unless the endpoint has ended.
    void end_without_message(gpu::status how) noexcept;
    open_receives* home_ = nullptr;
    gpu::receive_slot* slot_ = nullptr;
    std::atomic<bool> is_out_{false};
  };
  // Null: there is no such slot, or no receive is posted in it. Single.
  record* take(std::uint32_t slot) noexcept;
  // One that was not posted. Single.
  static void put(record& one) noexcept;
  // Those that no message has met end as aborted; the others end with their message. No thread
  // takes any more. Single.
  void close(proto::matcher& filed_in) noexcept;
  // edge proxy.receive: nothing touches a record any more. Partner is end().
  bool any() const noexcept { return out_.load(std::memory_order_acquire) != 0; }

 private:
  const std::uint32_t count_;
  std::unique_ptr<record[]> records_;
  std::atomic<std::uint32_t> out_{0};
  std::atomic<bool> is_closed_{false};
};

}  // namespace lci::proxy
