// What a call of this room answers, and its text. One list for encoders, queues and the C face.
// Callers: everyone. Threads: pure functions.
// Always true: 0 is success. With nothing, dead and the refusals of an encoder nothing was written.
// failed is an entry that was read. It, aborted and timed_out end a shared queue: what was posted
// stays in its ring, and a card may do it yet.
#pragma once

#include <cstdint>

#include "lci/wqe/anywhere.hpp"

namespace lci::wqe {

enum class status : std::int32_t {
  ok = 0,
  nothing = -1,    // no completion yet
  failed = -2,     // the card reported an error: see its syndrome
  aborted = -3,    // the abort flag was set
  timed_out = -4,  // the limit passed without progress
  dead = -5,       // the queue ended before; see what ended it
  peer_lost = -6,  // the peer whose memory or message is waited for has failed or left
  // Refusals of an encoder.
  bad_opcode = -16,
  bad_length = -17,
  bad_qpn = -18,
  too_many_octowords = -19,
  bad_ring = -20,
  longer_than_ring = -21,
  inline_too_long = -22,
  inline_from_device = -23,
  inline_without_meaning = -24,
  bad_atomic_length = -25,
  misaligned_atomic = -26,
  bad_entry_count = -27,
  bad_cqe_size = -28,
  too_few_completions = -29,
  bad_batch = -30,
  bad_fence = -31,
  bad_doorbell_form = -32,
  // Of endpoints, refused before anything is written.
  bad_endpoint = -33,     // empty or freed
  bad_rank = -34,         // no such rank, or not the one that owns the key
  bad_key = -35,          // an empty key, or a ticket that was used before
  out_of_range = -36,     // beyond the end of the region
  wrong_gpu = -37,        // a thread with a GPU's endpoint, or a kernel with one of threads
  no_receive_slot = -38,  // as many receives are posted as the endpoint takes
  too_long = -39,         // a message longer than the buffer that it is to be copied to
  no_messages = -42,      // an endpoint over a card: its queues carry no messages
  no_atomics = -43,       // an endpoint over a card: no queue of it takes atomic operations
  // Of what needs a GPU.
  no_gpu = -40,
  cuda_error = -41,
};

LCI_ANYWHERE inline const char* text_of(status what) noexcept {
  switch (what) {
    case status::ok:
      return "success";
    case status::nothing:
      return "no completion yet";
    case status::failed:
      return "the card reported an error";
    case status::aborted:
      return "the abort flag was set";
    case status::timed_out:
      return "the time limit passed without progress";
    case status::dead:
      return "the queue has ended before";
    case status::peer_lost:
      return "the peer has failed or left";
    case status::bad_opcode:
      return "no such operation";
    case status::bad_length:
      return "a length of more than 31 bits, or than the largest message";
    case status::bad_qpn:
      return "a queue number of more than 24 bits";
    case status::too_many_octowords:
      return "a work request of more than 63 octowords";
    case status::bad_ring:
      return "a ring whose length is no power of two, or too long";
    case status::longer_than_ring:
      return "a work request longer than its ring";
    case status::inline_too_long:
      return "more inline bytes than the queue takes";
    case status::inline_from_device:
      return "a processor cannot inline bytes of GPU memory";
    case status::inline_without_meaning:
      return "inline bytes in an operation that sends none";
    case status::bad_atomic_length:
      return "an atomic operation of another width than its operands";
    case status::misaligned_atomic:
      return "an atomic operation at an address not aligned to it";
    case status::bad_entry_count:
      return "more or fewer data entries than the operation takes";
    case status::bad_cqe_size:
      return "completion entries of neither 64 nor 128 bytes";
    case status::too_few_completions:
      return "a completion queue shorter than the send ring";
    case status::bad_batch:
      return "a doorbell for every 0 blocks";
    case status::bad_fence:
      return "a fence that is none of those known";
    case status::bad_doorbell_form:
      return "no such form of doorbell";
    case status::bad_endpoint:
      return "an empty or freed endpoint";
    case status::bad_rank:
      return "no such rank, or not the one that owns the key";
    case status::bad_key:
      return "an empty key, or a ticket that was used before";
    case status::out_of_range:
      return "beyond the end of the region";
    case status::wrong_gpu:
      return "a thread with an endpoint for kernels, or a kernel with one for threads";
    case status::no_receive_slot:
      return "as many receives are posted as the endpoint takes";
    case status::no_messages:
      return "an endpoint over a card carries no messages";
    case status::no_atomics:
      return "an endpoint over a card has no queue for atomic operations";
    case status::too_long:
      return "a message longer than its buffer";
    case status::no_gpu:
      return "no GPU, or no device code in this build";
    case status::cuda_error:
      return "a call of CUDA failed";
  }
  return "an unknown status";
}

}  // namespace lci::wqe
