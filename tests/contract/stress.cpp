#include "tests/contract/stress.hpp"

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "tests/contract/verifier.hpp"
#include "tests/support/seed.hpp"

namespace lci::test {
namespace {

// Posts one stamped message in a randomly chosen way. `spare` keeps plain buffers until the end.
errorcode_t post_one(group& g, int from, std::uint64_t draw, const stream_verifier::stamp_t& stamp,
                     std::vector<std::byte>& buffer) {
  member& m = g.at(from);
  const int to = 1 - from;
  if (draw % 3 == 0)
    return m.to().send_inline(to, stamp.number, &stamp, 8,
                              reinterpret_cast<const char*>(&stamp) + 8, 8);
  net::net_op op;
  op.rank = to;
  op.imm = stamp.number;
  op.size = sizeof stamp + draw / 3 % 1000;
  if (draw % 3 == 1) {
    op.packet = m.packets.get();
    if (op.packet == nullptr) return errorcode_t::retry_nopacket;
    op.buffer = op.packet->payload();
    std::memcpy(op.buffer, &stamp, sizeof stamp);
    const errorcode_t answer = m.to().send(op);
    if (is_retry(answer)) m.packets.put(op.packet);
    return answer;
  }
  op_fate fate;
  std::memcpy(buffer.data(), &stamp, sizeof stamp);
  op.buffer = buffer.data();
  op.context = &fate;
  const errorcode_t answer = m.to().send(op);
  // The buffer is used again for the next message, so this one has to be through; others move it
  // along, or we do.
  while (answer == errorcode_t::posted && fate.signals() == 0) {
    g.at(0).poll();
    g.at(1).poll();
    std::this_thread::yield();  // there are more threads than cores
  }
  return answer;
}

}  // namespace

std::vector<std::string> run_stress(group& g, const stress_plan& plan) {
  stream_verifier verifier(g.caps().ordered);
  for (int rank = 0; rank < 2; ++rank) {
    g.at(rank).seen().keep_bytes = false;
    g.at(rank).seen().takes_beside = true;
    g.at(rank).seen().on_arrival = [&](const net::arrival& message) {
      verifier.check(message.data, message.size);
      return net::verdict::taken;
    };
  }
  const std::uint64_t expected = std::uint64_t{2} * plan.threads * plan.per_thread;
  (void)test_seed();  // printed before threads start
  std::vector<std::thread> threads;
  for (std::uint32_t t = 0; t < 2 * plan.threads; ++t) {
    threads.emplace_back([&, t] {
      const int rank = static_cast<int>(t % 2);
      auto rng = seeded(t);
      std::vector<std::byte> buffer(4096);
      for (std::uint32_t i = 0; i < plan.per_thread; ++i) {
        const std::uint64_t draw = rng();
        const auto stamp = stream_verifier::stamp(t % 2, t / 2, i);
        while (is_retry(post_one(g, rank, draw, stamp, buffer))) {
          g.at(rank).poll();
          std::this_thread::yield();
        }
        if (draw >> 40 & 1) g.at(rank).poll();
      }
    });
  }
  // Threads end when all is posted, which needs receivers: this thread is one more.
  std::atomic<bool> all_posted{false};
  std::thread helper([&] {
    while (!all_posted.load(std::memory_order_acquire)) {
      g.poll();
      std::this_thread::yield();
    }
  });
  for (std::thread& t : threads) t.join();
  all_posted.store(
      true, std::memory_order_release);  // edge stress.stop: the helper is joined right after
  helper.join();

  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  std::uint64_t last = 0;
  for (int idle = 0; verifier.good() < expected && std::chrono::steady_clock::now() < deadline;
       ++idle) {
    g.poll();
    if (verifier.good() != last) idle = 0;
    last = verifier.good();
    if (plan.may_lose && idle > 1000) break;
  }
  g.settle();
  for (int rank = 0; rank < 2; ++rank) g.at(rank).seen().on_arrival = nullptr;
  return verifier.report(2, plan.threads, plan.per_thread);
}

}  // namespace lci::test
