// The other side of an endpoint's queue to one rank: work requests become lci's own posts, so they
// go over whatever backend leads there. Callers: the card_queue of that rank. Threads: single; lci
// signals in any.
//
// Always true: a request begins when the one before it is done or, of puts, in order (decision
// 0028), so a signal behind a put is seen after it; those beside each other are all done before
// another one begins. The end of a flush
// says that all before it is visible at the peer and that buffers of sends are free; that of a put,
// get or atomic operation for which a completion was asked says the first. A send is over for the
// queue once lci has taken it.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "lci/device/memory_world.hpp"
#include "lci/device/world.hpp"
#include "lci/post.hpp"
#include "lci/proto/host/remote_atomics.hpp"
#include "lci/proxy/keys.hpp"
#include "lci/proxy/messages.hpp"
#include "lci/runtime/device.hpp"

namespace lci::proxy {

class proxy_world final : public device::world {
 public:
  // `aborted`: requests end as flushed once it is set.
  proxy_world(device_impl_t& device, int rank, keys& all, open_receives& receives,
              const std::atomic<bool>& aborted);

  void expect_completion(bool is_signaled) noexcept override { is_signaled_ = is_signaled; }
  device::answer put(wqe::opcode op, const device::local_data& from, device::remote_place to,
                     std::uint32_t imm, bool solicited) noexcept override;
  device::answer put_signal(const device::local_data& from, device::remote_place to,
                            device::remote_place word, std::uint64_t value) noexcept override;
  device::answer get(device::remote_place from, const device::local_data& to) noexcept override;
  device::answer send(wqe::opcode op, const device::local_data& from, std::uint32_t imm,
                      bool solicited) noexcept override;
  device::answer atomic(wqe::opcode op, const wqe::atomic_operands& with, device::remote_place at,
                        std::byte* old) noexcept override;
  device::answer flush() noexcept override;
  device::answer poll() noexcept override;
  std::uint32_t most_beside() const noexcept override { return is_own() ? MOST_OWN : MOST_BESIDE; }
  device::answer put_beside(std::uint32_t number, const device::local_data& from,
                            device::remote_place to) noexcept override {
    return is_own() ? put_own_beside(number, from, to) : start_beside(number, true, from, to);
  }
  device::answer get_beside(std::uint32_t number, device::remote_place from,
                            const device::local_data& to) noexcept override {
    return is_own() ? get_own_beside(from, to) : start_beside(number, false, to, from);
  }
  device::answer poll_beside(std::uint32_t number) noexcept override;

  // What lci said to the request that failed first; empty: nothing.
  const std::string& reason() const noexcept { return reason_; }
  // lci still has an object of this world.
  bool is_in_use() const noexcept {
    return end_.now() == request_end::waiting || atomic_.is_out() || delivery_.is_out() ||
           sends_.any() || is_any_beside();
  }
  // Of one queue, under way beside each other. To the own rank half of what a GPU's kernel takes:
  // copies and atomic operations want it too.
  static constexpr std::uint32_t MOST_BESIDE = 64, MOST_OWN = 32;

 private:
  // The atomic operation that is under way, and then the copy of what was there to where it is to
  // be, if that is memory of a GPU.
  class atomic_part final : public proto::atomic_request, public proto::gpu::device_job {
   public:
    void on_atomic(proto::atomic_outcome how) noexcept override;
    void ended(std::string_view error) noexcept override;
    // lci has it. edge proxy.atomic: partners are on_atomic() and ended().
    bool is_out() const noexcept { return is_out_.load(std::memory_order_acquire); }
    void arm() noexcept { is_out_.store(true, std::memory_order_relaxed); }
    void disarm() noexcept { is_out_.store(false, std::memory_order_relaxed); }

    enum class step : std::uint8_t { post, answer, copy } now = step::post;
    proto::atomic_outcome how = proto::atomic_outcome::done;
    bool is_lost = false;
    std::byte* old_to = nullptr;

   private:
    // edge proxy.atomic, from the end of the operation, or the copy, to the world.
    std::atomic<bool> is_out_{false};
  };
  // A few bytes for own memory of a GPU, a word behind them, or both.
  class delivery_part final : public proto::gpu::device_delivery {
   public:
    void delivered(std::string_view error) noexcept override;
    // The accelerator has it. edge proxy.delivery: partner is delivered().
    bool is_out() const noexcept { return is_out_.load(std::memory_order_acquire); }
    void arm() noexcept { is_out_.store(true, std::memory_order_relaxed); }
    void disarm() noexcept { is_out_.store(false, std::memory_order_relaxed); }

    bool is_lost = false;

   private:
    // edge proxy.delivery, from the GPU's end of it to the world.
    std::atomic<bool> is_out_{false};
  };
  static constexpr device::answer UNDER_WAY{device::outcome::posted, wqe::syndrome::none};
  enum class doing : std::uint8_t { nothing, data, message, flush, atomic, delivery };
  // A put or get that is under way beside others.
  struct beside {
    request_end end;
    bool is_put = false;
    std::uint64_t number = 0;  // of a put
    rmr_t rmr;
    std::uint64_t last = 0;  // offset of its last byte
  };
  bool is_own() const noexcept;
  device::answer start_beside(std::uint32_t number, bool is_put, const device::local_data& data,
                              device::remote_place place) noexcept;
  device::answer put_own_beside(std::uint32_t number, const device::local_data& from,
                                device::remote_place to) noexcept;
  device::answer get_own_beside(device::remote_place from, const device::local_data& to) noexcept;
  device::answer poll_own_beside(std::uint32_t number) noexcept;
  void end_beside(beside& one) noexcept;
  void set_dirty(std::uint64_t put, const rmr_t& in, std::uint64_t last) noexcept;
  bool is_any_beside() const noexcept;
  bool find(device::remote_place place, std::uint64_t length) noexcept;
  device::answer begin(bool is_put, const device::local_data& data,
                       device::remote_place place) noexcept;
  bool is_plain(const device::local_data& data) const noexcept;
  status_t post(bool is_put, void* at, std::size_t size, mr_t mr);
  // A put of the present request ends when its bytes are there. Own memory's always do: else what
  // comes behind one could not be delivered by the resident kernel until a flush.
  bool ends_when_there() const noexcept;
  std::byte* find_own_word(device::remote_place at, std::uint64_t size, int& gpu) noexcept;
  std::byte* find_in(const named_memory& memory, device::remote_place at, std::uint64_t size,
                     int& gpu) noexcept;
  bool hand_over(delivery_part& what, int gpu) noexcept;
  bool deliver(int gpu) noexcept;
  bool deliver_put(const device::local_data& from, device::remote_place to) noexcept;
  device::answer poll_delivery() noexcept;
  device::answer poll_data() noexcept;
  device::answer poll_flush() noexcept;
  device::answer poll_message() noexcept;
  device::answer poll_atomic() noexcept;
  device::answer take_old() noexcept;
  bool post_message(const gpu::message_head& head, open_sends::record& record, void* at,
                    std::size_t size, mr_t mr);
  device::answer receive(const gpu::message_head& head) noexcept;
  device::answer refuse(wqe::syndrome why, const char* text) noexcept;
  // lci has given the operation up: the peer has ended, or its memory cannot be reached.
  device::answer lost(const char* text) noexcept;
  device::answer ask_behind_puts() noexcept;
  device::answer caught() noexcept;
  mr_t region_of(std::uint32_t key) const noexcept;

  device_impl_t& device_;
  const int rank_;
  keys& keys_;
  open_receives& receives_;
  const std::atomic<bool>& aborted_;
  device::memory_world own_;
  std::string reason_;

  bool is_signaled_ = false;
  doing doing_ = doing::nothing;
  request_end end_;
  open_sends sends_;
  // The puts or gets that are under way.
  bool is_put_ = false;
  device::local_data data_{};
  named_memory remote_;
  std::uint64_t offset_ = 0;  // in the peer's region, of what is posted next
  std::uint32_t piece_ = 0;
  atomic_part atomic_;
  delivery_part delivery_;
  // The message that is under way: its bytes are in the request.
  const device::local_piece* message_ = nullptr;
  // A put is done and perhaps not at the peer yet; a get of a byte of it comes behind it, and
  // behind those before it. One to memory of a GPU takes not the place of one to host memory: its
  // get may go by a GPU, past others.
  bool is_dirty_ = false;
  bool is_dirty_host_ = false;
  std::uint64_t dirty_put_ = 0;
  std::uint64_t puts_ = 0;  // begun
  bool is_asking_ = false;  // the atomic operation is one of ask_behind_puts()
  rmr_t dirty_;
  std::uint64_t dirty_offset_ = 0;
  unsigned char sink_ = 0;
  std::unique_ptr<beside[]> beside_;             // by number; made at first use
  std::unique_ptr<delivery_part[]> own_beside_;  // the same to the own rank
};

}  // namespace lci::proxy
