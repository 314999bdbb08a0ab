// Carries out an atomic request on a word in memory, on a processor or in a kernel.
// Callers: the card in software, what executes the requests of other ranks (lci/proto), kernels
// that do it for memory of GPUs. Threads: any; two changes of a word, of whatever width, are made
// one after the other. Always true: the neighbours of a word of 4 bytes are not touched.
#pragma once

#include <cstdint>

#include "lci/wqe/anywhere.hpp"
#include "lci/wqe/layout.hpp"
#include "lci/wqe/processor.hpp"
#include "lci/wqe/send_wqe.hpp"
#include "lci/wqe/word_change.hpp"

namespace lci::wqe {

// Of the four atomic opcodes.
LCI_ANYWHERE constexpr word_change change_of(opcode op, const atomic_operands& with) noexcept {
  constexpr std::uint64_t ALL = ~std::uint64_t{0};
  if (op == opcode::atomic_fa) return {with.swap_add, 0, 0, 0, word_change::ADD, with.size};
  if (op == opcode::atomic_masked_fa)
    return {with.swap_add, 0, 0, with.compare_mask, word_change::ADD, with.size};
  if (op == opcode::atomic_cs)
    return {with.swap_add, with.compare, ALL, ALL, word_change::SWAP, with.size};
  return {with.swap_add,     with.compare,      with.swap_mask,
          with.compare_mask, word_change::SWAP, with.size};
}

// Answers what the word was. Also where nothing was written the word is exchanged with itself, so
// that what others did before is seen.
// edge wqe.atomic, both sides: requests of any queue, and the program's own operations on the word.
template <class T>
LCI_ANYWHERE T apply(const word_change& by, T* at) noexcept {
  word_at<T> word(at);
  T old = word.load(std::memory_order_acquire);
  while (!word.compare_exchange_strong(old, changed(by, old), std::memory_order_acq_rel))
    old = word.load(std::memory_order_acquire);
  return old;
}
// At an address aligned to the size.
LCI_ANYWHERE inline std::uint64_t apply(const word_change& by, void* at) noexcept {
  return by.size == 4 ? apply(by, static_cast<std::uint32_t*>(at))
                      : apply(by, static_cast<std::uint64_t*>(at));
}

}  // namespace lci::wqe
