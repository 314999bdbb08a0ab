// Requests that are no remote access: sends, active messages and receives that a kernel posts. Each
// is a SEND with immediate data MESSAGE whose inline bytes are a head and then, of what is small,
// the message. Only the proxy understands them: they go through its queues on every tier, because
// the host's engine matches. Callers: kernels that write them, the proxy that reads. Threads: pure
// functions. Always true: bytes that read_head() refuses name nothing and are answered as a request
// that a queue cannot do.
#pragma once

#include <cstdint>

#include "lci/wqe/send_wqe.hpp"

namespace lci::gpu {

inline constexpr std::uint32_t MESSAGE = 0x6c63696d;  // the immediate
inline constexpr std::uint8_t MESSAGE_VERSION = 1;

enum class message_kind : std::uint8_t {
  send = 1,  // matched by tag at the peer
  am = 2,    // to remote completion `rcomp`
  recv = 3,  // into [laddr, laddr + length), slot `rcomp` gets the result; see receive_slot
};

// In the byte order of the machine: it never leaves the process.
struct message_head {
  std::uint8_t version = MESSAGE_VERSION;
  message_kind kind = message_kind::send;
  std::uint16_t inline_length = 0;  // bytes behind the head; else the data is in registered memory
  std::uint32_t rcomp = 0;          // of am; of recv the number of the slot
  std::uint64_t tag = 0;
  std::uint64_t laddr = 0;   // of what is not inline
  std::uint64_t length = 0;  // the same; of recv the room
  std::uint32_t lkey = 0;
  std::int32_t rank = -1;  // of recv: the sender, -1: any rank
};
static_assert(sizeof(message_head) == 40);

// The most inline bytes that a message of an endpoint can carry.
inline constexpr std::uint32_t MOST_INLINE_MESSAGE = 220 - sizeof(message_head);

// Whether `length` inline bytes are a message. `bytes` may be anything.
LCI_ANYWHERE inline bool read_head(const void* bytes, std::uint64_t length,
                                   message_head* head) noexcept {
  if (length < sizeof(message_head)) return false;
  const auto* const from = static_cast<const unsigned char*>(bytes);
  auto* const to = reinterpret_cast<unsigned char*>(head);
  for (std::uint32_t i = 0; i < sizeof(message_head); ++i) to[i] = from[i];
  return head->version == MESSAGE_VERSION && head->kind >= message_kind::send &&
         head->kind <= message_kind::recv && head->inline_length == length - sizeof(message_head) &&
         head->inline_length <= MOST_INLINE_MESSAGE &&
         (head->inline_length == 0 || (head->length == 0 && head->kind != message_kind::recv));
}

}  // namespace lci::gpu
