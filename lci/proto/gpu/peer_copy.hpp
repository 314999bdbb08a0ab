// GPU memory that one copy engine reaches from end to end: memory of a process of this machine that
// is mapped here, or our own. A transfer with a direct_copy leaves the network out, but for the
// news at its end. Also the small host message that meets a receive in GPU memory. Threads: as the
// transfers that they serve; ended() in whichever thread polls the devices.
#pragma once

#include <string>

#include "lci/proto/engine/op.hpp"
#include "lci/proto/gpu/jobs.hpp"

namespace lci::proto::gpu {

struct context;

// How such a copy ends, in place of what the same operation over the network does.
extern const protocol COPY;
extern const protocol COPY_SIGNAL;  // the target of a put is told `imm`
extern const protocol COPY_WRITE;   // of a rendezvous

enum class direct_answer {
  made,
  impossible,
  peer_ended,  // impossible, because the peer's process has ended
  slower,      // both processes use one GPU, and host memory is the better way at present
};
// Makes `move` a direct copy of its whole length that ends as `of` does, or says why not. `view`:
// the remote side, looked up just now. may_choose: `slower` is an answer; of that one the time
// through host memory is to be told (plans, `began`).
direct_answer make_direct(context& ctx, transfer& move, const net::remote_view& view,
                          const protocol& of, bool may_choose, std::string& why_not);
// gpu_path is direct, and make_direct() has said no. Throws peer_failure_error if it is the end of
// the peer's process, which the network may learn later; else backend_error.
[[noreturn]] LCI_COLD void throw_not_direct(direct_answer answer, int rank,
                                            const std::string& why_not);
// The GPU itself tells the target of the end of that copy, which is not yet discarded.
inline bool is_told_by_gpu(const transfer& move) noexcept {
  return move.carrier != nullptr && static_cast<const direct_copy*>(move.carrier)->flag != nullptr;
}

// Copies `data` to status.buffer, then signals. Takes over the receive, not the data. Throws
// std::bad_alloc: nothing has changed.
void deliver_to_device(context& ctx, receive& to, const status_t& status, const std::byte* data);

}  // namespace lci::proto::gpu
