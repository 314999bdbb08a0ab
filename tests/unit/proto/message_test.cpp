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
const std::size_t SIZES[] = {0,   1,    8,    63,   64,   65,   120,  128,
                             129, 8103, 8104, 8115, 8116, 8117, 8128, 20000};

}  // namespace

INSTANTIATE_TEST_SUITE_P(sim, any_fabric,
                         testing::Values(plain(), late(), refusing(), without_immediate(),
                                         small_pieces(), no_packets(), unordered(), card_like(),
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
        if (zero_copy && size <= 8116 - 12)
          lci::mem::release_packet(w[1].core.arena, lci::mem::packet::of_payload(got.buffer));
        else if (zero_copy && size <= 8116) {  // in a packet unless the tag made it a rendezvous
          if (w[1].core.arena.contains(got.buffer) || w[0].core.arena.contains(got.buffer))
            lci::mem::release_packet(w[1].core.arena, lci::mem::packet::of_payload(got.buffer));
          else
            free(got.buffer);
        } else
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

TEST_P(any_fabric, send__without_retry_keeps_what_the_network_refuses) {
  proto_world w(GetParam().options, 2, GetParam().max_piece);
  recorder sender;
  std::vector<std::vector<std::byte>> data, buffers;
  std::vector<recorder> receivers(200);
  std::size_t posted = 0;
  for (std::size_t i = 0; i < receivers.size(); ++i) {
    const std::size_t size = SIZES[i % std::size(SIZES)];
    data.push_back(pattern(size, static_cast<unsigned>(i)));
    buffers.emplace_back(size);
  }
  for (std::size_t i = 0; i < receivers.size(); ++i) {
    auto out = w[0].outgoing(1, data[i].data(), data[i].size(), w[1].engine_rcomp(), i, &sender);
    out.may_retry = false;
    const lci::errorcode_t code = proto::start_message(out);
    ASSERT_FALSE(lci::error_t(code).is_retry());
    if (lci::error_t(code).is_posted()) ++posted;
  }
  for (std::size_t i = 0; i < receivers.size(); ++i) {
    lci::status_t got;
    const auto code = w[1].receive(0, buffers[i].data(), buffers[i].size(), i, &receivers[i], got);
    if (code == lci::errorcode_t::done) receivers[i].seen.push_back(got);
    w.step(1);
  }
  w.step(2000);
  EXPECT_EQ(sender.seen.size(), posted);
  for (std::size_t i = 0; i < receivers.size(); ++i) {
    ASSERT_EQ(receivers[i].seen.size(), 1u) << i;
    EXPECT_EQ(buffers[i], data[i]) << i;
  }
  EXPECT_TRUE(w[0].queues->is_drained());
  EXPECT_TRUE(w[1].queues->is_drained());
  for (const int rank : {0, 1}) EXPECT_EQ(w.sim.registrations(rank), 0u) << rank;
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

// A call that waits is over once the bytes are in a packet. Whatever it waited on may be another
// call's by then.
TEST(put, copied_for_a_call_that_waits__may_fail_behind_it) {
  for (sim_options options : {sim_options{.late = true}, card_options()}) {
    options.caps.orders_puts = true;
    proto_world w(options);
    std::uint64_t word = 42, window = 0;
    const lci::net::remote_key region = w[1].expose(&window, sizeof(window));
    auto& waiters = w[0].core.waiters;
    const auto put = [&] {
      proto::waiter* const waits = waiters.get();
      waits->arm(waiters);
      lci::errorcode_t code;
      do {
        auto out = w[0].outgoing(1, &word, sizeof(word), 0, 0, waits);
        out.user.is_waiter = true;
        out.remote = region;
        code = proto::start_put(out);
        if (lci::error_t(code).is_retry()) w.step(1);
      } while (lci::error_t(code).is_retry());
      waiters.put(waits);
      return code;
    };
    ASSERT_EQ(put(), lci::errorcode_t::done);
    w.step();
    EXPECT_EQ(window, 42u);
    ASSERT_EQ(put(), lci::errorcode_t::done);
    EXPECT_EQ(w[0].queues->engine().open.sum(), 1) << "it has ended before it could fail";
    w.sim.kill(1);
    w.step();
    EXPECT_FALSE(w.thrown.empty());
    EXPECT_EQ(w[0].queues->engine().open.sum(), 0);
  }
}

TEST(arrival, unknown_rcomp__throws_at_the_receiver_and_others_are_delivered) {
  proto_world w;
  recorder receiver;
  const lci::rcomp_t rcomp = w[1].core.rcomps.add(&receiver);
  std::uint64_t word = 42;
  auto lost = w[0].outgoing(1, &word, sizeof(word), rcomp + 1, 0);
  ASSERT_EQ(proto::start_message(lost), lci::errorcode_t::done);
  auto good = w[0].outgoing(1, &word, sizeof(word), rcomp, 0);
  ASSERT_EQ(proto::start_message(good), lci::errorcode_t::done);
  w.step(20);
  ASSERT_EQ(w.thrown.size(), 1u);
  EXPECT_THROW(std::rethrow_exception(w.thrown[0]), lci::argument_error);
  ASSERT_EQ(receiver.seen.size(), 1u);
  free(receiver.seen[0].buffer);
}

TEST(arrival, exception_of_a_handler__comes_out_of_progress_after_the_batch) {
  struct thrower final : lci::comp_impl_t {
    void signal(lci::status_t status) override {
      free(status.buffer);
      if (++calls == 1) throw std::domain_error("user");
    }
    int calls = 0;
  };
  proto_world w;
  thrower target;
  const lci::rcomp_t rcomp = w[1].core.rcomps.add(&target);
  std::uint64_t word = 1;
  for (int i = 0; i < 5; ++i) {
    auto out = w[0].outgoing(1, &word, sizeof(word), rcomp, 0);
    ASSERT_EQ(proto::start_message(out), lci::errorcode_t::done);
  }
  w.step(1);
  EXPECT_EQ(target.calls, 5);
  ASSERT_EQ(w.thrown.size(), 1u);
  EXPECT_THROW(std::rethrow_exception(w.thrown[0]), std::domain_error);
}

// Corrupted bytes never crash and never hang; what does not parse is counted.
TEST(arrival, corrupted_messages__are_survived) {
  sim_options options;
  options.corrupt_one_in = 2;
  options.duplicate_one_in = 5;
  options.seed = test_seed();
  proto_world w(options);
  recorder sender;
  std::vector<recorder> receivers(1);
  auto data = pattern(20'000);
  std::vector<std::byte> buffer(20'000);
  for (int i = 0; i < 300; ++i) {
    lci::status_t got;
    try {
      w[1].receive(0, buffer.data(), buffer.size(), 5, &receivers[0], got);
    } catch (const lci::truncation_error&) {  // a damaged length
    }
    auto out = w[0].outgoing(1, data.data(), i % 2 == 0 ? data.size() : 100, w[1].engine_rcomp(), 5,
                             &sender);
    proto::start_message(out);
    w.step(2);
  }
  w.step();
  EXPECT_GT(w.sim.counters().corrupted, 0u);
}

// Ranks of the peer failures that progress throws, in this order; -1 for another error.
std::vector<int> failures(node& at) {
  std::vector<int> ranks;
  for (int i = 0; i < 10; ++i) {
    try {
      at.queues->progress();
    } catch (const lci::peer_failure_error& e) {
      ranks.push_back(e.failed_rank());
    } catch (const std::exception&) {
      ranks.push_back(-1);
    }
  }
  return ranks;
}

TEST(on_error, of_peers_that_are_gone__is_told_once_a_peer_and_deaths_come_first) {
  proto_world w({}, 4);
  proto::arrival_sink sink(w[0].queues->host);
  sink.on_error(1, nullptr, "some reason");
  EXPECT_EQ(failures(w[0]), std::vector<int>{-1}) << "the peer is still there";
  sink.on_peer_gone(1, true, "it has left");
  EXPECT_EQ(failures(w[0]), std::vector<int>{}) << "nobody needed it";
  sink.on_peer_gone(2, true, "it has left");
  sink.on_error(2, nullptr, "the peer is gone");
  sink.on_error(2, nullptr, "the peer is gone");
  sink.on_peer_gone(3, false, "it died");
  sink.on_error(3, nullptr, "the peer is gone");
  EXPECT_EQ(failures(w[0]), (std::vector<int>{3, 2}));
  sink.on_error(2, nullptr, "the peer is gone");
  sink.on_error(3, nullptr, "the peer is gone");
  EXPECT_EQ(failures(w[0]), std::vector<int>{});
}

TEST(select, order_of_records__is_the_documented_one) {
  const auto records = proto::message_protocols();
  ASSERT_EQ(records.size(), 4u);
  EXPECT_STREQ(records[0]->name, "inject");
  EXPECT_STREQ(records[1]->name, "bcopy");
  EXPECT_STREQ(records[2]->name, "zero_copy");
  EXPECT_STREQ(records[3]->name, "rendezvous");
}

TEST(select, thresholds__follow_the_limits) {
  proto_world w;
  std::byte byte{};
  auto named = [&](std::size_t size, auto&& change) {
    auto out = w[0].outgoing(1, &byte, size, 9, 0);
    change(out);
    return std::string(proto::select_message(out).name);
  };
  const auto as_is = [](proto::outgoing&) {};
  EXPECT_EQ(named(64, as_is), "inject");
  EXPECT_EQ(named(65, as_is), "bcopy");
  EXPECT_EQ(named(8116, as_is), "bcopy");
  EXPECT_EQ(named(8117, as_is), "rendezvous");
  EXPECT_EQ(named(8, [](proto::outgoing& o) { o.wants_network = true; }), "bcopy");
  EXPECT_EQ(named(65, [](proto::outgoing& o) { o.has_mr = true; }), "zero_copy");
  EXPECT_EQ(named(64, [](proto::outgoing& o) { o.has_mr = true; }), "inject");
  // With its head it has to fit what the network takes.
  EXPECT_EQ(named(52, [](proto::outgoing& o) { o.extended = true; }), "inject");
  EXPECT_EQ(named(53, [](proto::outgoing& o) { o.extended = true; }), "bcopy");
}
