// What many threads post to one send queue, each request with its thread's number and its count.
// Callers: tests/unit/wqe on processors, tests/accelerator in a kernel. Threads: any, each with a
// number of its own. Always true: both sides run the same lines.
#pragma once

#include <cstdint>
#include <cstring>

#include "lci/wqe/send_queue.hpp"
#include "tests/support/device_code/wqe_inputs.hpp"

namespace lci::test {

// The first bytes of each payload. The immediate data is its length.
struct numbered {
  std::uint32_t thread = 0;
  std::uint32_t count = 0;
};

// `each` requests of random length, some of which ask for a completion. The first answer that is
// not ok, or ok.
LCI_ANYWHERE inline wqe::status post_numbered(const wqe::send_queue& queue, std::uint32_t thread,
                                              std::uint32_t each) {
  unsigned char payload[MOST_INLINE] = {};
  random_numbers random(1, thread);
  for (std::uint32_t i = 0; i < each; ++i) {
    const numbered n{thread, i};
    std::memcpy(payload, &n, sizeof(n));
    wqe::send_request r;
    r.op = wqe::opcode::rdma_write_imm;
    r.signaled = random.below(4) == 0;
    r.inline_data = payload;
    r.inline_length = 8 + random.below(queue.limits.max_inline - 7);
    r.imm = r.inline_length;
    std::uint64_t end = 0;
    if (const wqe::status s = wqe::post(queue, r, &end); s != wqe::status::ok) return s;
  }
  return wqe::status::ok;
}

// The parameter of both kernels: one thread prepares the queue, then `threads` of them post.
struct post_task {
  wqe::send_queue queue;
  std::uint32_t threads, each;
  wqe::status* answers;  // one for each thread
};

}  // namespace lci::test
