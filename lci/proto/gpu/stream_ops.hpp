// What streams of the program start and wait for: posts that a stream triggers, and synchronizers
// that hold a stream back. Owned by gpu::common. Callers: api makes and frees them, rounds of
// progress moves them. Threads: shared; one thread at a time moves, the others find nothing to do.
//
// Each has a word that it shares with its stream:
//
//   post            0 -> 1 by the stream: start. Captured: the stream waits for 0 first, so that no
//                   replay overwrites what was not seen; 1 -> 0 by us when the post was taken.
//   wait            0 -> 1 by us: the synchronizer was ready, and that round of it is taken. The
//                   stream waits for 1 and writes 2 (passed, the word may go) or, captured, 0.
//
// Always true: a post starts after every earlier post of its stream has; a word is given back only
// when no stream will touch it any more. User code runs without a lock held.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <vector>

#include "lci/base/type_stable.hpp"
#include "lci/post.hpp"
#include "lci/proto/gpu/devices.hpp"

namespace lci {

namespace proto::gpu {
class stream_ops;
}

class stream_op_impl_t : public base::live_object<stream_op_impl_t> {
 public:
  using post_function = status_t (*)(const detail::post_args&);

  proto::gpu::stream_ops* owner = nullptr;
  void* stream = nullptr;
  mem::stream_word* word = nullptr;
  post_function run = nullptr;  // null: a wait
  detail::post_args post;
  std::uint32_t serial = 0;      // of the object that the post will signal
  const void* device = nullptr;  // whose operation the post is; null when that was freed
  comp_t comp;                   // of a wait: what it waits for
  std::uint64_t number = 0;      // in the order of making
  std::uint64_t runs = 0;        // posts started, or rounds taken
  bool is_captured = false;
  bool is_reported = false;  // of a wait: that its object was freed
  // While a thread was in advance(), which drops it, or before what its stream triggered started.
  std::atomic<bool> is_freed{false};
};

namespace proto::gpu {

class stream_ops {
 public:
  explicit stream_ops(devices& gpus) : gpus_(gpus) {}
  ~stream_ops() { close(); }
  stream_ops(const stream_ops&) = delete;
  stream_ops& operator=(const stream_ops&) = delete;

  // `device` is only compared. The post has a completion object and answers posted or retry. Throw
  // backend_error; null: the stream is not captured, nothing has to be freed.
  stream_op_impl_t* add_post(void* stream, stream_op_impl_t::post_function run,
                             const detail::post_args& post, const void* device);
  stream_op_impl_t* add_wait(void* stream, comp_t comp);
  // Of a captured one, whose graph does not run any more. What its stream has triggered starts
  // nevertheless. Throws argument_error: it was freed before, and waits for that.
  void free(stream_op_impl_t* op);

  // One relaxed load: is there anything to move?
  bool any() const noexcept { return count_.load(std::memory_order_relaxed) != 0; }
  // Starts what is due and lets go what may. Answers how many; what they threw is kept by keep(),
  // which does not throw. Throws std::bad_alloc before anything is done.
  using keep_function = std::function<void(std::exception_ptr)>;
  std::size_t advance(const keep_function& keep);
  // Whether a post of this device has been put into a stream, and not started.
  bool is_waited_for(const void* device) noexcept;
  // Whether a stream waits for this synchronizer, or will whenever its graph runs.
  bool waits_for(const comp_impl_t& sync) noexcept;
  // The device is being freed.
  void forget(const void* device) noexcept;
  // No stream shall wait any more, and handles that are left are dead.
  void close() noexcept;

 private:
  stream_op_impl_t* add(const stream_op_impl_t& what);
  void make_room();
  std::size_t look(const keep_function& keep);
  bool look_at_wait(stream_op_impl_t& op, const keep_function& keep);
  std::size_t start_posts(const keep_function& keep);
  void sweep() noexcept;
  void end_locked(stream_op_impl_t* op) noexcept;
  void drop_locked(stream_op_impl_t* op, bool with_word) noexcept;

  devices& gpus_;
  std::mutex order_;                      // one puts something into a stream; before mutex_
  std::uint64_t numbers_ = 0;             // under order_
  std::mutex mutex_;                      // guards ops_
  std::vector<stream_op_impl_t*> ops_;    // in the order of making
  std::atomic<std::size_t> count_{0};     // of ops_
  std::atomic<bool> is_moving_{false};    // a thread is in advance()
  std::vector<stream_op_impl_t*> due_;    // the mover's: posts that were triggered
  std::vector<stream_op_impl_t*> ended_;  // the mover's: to be dropped
  std::vector<void*> held_;               // the mover's: streams with a post that was refused
};

}  // namespace proto::gpu
}  // namespace lci
