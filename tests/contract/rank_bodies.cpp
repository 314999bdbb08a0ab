#include "tests/contract/rank_bodies.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <vector>

#include "tests/contract/rank_process.hpp"
#include "tests/contract/verifier.hpp"

namespace lci::test {
namespace {

using stamp_t = stream_verifier::stamp_t;

}  // namespace

int exchange(rank_job& me, const std::string& provider, std::uint32_t count) {
  rank_process world(me, provider);
  const auto ranks = static_cast<std::uint32_t>(me.size());
  stream_verifier verifier(world.self.fabric->caps().ordered);
  world.self.seen().keep_bytes = false;
  world.self.seen().on_arrival = [&](const net::arrival& message) {
    stamp_t stamp{};
    std::memcpy(&stamp, message.data, sizeof stamp);
    EXPECT_EQ(static_cast<std::uint32_t>(message.rank), stamp.origin);
    verifier.check(message.data, message.size);
    return net::verdict::taken;
  };
  const auto origin = static_cast<std::uint32_t>(me.rank());
  for (std::uint32_t i = 0; i < count; ++i) {
    for (int to = 0; to < me.size(); ++to) {
      const stamp_t stamp = stream_verifier::stamp(origin, 0, i);
      EXPECT_TRUE(world.post(
          [&] { return world.self.to().send_inline(to, i, nullptr, 0, &stamp, sizeof stamp); }));
    }
  }
  world.until([&] { return verifier.good() == std::uint64_t{ranks} * count; });
  EXPECT_EQ(verifier.report(ranks, 1, count), std::vector<std::string>{});
  world.leave();
  // Everybody took leave, so nobody died.
  for (const seen_gone& g : world.self.seen().gone()) EXPECT_TRUE(g.orderly) << "rank " << g.rank;
  return 0;
}

int remote_memory(rank_job& me, const std::string& provider) {
  constexpr std::size_t SIZE = 3 << 20;
  rank_process world(me, provider);
  member& self = world.self;
  if (me.rank() == 0) {
    std::vector<std::byte> memory(SIZE);
    const net::remote_key key = self.expose(memory.data(), SIZE);
    world.publish(key);
    world.barrier("exposed");
    world.until([&] { return self.seen().arrived() == 1; });
    EXPECT_TRUE(memory == pattern(SIZE, 77))
        << "the puts arrived damaged, or after the message behind them";
    world.barrier("checked");
    self.hide(key);
    world.leave();
    return 0;
  }
  world.barrier("exposed");
  if (me.rank() > 1) {
    world.barrier("checked");
    world.leave();
    return 0;
  }
  const net::remote_key key = world.published(0);
  world.meet(0, key);
  EXPECT_EQ(self.fabric->check_remote(0, key).size, SIZE);
  std::vector<std::byte> source = pattern(SIZE, 77);
  std::vector<std::byte> back(SIZE);
  for (bool is_get : {false, true}) {
    std::deque<op_fate> fates;
    std::size_t posted = 0;
    const std::size_t piece = std::min(self.fabric->caps().max_rma, SIZE / 3);
    for (std::size_t at = 0; at < SIZE; at += piece) {
      net::net_op op;
      op.rank = 0;
      op.buffer = (is_get ? back : source).data() + at;
      op.size = std::min(piece, SIZE - at);
      op.remote = key;
      op.remote_offset = at;
      op.context = &fates.emplace_back();
      world.post([&] {
        const errorcode_t answer = is_get ? self.to().get(op) : self.to().put(op);
        posted += answer == errorcode_t::posted;
        return answer;
      });
    }
    world.until([&] {
      std::size_t signalled = 0;
      for (const op_fate& f : fates) signalled += f.completed.load(std::memory_order_acquire) == 1;
      return signalled == posted;
    });
  }
  EXPECT_TRUE(back == source);
  net::net_op note;
  note.rank = 0;
  note.fence = true;
  world.post([&] { return self.to().send(note); });
  world.barrier("checked");
  world.leave();
  return 0;
}

namespace {

// The messages of every_verb: what one is follows from who sent it and which it is.
class verb_table {
 public:
  enum way : std::uint32_t { inlined, packet, buffer, immediate, WAYS };
  static constexpr std::size_t SLOT = 3000;  // bytes that one write with an immediate fills at most

  verb_table(const net::capabilities& caps, std::size_t packet_room, int ranks, std::uint32_t count)
      : ways_(caps.write_with_immediate ? WAYS : immediate), count_(count), ranks_(ranks) {
    most_[inlined] = caps.max_inject;
    most_[packet] = std::min(caps.max_send, packet_room);
    most_[buffer] = caps.max_send;
    most_[immediate] = std::min(caps.max_rma, SLOT);
  }
  std::uint32_t ways() const { return ways_; }
  std::uint32_t last() const { return count_ * ways_; }
  std::uint32_t written() const { return ways_ == WAYS ? count_ : 0; }
  std::uint32_t sent() const { return last() - written(); }
  way way_of(std::uint32_t number) const { return static_cast<way>(number % ways_); }
  // Nothing, the most, one less, and anything between.
  std::size_t size_of(std::uint32_t number) const {
    const std::size_t most = most_[way_of(number)];
    const std::uint32_t round = number / ways_;
    switch (round % 4) {
      case 0:
        return most;
      case 1:
        return round % 8 == 1 ? 0 : most - 1;
      default:
        return std::size_t{round} * 2654435761u % (most + 1);
    }
  }
  std::vector<std::byte> bytes_of(int origin, std::uint32_t number) const {
    return pattern(size_of(number), salt(origin, number));
  }
  bool is_right(int origin, std::uint32_t number, const std::byte* data) const {
    const auto expected = bytes_of(origin, number);
    return expected.empty() || std::memcmp(data, expected.data(), expected.size()) == 0;
  }
  std::size_t memory() const { return static_cast<std::size_t>(ranks_) * count_ * SLOT; }
  std::size_t slot_of(int origin, std::uint32_t number) const {
    return (static_cast<std::size_t>(origin) * count_ + number / ways_) * SLOT;
  }

 private:
  static std::uint32_t salt(int origin, std::uint32_t number) {
    return static_cast<std::uint32_t>(origin) * 1000003u + number;
  }

  const std::uint32_t ways_, count_;
  const int ranks_;
  std::size_t most_[WAYS] = {};
};

// What arrives at one rank, each once and as it was sent.
class verb_arrivals {
 public:
  verb_arrivals(rank_process& world, const verb_table& table, const std::vector<std::byte>& memory)
      : table_(table), memory_(memory) {
    world.self.seen().keep_bytes = false;
    world.self.seen().on_arrival = [this](const net::arrival& message) {
      EXPECT_EQ(message.size, table_.size_of(message.imm));
      EXPECT_NE(table_.way_of(message.imm), verb_table::immediate);
      note(message.rank, message.imm, message.data);
      return net::verdict::taken;
    };
    world.self.seen().on_imm = [this](int rank, std::uint32_t imm) {
      EXPECT_EQ(table_.way_of(imm), verb_table::immediate);
      note(rank, imm, memory_.data() + table_.slot_of(rank, imm));
    };
  }
  std::size_t count() const { return seen_.size(); }

 private:
  void note(int rank, std::uint32_t number, const std::byte* data) {
    EXPECT_TRUE(table_.is_right(rank, number, data)) << "number " << number << " of rank " << rank;
    EXPECT_EQ(++seen_[std::make_pair(rank, number)], 1) << "number " << number << " came again";
  }

  const verb_table& table_;
  const std::vector<std::byte>& memory_;
  std::map<std::pair<int, std::uint32_t>, int> seen_;
};

// Posts that stay as they are until they are signalled.
class verb_posts {
 public:
  verb_posts(rank_process& world, const verb_table& table) : world_(world), table_(table) {}

  void send(int origin, int to, std::uint32_t number, net::remote_key key) {
    std::vector<std::byte>& data = sources_.emplace_back(table_.bytes_of(origin, number));
    net::net_op op;
    op.rank = to;
    op.imm = number;
    op.buffer = data.data();
    op.size = data.size();
    switch (table_.way_of(number)) {
      case verb_table::inlined:
        post([&] {
          return world_.self.to().send_inline(to, number, nullptr, 0, data.data(), data.size());
        });
        break;
      case verb_table::packet:
        post([&] { return send_packet(op); });
        break;
      case verb_table::buffer:
        post_with_fate(op, &net::endpoint::send);
        break;
      default:
        op.remote = key;
        op.remote_offset = table_.slot_of(origin, number);
        post_with_fate(op, &net::endpoint::put_imm);
    }
  }
  std::vector<std::byte>& get(int from, net::remote_key key, std::size_t offset, std::size_t size) {
    std::vector<std::byte>& into = sources_.emplace_back(size);
    net::net_op op;
    op.rank = from;
    op.buffer = into.data();
    op.size = size;
    op.remote = key;
    op.remote_offset = offset;
    post_with_fate(op, &net::endpoint::get);
    return into;
  }
  void wait() {
    world_.until([&] {
      std::size_t signalled = 0;
      for (const op_fate& each : fates_) signalled += each.signals() != 0;
      return signalled == posted_;
    });
    for (const op_fate& each : fates_) EXPECT_EQ(each.failed.load(), 0);
  }

 private:
  using verb = errorcode_t (net::endpoint::*)(const net::net_op&) noexcept;

  void post(const std::function<errorcode_t()>& one_post) { EXPECT_TRUE(world_.post(one_post)); }
  errorcode_t send_packet(net::net_op op) {
    mem::packet* const packet = world_.self.packets.get();
    if (packet == nullptr) return errorcode_t::retry_nopacket;
    if (op.size != 0) std::memcpy(packet->payload(), op.buffer, op.size);
    op.packet = packet;
    op.buffer = packet->payload();
    const errorcode_t answer = world_.self.to().send(op);
    if (is_retry(answer)) world_.self.packets.put(packet);
    return answer;
  }
  void post_with_fate(net::net_op op, verb how) {
    op.context = &fates_.emplace_back();
    post([&] {
      const errorcode_t answer = (world_.self.to().*how)(op);
      posted_ += answer == errorcode_t::posted;
      return answer;
    });
  }

  rank_process& world_;
  const verb_table& table_;
  std::deque<std::vector<std::byte>> sources_;
  std::deque<op_fate> fates_;
  std::size_t posted_ = 0;
};

}  // namespace

int every_verb(rank_job& me, const std::string& provider, std::uint32_t count) {
  rank_process world(me, provider);
  const verb_table table(world.self.fabric->caps(), world.self.packets.payload_size(), me.size(),
                         count);
  std::vector<std::byte> memory(table.memory());
  verb_arrivals arrivals(world, table, memory);
  const net::remote_key mine = world.self.expose(memory.data(), memory.size());
  world.publish(mine);
  world.barrier("exposed");
  std::vector<std::pair<int, net::remote_key>> others;
  for (int rank = 0; rank < me.size(); ++rank)
    if (rank != me.rank()) others.emplace_back(rank, world.published(rank));
  for (const auto& [rank, key] : others) world.meet(rank, key);

  verb_posts posts(world, table);
  for (std::uint32_t number = 0; number < table.last(); ++number)
    for (const auto& [rank, key] : others) posts.send(me.rank(), rank, number, key);
  posts.wait();
  world.until([&] { return arrivals.count() == others.size() * table.last(); });
  for (const auto& [rank, key] : others) {
    if (table.written() == 0) continue;
    const std::uint32_t number = table.ways() * (count / 2) + verb_table::immediate;
    const auto& back =
        posts.get(rank, key, table.slot_of(me.rank(), number), table.size_of(number));
    posts.wait();
    EXPECT_TRUE(table.is_right(me.rank(), number, back.data())) << "read from rank " << rank;
  }
  world.barrier("read");
  for (int i = 0; i < 100; ++i) world.poll();
  EXPECT_EQ(arrivals.count(), others.size() * table.last());
  world.self.hide(mine);
  world.leave();
  return 0;
}

}  // namespace lci::test
