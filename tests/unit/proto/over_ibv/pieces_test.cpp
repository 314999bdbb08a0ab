// Puts, gets and rendezvous over a card that takes short messages only: cut here, carried by verbs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/ibv/fabric.hpp"
#include "lci/mem/memory_domain.hpp"
#include "lci/proto/host/raw.hpp"
#include "tests/support/fake_ibv/fake_ibv.hpp"
#include "tests/unit/proto/world.hpp"

namespace lci::mem {
std::span<const memory_domain> memory_domains() { return {}; }
}  // namespace lci::mem

using namespace lci::test;  // NOLINT: a test reads better without the prefix
namespace net = lci::net;
namespace proto = lci::proto;

namespace {

constexpr std::size_t PIECE = 65536;
// Whole pieces, and what is left of one.
const std::size_t SIZES[] = {PIECE - 1, PIECE, PIECE + 1, 4 * PIECE, 5 * PIECE + 777};

fake_ibv& card() {
  static fake_ibv* const one = load_fake_ibv(LCI_FAKE_IBV);
  return *one;
}

class book final : public net::address_book {
 public:
  book(int rank, const std::vector<std::string>& all) : rank_(rank), all_(all) {}
  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return 2; }
  std::string lookup(int rank) override {
    const auto at = static_cast<std::size_t>(rank);
    return at < all_.size() ? all_[at] : "";
  }

 private:
  const int rank_;
  const std::vector<std::string>& all_;
};

class pieces : public testing::Test {
 protected:
  pieces() {
    fake_ibv_config config;
    config.devices[0].max_msg_sz = PIECE;
    card().reset(config);
    world_.emplace([this](int rank, const net::fabric_config& c) { return open(rank, c); }, 2);
  }
  ~pieces() override {
    world_.reset();
    EXPECT_EQ(card().live().all(), 0u);
  }
  std::unique_ptr<net::fabric> open(int rank, net::fabric_config config) {
    config.book = &books_[rank];
    auto made = std::make_unique<lci::ibv::fabric>(config);
    addresses_.push_back(made->address());
    return made;
  }
  node& at(int rank) { return (*world_)[rank]; }
  // Posts until it is accepted, and moves both until `done`.
  void finish(const std::function<lci::errorcode_t()>& post, const std::function<bool()>& done) {
    lci::errorcode_t code;
    for (int i = 0; lci::error_t(code = post()).is_retry(); ++i) {
      ASSERT_LT(i, 100'000);
      world_->step(1);
    }
    for (int i = 0; !done(); ++i) {
      ASSERT_LT(i, 100'000);
      world_->step(1);
    }
    EXPECT_TRUE(world_->thrown.empty());
  }

  std::vector<std::string> addresses_;
  book books_[2] = {{0, addresses_}, {1, addresses_}};
  std::optional<nodes_world> world_;
  recorder mine_, theirs_;
};

}  // namespace

TEST_F(pieces, put__arrives_whole_and_nothing_beside_it) {
  std::vector<std::byte> window(6 * PIECE);
  const net::remote_key region = at(1).expose(window.data(), window.size());
  const lci::rcomp_t rcomp = at(1).core.rcomps.add(&theirs_);
  for (const std::size_t size : SIZES) {
    std::fill(window.begin(), window.end(), std::byte{0x55});
    const auto data = pattern(size, 3);
    card().forget_counts();
    finish(
        [&] {
          auto out = at(0).outgoing(1, const_cast<std::byte*>(data.data()), size, rcomp, 9, &mine_);
          out.remote = region;
          out.remote_offset = 100;
          return proto::start_put(out);
        },
        [&] { return theirs_.seen.size() == 1 && mine_.seen.size() == 1; });
    EXPECT_GE(card().count("rdma on fake_0"), (size + PIECE - 1) / PIECE);
    EXPECT_EQ(std::memcmp(window.data() + 100, data.data(), size), 0) << size;
    EXPECT_EQ(window[99], std::byte{0x55});
    EXPECT_EQ(window[100 + size], std::byte{0x55});
    mine_.seen.clear();
    theirs_.seen.clear();
  }
}

TEST_F(pieces, get__brings_all_bytes) {
  auto window = pattern(6 * PIECE, 8);
  const net::remote_key region = at(1).expose(window.data(), window.size());
  for (const std::size_t size : SIZES) {
    std::vector<std::byte> buffer(size + 1, std::byte{0x55});
    card().forget_counts();
    finish(
        [&] {
          auto out = at(0).outgoing(1, buffer.data(), size, 0, 0, &mine_);
          out.remote = region;
          out.remote_offset = 17;
          return proto::start_get(out);
        },
        [&] { return mine_.seen.size() == 1; });
    EXPECT_GE(card().count("rdma on fake_0"), (size + PIECE - 1) / PIECE);
    EXPECT_EQ(std::memcmp(buffer.data(), window.data() + 17, size), 0) << size;
    EXPECT_EQ(buffer[size], std::byte{0x55});
    mine_.seen.clear();
  }
}

TEST_F(pieces, send__by_rendezvous_arrives_whole) {
  for (const std::size_t size : SIZES) {
    const auto data = pattern(size, 5);
    std::vector<std::byte> buffer(size);
    lci::status_t got;
    ASSERT_EQ(at(1).receive(0, buffer.data(), size, 5, &theirs_, got), lci::errorcode_t::posted);
    card().forget_counts();
    finish(
        [&] {
          auto out = at(0).outgoing(1, const_cast<std::byte*>(data.data()), size,
                                    at(1).engine_rcomp(), 5, &mine_);
          return proto::start_message(out);
        },
        [&] { return theirs_.seen.size() == 1 && mine_.seen.size() == 1; });
    EXPECT_GE(card().count("rdma on fake_0"), (size + PIECE - 1) / PIECE);
    EXPECT_EQ(theirs_.seen[0].size, size);
    EXPECT_EQ(buffer, data) << size;
    mine_.seen.clear();
    theirs_.seen.clear();
  }
}

// The receives of a card are packets, which no long message fits.
TEST_F(pieces, raw_send__arrives_whole) {
  proto::raw_net from(at(0).queues->engine()), to(at(1).queues->engine());
  const auto data = pattern(PIECE + 777, 5);
  std::vector<std::byte> buffer(data.size());
  to.post_recv(buffer.data(), buffer.size(), nullptr);
  net::net_op op;
  op.rank = 1;
  op.buffer = const_cast<std::byte*>(data.data());
  op.size = data.size();
  ASSERT_TRUE(from.needs_pieces(1, op.size));
  proto::raw_net::record* const r = from.make_record(lci::net_opcode_t::SEND, 1, nullptr);
  lci::net_status_t entry;
  for (int i = 0; lci::error_t(from.send_in_pieces(at(0).queue->end(), op, r)).is_retry(); ++i) {
    ASSERT_LT(i, 100'000);
    from.poll(1, &entry);
    to.poll(1, &entry);
  }
  std::size_t sent = 0, received = 0;
  for (int i = 0; sent == 0 || received == 0; ++i) {
    ASSERT_LT(i, 100'000);
    sent += from.poll(1, &entry);
    received += to.poll(1, &entry);
  }
  EXPECT_EQ(entry.opcode, lci::net_opcode_t::RECV);
  EXPECT_EQ(entry.length, data.size());
  EXPECT_EQ(buffer, data);
}

// Programs repeat a post that is refused until it is not.
TEST_F(pieces, refused__nothing_is_registered_for_it) {
  std::vector<std::byte> window(PIECE), data(PIECE), buffer(PIECE);
  const net::remote_key region = at(1).expose(window.data(), window.size());
  lci::status_t got;
  ASSERT_EQ(at(1).receive(0, buffer.data(), PIECE, 5, &theirs_, got), lci::errorcode_t::posted);
  const auto outgoing = [&] {
    auto out = at(0).outgoing(1, data.data(), PIECE, at(1).engine_rcomp(), 5, &mine_);
    out.remote = region;
    return out;
  };
  card().forget_counts();
  for (int i = 0; i < 10; ++i) {
    auto send = outgoing(), zero_copy = outgoing(), put = outgoing(), get = outgoing();
    zero_copy.wants_network = true;
    zero_copy.size = 4096;
    for (const auto code : {proto::start_message(send), proto::start_message(zero_copy),
                            proto::start_put(put), proto::start_get(get)})
      ASSERT_EQ(code, lci::errorcode_t::retry_nomem) << "they have not met";
  }
  EXPECT_EQ(card().count("ibv_reg_mr_iova2"), 0u);
  finish(
      [&] {
        auto out = outgoing();
        return proto::start_message(out);
      },
      [&] { return theirs_.seen.size() == 1 && mine_.seen.size() == 1; });
  EXPECT_EQ(card().count("ibv_reg_mr_iova2"), 2u) << "the source and the destination";
}

TEST_F(pieces, atomic__changes_the_word_behind_a_put) {
  std::vector<std::byte> window(2 * PIECE);
  const net::remote_key region = at(1).expose(window.data(), window.size());
  const auto data = pattern(PIECE, 3);
  finish(
      [&] {
        auto out = at(0).outgoing(1, const_cast<std::byte*>(data.data()), PIECE, 0, 0, &mine_);
        out.remote = region;
        return proto::start_put(out);
      },
      [&] { return mine_.seen.size() == 1; });
  struct : proto::atomic_request {
    void on_atomic(proto::atomic_outcome how) noexcept override { ended.push_back(how); }
    std::vector<proto::atomic_outcome> ended;
  } one;
  one.rank = 1;
  one.region = {region.slot, region.generation};
  one.offset = PIECE;
  one.change.value = 3;
  finish([&] { return at(0).queues->atomics.start(one); }, [&] { return !one.ended.empty(); });
  EXPECT_EQ(one.ended.front(), proto::atomic_outcome::done);
  EXPECT_EQ(one.old, 0u);
  EXPECT_EQ(window[PIECE], std::byte{3});
  EXPECT_EQ(std::memcmp(window.data(), data.data(), PIECE), 0);
}
