// What a test wants of the stand-in for libmlx5: the queues as a card sees them, what was handed
// over by wr_raw_wqe, and completions of that. Failures of its calls are those of the fake
// libibverbs (fail_nth). Callers: tests of the tiers. Threads: shared, one lock. Always true: the
// stand-in carries nothing out; ring, records, register and completion queue are pages of their
// own, so that a test can watch the stores to each.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace lci::test {

// The memory of a queue pair, and of the completion queue of its sends.
struct fake_direct_queue {
  std::uint32_t qpn = 0;
  bool is_connected = false;  // ready to send
  std::byte* ring = nullptr;
  std::uint32_t blocks = 0;
  std::uint32_t* record = nullptr;
  std::byte* page_of_register = nullptr;
  void* target = nullptr;  // of the register; 0x800 into the page
  std::uint32_t half = 0;  // bytes of each half; 0: not one for BlueFlame
  std::byte* completions = nullptr;
  std::uint32_t count = 0, entry_size = 0;
  std::uint32_t* consumer = nullptr;
  unsigned create_flags = 0;      // mlx5dv_qp_create_flags
  std::uint64_t send_ops = 0;     // mlx5dv_qp_create_send_ops_flags
  std::uint32_t max_send_wr = 0;  // that was asked for
  std::uint32_t peer = 0;         // the number of the other end, once it is connected
};

// What a card would find at the other end of a queue pair.
enum class fake_reach { yes, no_peer, no_access };

// One call of those that post: "start", "raw", "complete", "abort".
struct fake_raw_call {
  std::string what;
  std::uint32_t qpn = 0;
  std::uint64_t wr_id = 0;
  std::vector<unsigned char> bytes;  // as many as the request says that it has
};

struct fake_mlx5_config {
  bool is_mlx5 = true;                    // what mlx5dv_is_supported says of every card
  std::uint32_t blueflame_half = 256;     // 0: a register that is none for BlueFlame
  std::uint32_t stride = 64;              // of the send ring
  std::uint32_t entry_size = 64;          // of completions
  std::uint32_t completions_divided = 1;  // the queue is that many times shorter than asked for
  bool has_raw = true;                    // queue pairs know wr_raw_wqe
};

class fake_mlx5 {
 public:
  // Everything as at the start.
  virtual void reset(const fake_mlx5_config& config = {}) = 0;
  virtual std::vector<fake_direct_queue> queues() = 0;
  virtual std::vector<fake_raw_call> take_calls() = 0;
  // A request that was handed over ends.
  virtual void finish(std::uint32_t qpn, std::uint64_t wr_id, ibv_wc_status status,
                      std::uint32_t vendor_error = 0, std::uint32_t bytes = 0) = 0;
  // Whether the other end of that queue pair is connected to it, and lets it write there.
  virtual fake_reach reach(std::uint32_t qpn, std::uint32_t rkey, std::uint64_t at,
                           std::size_t size) = 0;
  virtual std::size_t waiting_completions() = 0;  // that nobody has polled
  virtual std::size_t live_uars() = 0;

 protected:
  ~fake_mlx5() = default;
};

}  // namespace lci::test
