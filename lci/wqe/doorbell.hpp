// How the card learns of work requests: the doorbell record, then a register or a mailbox.
// Callers: send_queue under its lock, the C face, hosts and kernels with a queue of their own.
// Threads: one at a time for each register; threads that share one hold a lock from the record's
// store to the end of ring().
// Always true, the order: requests, barrier, record, barrier, register, barrier. The record holds
// the index of the next free block, of which the card sees 16 bits. The ring is not read once the
// record is stored.
#pragma once

#include <cstdint>

#include "lci/wqe/layout.hpp"
#include "lci/wqe/processor.hpp"
#include "lci/wqe/send_wqe.hpp"

namespace lci::wqe {

enum class doorbell_form : std::uint32_t {
  eight_bytes,  // of the last request's control segment
  synthesized,  // next index and queue number, as NVSHMEM, DeepEP and DOCA write it
  blueflame,    // a single request is copied to the register; more than one: eight bytes
  mailbox,      // a 64-bit index that grows, for a processor that rings or replays
};

LCI_ANYWHERE constexpr bool is_known(doorbell_form form) noexcept {
  return form <= doorbell_form::mailbox;
}

struct doorbell {
  doorbell_form form = doorbell_form::eight_bytes;
  std::uint32_t* record = nullptr;  // two words, see SEND_RECORD
  void* target = nullptr;           // the register, or the mailbox
  std::uint32_t buffer_size = 0;    // of each half of a BlueFlame register; 0: it is none
};

LCI_ANYWHERE constexpr std::uint32_t work_record(std::uint64_t next) noexcept {
  return be32(static_cast<std::uint32_t>(next & 0xffff));
}
LCI_ANYWHERE constexpr std::uint64_t synthesized_doorbell(std::uint64_t next,
                                                          std::uint32_t qpn) noexcept {
  return joined(be32(static_cast<std::uint32_t>(next << 8 & 0xffff00)), be32(qpn << 8));
}

// Posts receives: their record is all there is. edge wqe.receives, other side in the card.
LCI_ANYWHERE inline void post_receives(std::uint32_t* record, std::uint64_t next) noexcept {
  to_card_barrier();
  word_at<std::uint32_t>(record + RECEIVE_RECORD)
      .store(work_record(next), std::memory_order_release);
}

// No register is larger than two of these. A longer request is rung for with eight bytes.
inline constexpr std::uint32_t MAX_BLUEFLAME = 256;

// Whether one request may be copied to the register: the rule of rdma-core.
LCI_ANYWHERE constexpr bool fits_blueflame(const doorbell& bell, std::uint32_t octowords) noexcept {
  return bell.form == doorbell_form::blueflame && octowords > 1 &&
         blocks_of(octowords) * BLOCK_SIZE <= bell.buffer_size &&
         blocks_of(octowords) * BLOCK_SIZE <= MAX_BLUEFLAME;
}

// Whole blocks of one request, as they were in the ring.
struct blueflame_copy {
  octoword octowords[MAX_BLUEFLAME / OCTOWORD_SIZE];
  std::uint32_t count = 0;  // 0: eight bytes are enough
};
LCI_ANYWHERE inline void copy_request(const send_ring& ring, std::uint64_t index,
                                      std::uint32_t octowords, blueflame_copy& to) noexcept {
  to.count = blocks_of(octowords) * OCTOWORDS_PER_BLOCK;
  for (std::uint32_t k = 0; k < to.count; ++k) to.octowords[k] = *octoword_at(ring, index, k);
}
// In ascending order, 8 bytes at a time, since a card takes them as they come.
LCI_ANYWHERE inline void copy_to_register(std::uint64_t* to, const blueflame_copy& from) noexcept {
  for (std::uint32_t k = 0; k < from.count; ++k) {
    const octoword& o = from.octowords[k];
    store_register(to + 2 * k, joined(o.word[0], o.word[1]));
    store_register(to + 2 * k + 1, joined(o.word[2], o.word[3]));
  }
}

// What is rung for: requests up to `next`, the last of which begins at `last`.
struct ring_request {
  std::uint64_t next = 0;
  std::uint64_t last = 0;
  bool single = false;  // it is the only one since the last ring
  bool grows = false;   // the caller sees to it that `next` is larger each time
  // The caller has made a barrier of the card behind all of these requests.
  bool is_covered = false;
};

// `offset` is the half of a BlueFlame register to use; every ring, of 8 bytes too, takes the other.
// edge wqe.requests, other side in the card: requests are seen once the record is found.
LCI_ANYWHERE inline void ring_doorbell(const doorbell& bell, const send_ring& requests,
                                       const ring_request& what, std::uint32_t& offset) noexcept {
  if (bell.form == doorbell_form::mailbox) {
    // A store where it is enough: a GPU's atomics on host memory are slow.
    // edge wqe.requests, other side in the card: here it is a processor's loop.
    word_at<std::uint64_t> mailbox(static_cast<std::uint64_t*>(bell.target));
    if (what.grows && what.is_covered) {
      mailbox.store(what.next, order_behind_barrier());
    } else if (what.grows) {
      mailbox.store(what.next, std::memory_order_release);
    } else {
      mailbox.raise_to(what.next, std::memory_order_release);
    }
    return;
  }
  const octoword control = *octoword_at(requests, what.last, 0);
  const std::uint32_t octowords = be32(control.word[1]) & MAX_OCTOWORDS;
  // Before the record is stored: from then on the card may be done with the request, and another
  // thread write the next one in its place.
  blueflame_copy copy;
  if (what.single && fits_blueflame(bell, octowords))
    copy_request(requests, what.last, octowords, copy);
  to_card_barrier();
  word_at<std::uint32_t>(bell.record + SEND_RECORD)
      .store(work_record(what.next), std::memory_order_release);
  register_barrier();
  auto* const to =
      reinterpret_cast<std::uint64_t*>(static_cast<unsigned char*>(bell.target) + offset);
  if (copy.count != 0) {
    copy_to_register(to, copy);
  } else {
    store_register(to, bell.form == doorbell_form::synthesized
                           ? synthesized_doorbell(what.next, be32(control.word[1]) >> 8)
                           : joined(control.word[0], control.word[1]));
  }
  register_barrier();
  offset ^= bell.buffer_size;  // 0 where there is only one
}

}  // namespace lci::wqe
