// A queue with its memory, and a small card that looks at every request it is told of. Callers:
// send_queue_test; tests/accelerator/wqe_test, where kernels post. Threads: a consumer is one
// thread's.
// Always true: it believes nothing: index, queue number and size of each request are compared with
// what must come next, and the record must never go back.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "lci/wqe/send_queue.hpp"
#include "tests/support/device_code/wqe_posts.hpp"
#include "tests/unit/wqe/golden.hpp"

namespace lci::test {

// As a card does: the word with the owner bit last.
inline void write_entry(const wqe::send_queue& queue, std::uint64_t pi, wqe::cqe_opcode kind,
                        std::uint64_t counter, std::uint32_t errors) {
  std::uint32_t* const words = wqe::words_of(queue.cq, pi);
  const auto store = [&](std::uint32_t at, std::uint32_t value, std::memory_order order) {
    wqe::word_at<std::uint32_t>(words + at).store(wqe::be32(value), order);
  };
  store(wqe::CQE_SYNDROME, errors, std::memory_order_relaxed);
  store(wqe::CQE_QPN, queue.qpn, std::memory_order_relaxed);
  // edge wqe.completion: partner is poll().
  store(wqe::CQE_OWNER,
        static_cast<std::uint32_t>(counter & 0xffff) << 16 | static_cast<std::uint32_t>(kind) << 4 |
            wqe::expected_owner(pi, queue.cq.count),
        std::memory_order_release);
}

struct small_world {
  small_world(std::uint32_t blocks, std::uint32_t qpn, wqe::doorbell_form form)
      : ring(std::size_t{blocks} * wqe::BLOCK_SIZE), entries(std::size_t{blocks} * wqe::CQE_SIZE) {
    queue.ring = {ring.data(), blocks};
    queue.cq = {entries.data(), blocks, wqe::CQE_SIZE, cq_record};
    queue.bell = {form, record, target, form == wqe::doorbell_form::blueflame ? 256u : 0u};
    queue.state = &state;
    queue.qpn = qpn;
  }
  void write_error(std::uint64_t index, wqe::syndrome what, std::uint32_t vendor) {
    write_entry(queue, index, wqe::cqe_opcode::request_error, index,
                vendor << 8 | static_cast<std::uint32_t>(what));
  }

  memory ring, entries;
  std::uint32_t record[2] = {0, 0}, cq_record[2] = {0, 0};
  std::uint64_t target[64] = {};  // the mailbox, or two halves of a register
  wqe::send_queue_state state{};
  wqe::send_queue queue;
};

inline wqe::opcode wqe_opcode(const wqe::octoword* wqe) {
  return static_cast<wqe::opcode>(wqe::be32(wqe[0].word[0]) & 0xff);
}

// What post_numbered() has posted, in the order of each thread.
struct numbered_requests {
  explicit numbered_requests(std::uint32_t threads) : next(threads, 0) {}
  void look(const wqe::octoword* wqe, std::uint32_t octowords) {
    if (wqe_opcode(wqe) == wqe::opcode::nop) return;
    numbered n;
    std::memcpy(&n, reinterpret_cast<const unsigned char*>(wqe + 2) + 4, sizeof(n));
    const std::uint32_t length = wqe::be32(wqe[2].word[0]) & ~wqe::INLINE_FLAG;
    const bool is_known = n.thread < next.size();
    wrong += !is_known || n.count != next[n.thread] || length != wqe::be32(wqe[0].word[3]) ||
             octowords != 2 + (4 + length + 15) / 16;
    if (is_known) ++next[n.thread];
    ++seen;
  }
  std::vector<std::uint32_t> next;  // the count that must come next
  std::uint64_t wrong = 0, seen = 0;
};

class consumer {
 public:
  consumer(const wqe::send_queue& queue, std::uint64_t first) : q_(queue), next_(first) {}

  void consume_until(const std::function<bool()>& is_over,
                     const std::function<void(const wqe::octoword*, std::uint32_t)>& look) {
    while (!is_over()) {
      const std::uint64_t told = heard();
      if (told == next_) sched_yield();
      while (next_ < told) consume(look);
    }
  }
  std::uint64_t wrong() const { return wrong_; }

 private:
  std::uint64_t heard() {
    if (q_.bell.form == wqe::doorbell_form::mailbox)
      return wqe::word_at<std::uint64_t>(static_cast<std::uint64_t*>(q_.bell.target))
          .load(std::memory_order_acquire);
    const std::uint32_t record =
        wqe::be32(wqe::word_at<std::uint32_t>(q_.bell.record + wqe::SEND_RECORD)
                      .load(std::memory_order_acquire));
    const std::uint64_t told = wqe::widened(next_, static_cast<std::uint16_t>(record));
    wrong_ += record > 0xffff || told - next_ > q_.ring.blocks;
    return told;
  }
  void consume(const std::function<void(const wqe::octoword*, std::uint32_t)>& look) {
    const std::uint32_t head = wqe::be32(wqe::octoword_at(q_.ring, next_, 0)->word[0]);
    const std::uint32_t size = wqe::be32(wqe::octoword_at(q_.ring, next_, 0)->word[1]);
    const std::uint32_t octowords = size & 0xff;
    wrong_ += (head >> 8 & 0xffff) != (next_ & 0xffff) || size >> 8 != q_.qpn || octowords == 0 ||
              octowords > wqe::MAX_OCTOWORDS;
    wqe::octoword copy[wqe::MAX_OCTOWORDS];
    for (std::uint32_t k = 0; k < octowords && k < wqe::MAX_OCTOWORDS; ++k)
      copy[k] = *wqe::octoword_at(q_.ring, next_, k);
    look(copy, octowords);
    if ((wqe::be32(copy[0].word[2]) & wqe::CQ_UPDATE) != 0) complete();
    next_ += wqe::blocks_of(octowords);
  }
  void complete() {
    wrong_ += is_full();  // a request in the ring has an entry that was given back
    write_entry(q_, produced_++, wqe::cqe_opcode::request, next_, 0);
  }
  bool is_full() {
    const std::uint32_t returned =
        wqe::be32(wqe::word_at<std::uint32_t>(q_.cq.record + wqe::CONSUMER_RECORD)
                      .load(std::memory_order_acquire));
    return ((produced_ - returned) & 0xffffff) >= q_.cq.count;
  }

  const wqe::send_queue& q_;
  std::uint64_t next_;
  std::uint64_t produced_ = 0;
  std::uint64_t wrong_ = 0;
};

}  // namespace lci::test
