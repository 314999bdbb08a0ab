// Receives and sends of GPU memory between two ranks over a fake fabric, for the tests of
// pre-posted receives. Threads: single.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "lci/proto/host/arrival.hpp"
#include "tests/unit/proto/gpu_world.hpp"

namespace lci::test {

constexpr std::size_t ROOM = 20'000;

// A message or a receive of rank 0's messages to rank 1, with a buffer of its own.
struct end {
  explicit end(mem::mem_kind kind, std::size_t size = ROOM) : buffer(kind, size) {}
  test_buffer buffer;
  recorder told;
};

class preposted_receives : public testing::Test {
 protected:
  static gpu_options options() {
    gpu_options o;
    o.sim.maps_arenas = true;
    return o;
  }
  explicit preposted_receives(const gpu_options& o = options()) : w(o) {}

  std::unique_ptr<end> receive(mem::mem_kind kind, lci::tag_t tag, std::size_t size = ROOM,
                               int from = 0) {
    auto made = std::make_unique<end>(kind, size);
    proto::receive& record = *w[1].shared.host.receives.get();
    record.user = {};
    record.user.comp = &made->told;
    record.user.status.buffer = made->buffer.at();
    record.user.status.size = size;
    record.host = &w[1].queues->host;
    record.region = {};
    record.region_offset = 0;
    record.kind = kind;
    record.gpu = kind == mem::mem_kind::device ? 0 : -1;
    lci::status_t got;
    if (w[1].matcher->post(record, from, tag, lci::matching_policy_t::rank_tag, got) ==
        lci::errorcode_t::done)
      made->told.signal(got);
    return made;
  }
  // The receive needs nothing of `size` bytes: its contents say which message it is.
  std::unique_ptr<end> send(mem::mem_kind kind, lci::tag_t tag, unsigned seed, std::size_t size) {
    auto made = std::make_unique<end>(kind, size);
    made->buffer.fill(seed);
    for (;;) {
      auto out = w[0].outgoing(1, made->buffer.at(), size, w[1].engine_rcomp(), tag, &made->told);
      out.kind = kind;
      out.gpu = kind == mem::mem_kind::device ? 0 : -1;
      const std::size_t asking = w[0].queues->host.rendezvous.sends.size();
      const lci::error_t answer{proto::start_message(out)};
      if (kind == mem::mem_kind::device && answer.is_posted() &&
          w[0].queues->host.rendezvous.sends.size() == asking)
        ++claims;
      if (!answer.is_retry()) break;
      w.step(1);
    }
    return made;
  }
  void step_sender(int rounds = 20) {
    for (int i = 0; i < rounds; ++i) w.step_one(0);
  }
  static bool holds(const end& receive, unsigned seed, std::size_t size) {
    test_buffer wanted(mem::mem_kind::host, size);
    wanted.fill(seed);
    return receive.told.seen.size() == 1 && receive.told.seen[0].size == size &&
           std::memcmp(receive.buffer.bytes(), wanted.bytes(), size) == 0;
  }
  void encourage() { w[1].queues->gpu.preposted().encourage(0); }
  std::uint64_t messages() { return w.sim.counters().messages; }
  void expect_clean() {
    w.step(100);
    EXPECT_TRUE(w.thrown.empty()) << w.errors();
    w.expect_clean(0);
    w.expect_clean(1);
  }
  // Rank `from` sends rank `to` a message about pre-posted receives.
  template <class Body>
  void tell(int from, int to, proto::wire::kind what, const Body& body) {
    proto::single_arrival sink(w[to].queues->host);
    sink.on_message({from, proto::wire::kind_imm(what), reinterpret_cast<const std::byte*>(&body),
                     sizeof(body), nullptr});
  }

  gpu_world w;
  std::size_t claims = 0;
};

}  // namespace lci::test
