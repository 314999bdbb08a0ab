// Every protocol of messages, puts and gets over fake fabrics of all kinds.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "lci/errors.hpp"
#include "lci/proto/host/arrival.hpp"
#include "lci/proto/host/select.hpp"
#include "tests/support/seed.hpp"
#include "tests/unit/proto/world.hpp"

using namespace lci::test;  // NOLINT: a test reads better without the prefix
namespace proto = lci::proto;

namespace {

// A fabric to be run on.
struct kind {
  const char* name;
  sim_options options;
  std::size_t max_piece = std::size_t{1} << 30;
};

kind plain() { return {"plain", {}}; }
kind late() {
  kind k{"late", {}};
  k.options.late = true;
  return k;
}
kind refusing() {
  kind k{"refusing", {}};
  k.options.refuse_one_in = 3;
  k.options.connect_polls = 5;
  k.options.depth = 4;
  return k;
}
kind without_immediate() {
  kind k{"without_immediate", {}};
  k.options.caps.write_with_immediate = false;
  k.options.late = true;
  return k;
}
kind small_pieces() {
  kind k{"small_pieces", {}, 1000};
  k.options.caps.max_rma = 1000;
  k.options.late = true;
  return k;
}
kind best_in_pieces() {
  kind k{"best_in_pieces", {}};
  k.options.caps.best_rma = 1000;
  k.options.late = true;
  return k;
}
kind no_packets() {
  kind k{"no_packets", {}};
  k.options.packets = sim_packets::none;
  return k;
}
kind unordered() {
  kind k{"unordered", {}};
  k.options.caps.ordered = false;
  k.options.reorder_one_in = 4;
  k.options.max_delay_polls = 5;
  return k;
}
// Takes more than B, as shared memory does.
kind roomy() {
  kind k{"roomy", {}};
  k.options.caps.max_send = 65536;
  return k;
}
kind roomy_without_packets() {
  kind k = roomy();
  k.name = "roomy_without_packets";
  k.options.packets = sim_packets::none;
  return k;
}
kind card_like() {
  kind k{"card", card_options()};
  k.options.connect_polls = 5;
  return k;
}
kind card_of_small_pieces() {
  kind k{"card_of_small_pieces", card_options(), 1000};
  k.options.caps.max_rma = 1000;
  k.options.caps.write_with_immediate = false;
  k.options.packets = sim_packets::none;
  k.options.refuse_one_in = 3;
  k.options.depth = 4;
  return k;
}

// memcmp() wants pointers even for no bytes, and an empty vector has none.
bool same_bytes(const void* a, const void* b, std::size_t size) {
  return size == 0 || std::memcmp(a, b, size) == 0;
}

class any_fabric : public testing::TestWithParam<kind> {};
const std::size_t SIZES[] = {0,    1,    8,    63,   64,   65,   120,  128,  129,  8103, 8104,
                             8128, 8180, 8181, 8191, 8192, 8193, 8244, 8245, 8256, 8257, 20000};

}  // namespace

INSTANTIATE_TEST_SUITE_P(sim, any_fabric,
                         testing::Values(plain(), late(), refusing(), without_immediate(),
                                         small_pieces(), best_in_pieces(), no_packets(),
                                         unordered(), roomy(), roomy_without_packets(), card_like(),
                                         card_of_small_pieces()),
                         [](const auto& of) { return std::string(of.param.name); });

TEST_P(any_fabric, active_message__every_size_arrives_once_with_its_bytes) {
  for (const bool zero_copy : {false, true})
    for (const lci::tag_t tag : {lci::tag_t{7}, lci::tag_t{70'000}, ~lci::tag_t{1}}) {
      proto_world w(GetParam().options, 2, GetParam().max_piece);
      recorder sender, receiver;
      receiver.attr.zero_copy_am = zero_copy;
      const lci::rcomp_t rcomp = w[1].core.rcomps.add(&receiver);
      for (const std::size_t size : SIZES) {
        auto data = pattern(size);
        lci::errorcode_t code;
        do {
          auto out = w[0].outgoing(1, data.data(), size, rcomp, tag, &sender);
          code = proto::start_message(out);
          if (lci::error_t(code).is_retry()) w.step(1);
        } while (lci::error_t(code).is_retry());
        w.step();
        EXPECT_EQ(sender.seen.size(), lci::error_t(code).is_posted() ? 1u : 0u) << size;
        ASSERT_EQ(receiver.seen.size(), 1u) << size;
        const lci::status_t got = receiver.seen[0];
        EXPECT_EQ(got.size, size);
        EXPECT_EQ(got.tag, tag);
        EXPECT_EQ(got.rank, 0);
        EXPECT_EQ(got.user_context, nullptr);
        EXPECT_TRUE(same_bytes(got.buffer, data.data(), size)) << size;
        if (zero_copy && size <= 8192)
          lci::mem::release_packet(w[1].core.arena, lci::mem::packet::of_payload(got.buffer));
        else
          free(got.buffer);
        sender.seen.clear();
        receiver.seen.clear();
      }
      EXPECT_TRUE(w.thrown.empty());
      w.step();
      EXPECT_TRUE(w[0].queues->is_drained());
      for (const int rank : {0, 1}) EXPECT_EQ(w.sim.registrations(rank), 0u) << rank;
    }
}

// Messages of all sizes from rank 0, each with a tag of its own, and the receives for them.
struct receivers_of_all {
  receivers_of_all(proto_world& world, std::size_t n) : w(world), told(n) {
    for (std::size_t i = 0; i < n; ++i) {
      data.push_back(pattern(SIZES[i % std::size(SIZES)], static_cast<unsigned>(i)));
      buffers.emplace_back(data.back().size());
    }
  }
  std::size_t size() const { return data.size(); }
  // Every third one needs a head.
  lci::tag_t tag_of(std::size_t i) const { return i % 3 == 0 ? 70'000 + i : i; }
  void expect_all() {
    for (std::size_t i = 0; i < size(); ++i) {
      lci::status_t got;
      const auto code =
          w[1].receive(0, buffers[i].data(), buffers[i].size(), tag_of(i), &told[i], got);
      if (code == lci::errorcode_t::done) told[i].seen.push_back(got);
      w.step(1);
    }
    w.step(2000);
    for (std::size_t i = 0; i < size(); ++i) {
      ASSERT_EQ(told[i].seen.size(), 1u) << i;
      EXPECT_EQ(buffers[i], data[i]) << i;
    }
    for (const int rank : {0, 1}) {
      EXPECT_TRUE(w[rank].queues->is_drained()) << rank;
      EXPECT_EQ(w.sim.registrations(rank), 0u) << rank;
    }
  }
  proto_world& w;
  std::vector<std::vector<std::byte>> data, buffers;
  std::vector<recorder> told;
  std::size_t posted = 0;
};

TEST_P(any_fabric, send__without_retry_keeps_what_the_network_refuses) {
  proto_world w(GetParam().options, 2, GetParam().max_piece);
  recorder sender;
  receivers_of_all all(w, 200);
  for (std::size_t i = 0; i < all.size(); ++i) {
    auto out = w[0].outgoing(1, all.data[i].data(), all.data[i].size(), w[1].engine_rcomp(),
                             all.tag_of(i), &sender);
    out.may_retry = false;
    const lci::errorcode_t code = proto::start_message(out);
    ASSERT_FALSE(lci::error_t(code).is_retry());
    if (lci::error_t(code).is_posted()) ++all.posted;
  }
  all.expect_all();
  EXPECT_EQ(sender.seen.size(), all.posted);
}

// Each behind one that waits, and in a lane that refuses.
TEST_P(any_fabric, send__until_the_network_is_done_without_retry_keeps_its_head) {
  for (const lci::tag_t tag : {lci::tag_t{7}, lci::tag_t{70'000}, ~lci::tag_t{1000}}) {
    proto_world w(GetParam().options, 2, GetParam().max_piece);
    recorder sender, receiver;
    const lci::rcomp_t rcomp = w[1].core.rcomps.add(&receiver);
    std::vector<std::vector<std::byte>> data;
    std::size_t posted = 0;
    for (int round = 0; round < 3; ++round)
      for (const std::size_t size : SIZES) {
        data.push_back(pattern(size, static_cast<unsigned>(data.size())));
        auto out = w[0].outgoing(1, data.back().data(), size, rcomp, tag + data.size(), &sender);
        out.may_retry = false;
        out.wants_network = true;
        const lci::errorcode_t code = proto::start_message(out);
        ASSERT_FALSE(lci::error_t(code).is_retry());
        if (lci::error_t(code).is_posted()) ++posted;
      }
    w.step(3000);
    EXPECT_EQ(sender.seen.size(), posted);
    ASSERT_EQ(receiver.seen.size(), data.size());
    std::vector<bool> seen(data.size());
    for (const lci::status_t& got : receiver.seen) {
      const std::size_t i = got.tag - tag - 1;
      ASSERT_LT(i, data.size());
      EXPECT_FALSE(seen[i]) << i;
      seen[i] = true;
      EXPECT_EQ(got.size, data[i].size());
      EXPECT_TRUE(same_bytes(got.buffer, data[i].data(), data[i].size())) << i;
      free(got.buffer);
    }
    EXPECT_TRUE(w.thrown.empty());
    EXPECT_EQ(w[1].queues->engine().dropped.sum(), 0);
    for (const int rank : {0, 1}) {
      EXPECT_TRUE(w[rank].queues->is_drained());
      EXPECT_EQ(w.sim.registrations(rank), 0u) << rank;
    }
  }
}

// The user's pool has larger packets than the device, in whose packets goes what waits.
TEST_P(any_fabric, send__out_of_larger_packets_keeps_to_those_of_the_device) {
  proto_world w(GetParam().options, 2, GetParam().max_piece);
  lci::mem::packet_pool large(w[0].core.arena, proto::packet_bytes_for(65536), 16);
  recorder sender;
  receivers_of_all all(w, 100);
  for (std::size_t i = 0; i < all.size(); ++i) {
    auto out = w[0].outgoing_from(large, 1, all.data[i].data(), all.data[i].size(),
                                  w[1].engine_rcomp(), all.tag_of(i), &sender);
    out.may_retry = false;
    const lci::errorcode_t code = proto::start_message(out);
    ASSERT_FALSE(lci::error_t(code).is_retry());
    if (lci::error_t(code).is_posted()) ++all.posted;
  }
  all.expect_all();
  EXPECT_EQ(sender.seen.size(), all.posted);
}

TEST_P(any_fabric, put_with_signal__news_come_after_the_bytes_and_from_the_origin) {
  proto_world w(GetParam().options, 2, GetParam().max_piece);
  recorder sender, target;
  const lci::rcomp_t rcomp = w[1].core.rcomps.add(&target);
  std::vector<std::byte> window(30'000);
  const lci::net::remote_key region = w[1].expose(window.data(), window.size());
  for (const bool has_mr : {false, true})
    for (const std::size_t size : SIZES) {
      auto data = pattern(size, 3);
      std::fill(window.begin(), window.end(), std::byte{});
      lci::errorcode_t code;
      do {
        auto out = w[0].outgoing(1, data.data(), size, rcomp, 9, &sender);
        out.remote = region;
        out.remote_offset = 100;
        out.has_mr = has_mr;
        code = proto::start_put(out);
        if (lci::error_t(code).is_retry()) w.step(1);
      } while (lci::error_t(code).is_retry());
      // A put of few bytes without registration frees the caller's buffer at once.
      if (lci::error_t(code).is_done()) std::fill(data.begin(), data.end(), std::byte{0x11});
      for (int i = 0; i < ROUNDS && target.seen.empty(); ++i) w.step(1);
      ASSERT_EQ(target.seen.size(), 1u) << size;
      EXPECT_EQ(target.seen[0].rank, 0);
      EXPECT_EQ(target.seen[0].tag, 9u);
      EXPECT_EQ(target.seen[0].buffer, nullptr);
      EXPECT_TRUE(same_bytes(window.data() + 100, pattern(size, 3).data(), size)) << size;
      w.step();
      EXPECT_EQ(sender.seen.size(), lci::error_t(code).is_posted() ? 1u : 0u) << size;
      sender.seen.clear();
      target.seen.clear();
    }
  EXPECT_TRUE(w[0].queues->is_drained());
  EXPECT_EQ(w.sim.registrations(0), 0u);
}

TEST_P(any_fabric, get__brings_the_bytes) {
  proto_world w(GetParam().options, 2, GetParam().max_piece);
  recorder done;
  auto window = pattern(30'000, 8);
  const lci::net::remote_key region = w[1].expose(window.data(), window.size());
  for (const std::size_t size : SIZES) {
    std::vector<std::byte> buffer(size);
    lci::errorcode_t code;
    do {
      auto out = w[0].outgoing(1, buffer.data(), size, 0, 0, &done);
      out.remote = region;
      out.remote_offset = 17;
      code = proto::start_get(out);
      if (lci::error_t(code).is_retry()) w.step(1);
    } while (lci::error_t(code).is_retry());
    EXPECT_TRUE(lci::error_t(code).is_posted());
    w.step();
    ASSERT_EQ(done.seen.size(), 1u) << size;
    EXPECT_TRUE(same_bytes(buffer.data(), window.data() + 17, size)) << size;
    done.seen.clear();
  }
  EXPECT_EQ(w.sim.registrations(0), 0u);
}

// Each piece is posted when the one before has completed.
TEST(pieces, of_the_best_size__follow_each_other) {
  const auto steps_of_a_get = [](std::size_t best) {
    sim_options options;
    options.late = true;
    options.caps.best_rma = best;
    proto_world w(options, 2);
    recorder done;
    const auto window = pattern(20'000, 8);
    auto exposed = window;
    std::vector<std::byte> buffer(window.size());
    auto out = w[0].outgoing(1, buffer.data(), buffer.size(), 0, 0, &done);
    out.remote = w[1].expose(exposed.data(), exposed.size());
    EXPECT_TRUE(lci::error_t(proto::start_get(out)).is_posted());
    int steps = 0;
    for (; steps < ROUNDS && done.seen.empty(); ++steps) w.step(1);
    EXPECT_EQ(buffer, window);
    return steps;
  };
  EXPECT_GE(steps_of_a_get(1000), 20);
  EXPECT_LT(steps_of_a_get(std::size_t{1} << 30), 10);
}
