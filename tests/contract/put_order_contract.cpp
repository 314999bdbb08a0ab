// Does what comes after a put find its data? A put is in order once it was answered done, has
// completed, or was posted where the backend says that this is enough: what is posted later to the
// same rank through the same device, by whatever thread and endpoint, comes behind it.
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "tests/contract/suite.hpp"
#include "tests/support/in_thread.hpp"
#include "tests/support/sanitized.hpp"

namespace lci::test {
namespace {

constexpr std::size_t MEMORY = 200000;  // bytes of rank 1 that rank 0 may reach
constexpr std::uint32_t ROUNDS = IS_SANITIZED ? 2 : 6;

enum class poster : std::uint8_t { same, other_thread, other_endpoint };
constexpr poster POSTERS[] = {poster::same, poster::other_thread, poster::other_endpoint};

// Rank 0 writes, rank 1 looks.
class puts {
 public:
  // who: of what comes behind; it has posted before.
  puts(group& g, poster who)
      : g_(g),
        memory_(MEMORY),
        second_(*g.at(0).fabric, g.at(0).held, g.at(0).devices[0]->make_endpoint()) {
    key_ = g.at(1).expose(memory_.data(), MEMORY);
    g.learn(0, 1, key_);
    post(who, [](net::endpoint& end) { return end.send_inline(1, 0, nullptr, 0, "first", 5); });
    g.until([&] { return g.at(1).seen().arrived() == 1; }, "the first message");
  }
  ~puts() {
    g_.settle();
    g_.at(1).hide(key_);
  }

  errorcode_t post(poster who, const std::function<errorcode_t(net::endpoint&)>& one) {
    return g_.post([&] {
      if (who == poster::same) return one(g_.at(0).to());
      if (who == poster::other_endpoint) return one(second_);
      errorcode_t code = errorcode_t::retry;
      in_thread([&] { code = one(g_.at(0).to()); });
      return code;
    });
  }
  net::net_op op(void* buffer, std::size_t size, op_fate* fate, std::size_t offset = 0) const {
    net::net_op out;
    out.rank = 1;
    out.buffer = buffer;
    out.size = size;
    out.remote = key_;
    out.remote_offset = offset;
    out.context = fate;
    return out;
  }
  // A put that is in order on return, by what it says itself or as the last resort by its
  // completion. False: without a context nobody can say. The buffer stays until the end.
  bool put(std::size_t size, std::uint32_t salt, bool has_context) {
    source = pattern(size, salt);
    net::net_op what = op(source.data(), size, nullptr);
    fate_ = std::make_unique<op_fate>();
    if (has_context) what.context = fate_.get();
    what.in_order = true;
    is_posted_ = post(poster::same, [&](net::endpoint& end) { return end.put(what); }) ==
                 errorcode_t::posted;
    if (!is_posted_ || g_.caps().orders_puts) return true;
    return has_context && g_.until([&] { return fate_->signals() != 0; }, "the put's completion");
  }
  void finish(bool has_context) {
    if (is_posted_ && has_context)
      g_.until([&] { return fate_->signals() != 0; }, "the put's completion");
    g_.settle();
    EXPECT_EQ(fate_->signals(), is_posted_ && has_context ? 1 : 0);
  }
  bool is_there() const { return std::memcmp(memory_.data(), source.data(), source.size()) == 0; }
  std::byte* memory() { return memory_.data(); }

  std::vector<std::byte> source;

 private:
  group& g_;
  std::vector<std::byte> memory_;
  registering_endpoint second_;
  net::remote_key key_;
  std::unique_ptr<op_fate> fate_;
  bool is_posted_ = false;
};

// Runs `follow(p, salt)` behind puts of all sizes.
template <class Follow>
void behind_puts(group& g, poster who, Follow&& follow) {
  puts p(g, who);
  const std::size_t most = std::min(g.caps().max_rma, std::size_t{32768});
  std::uint32_t salt = 1;
  for (std::size_t size : {std::size_t{1}, std::size_t{64}, std::size_t{104}, std::size_t{105},
                           std::size_t{1000}, std::min(most, std::size_t{8000}), most})
    for (bool has_context : {true, false})
      for (std::uint32_t round = 0; round < ROUNDS; ++round) {
        SCOPED_TRACE(std::to_string(size) + " bytes, poster " +
                     std::to_string(static_cast<int>(who)) + (has_context ? "" : ", no context"));
        if (p.put(size, ++salt, has_context)) follow(p, salt);
        p.finish(has_context);
        if (testing::Test::HasFailure()) return;
      }
}

}  // namespace

TEST_P(backend_contract, put_order__a_later_message_finds_the_data) {
  for (poster who : POSTERS) {
    group& g = open();
    behind_puts(g, who, [&](puts& p, std::uint32_t salt) {
      bool is_there = false;
      g.at(1).seen().on_arrival = [&](const net::arrival&) {
        is_there = p.is_there();
        return net::verdict::taken;
      };
      const std::size_t before = g.at(1).seen().arrived();
      p.post(who, [&](net::endpoint& end) {
        return end.send_inline(1, salt, nullptr, 0, &salt, sizeof(salt));
      });
      g.until([&] { return g.at(1).seen().arrived() > before; }, "the message");
      EXPECT_TRUE(is_there) << "a message overtook the put";
      g.at(1).seen().on_arrival = nullptr;
    });
  }
}

TEST_P(backend_contract, put_order__a_later_immediate_finds_the_data) {
  for (poster who : POSTERS) {
    group& g = open();
    if (!g.caps().write_with_immediate) GTEST_SKIP() << "no write with immediate";
    behind_puts(g, who, [&](puts& p, std::uint32_t salt) {
      bool is_there = false;
      g.at(1).seen().on_imm = [&](int, std::uint32_t) { is_there = p.is_there(); };
      const std::size_t before = g.at(1).seen().immediates();
      auto news = pattern(100, salt);
      op_fate fate;
      net::net_op op = p.op(news.data(), news.size(), &fate, MEMORY - news.size());
      op.imm = salt;
      const errorcode_t answer = p.post(who, [&](net::endpoint& end) { return end.put_imm(op); });
      g.until([&] { return g.at(1).seen().immediates() > before; }, "the immediate");
      EXPECT_TRUE(is_there) << "an immediate overtook the put";
      g.settle();
      expect_fate(answer, fate);
      g.at(1).seen().on_imm = nullptr;
    });
  }
}

TEST_P(backend_contract, put_order__a_later_get_finds_the_data) {
  for (poster who : POSTERS) {
    group& g = open();
    behind_puts(g, who, [&](puts& p, std::uint32_t) {
      std::vector<std::byte> got(p.source.size());
      op_fate fate;
      const net::net_op op = p.op(got.data(), got.size(), &fate);
      const errorcode_t answer = p.post(who, [&](net::endpoint& end) { return end.get(op); });
      if (answer == errorcode_t::posted) g.until([&] { return fate.signals() != 0; }, "the get");
      EXPECT_TRUE(got == p.source) << "a get overtook the put";
      g.settle();
      expect_fate(answer, fate);
    });
  }
}

// A short one goes the same way as the first, a long one another.
TEST_P(backend_contract, put_order__a_later_put_wins) {
  for (poster who : POSTERS) {
    group& g = open();
    const std::size_t longest = std::min(g.caps().max_rma, MEMORY);
    bool is_long = false;
    behind_puts(g, who, [&](puts& p, std::uint32_t salt) {
      is_long = !is_long;
      auto last = pattern(is_long ? longest : p.source.size(), salt + 1000000);
      op_fate fate;
      const net::net_op op = p.op(last.data(), last.size(), &fate);
      const errorcode_t answer = p.post(who, [&](net::endpoint& end) { return end.put(op); });
      if (answer == errorcode_t::posted) g.until([&] { return fate.signals() != 0; }, "the put");
      g.settle();
      EXPECT_EQ(std::memcmp(p.memory(), last.data(), last.size()), 0)
          << "an earlier put was written over a later one";
      expect_fate(answer, fate);
    });
  }
}

// A thread that has never posted before, while a put of another one is on its way.
TEST_P(backend_contract, put_order__a_new_thread_s_first_message_finds_the_data) {
  for (std::uint32_t round = 0; round < ROUNDS; ++round) {
    group& g = open();
    std::vector<std::byte> memory(1000);
    const net::remote_key key = g.at(1).expose(memory.data(), memory.size());
    g.learn(0, 1, key);
    auto source = pattern(memory.size(), round);
    op_fate fate;
    net::net_op op;
    op.rank = 1;
    op.buffer = source.data();
    op.size = round % 2 == 0 ? source.size() : 40;
    op.remote = key;
    op.in_order = true;
    op.context = &fate;
    const errorcode_t answer = g.post([&] { return g.at(0).to().put(op); });
    if (answer == errorcode_t::posted && !g.caps().orders_puts) {
      ASSERT_TRUE(g.until([&] { return fate.signals() != 0; }, "the put's completion"));
    }
    bool is_there = false;
    g.at(1).seen().on_arrival = [&](const net::arrival&) {
      is_there = std::memcmp(memory.data(), source.data(), op.size) == 0;
      return net::verdict::taken;
    };
    g.post([&] {
      errorcode_t code = errorcode_t::retry;
      in_thread([&] { code = g.at(0).to().send_inline(1, 1, nullptr, 0, "new", 3); });
      return code;
    });
    ASSERT_TRUE(g.until([&] { return g.at(1).seen().arrived() == 1; }, "the message"));
    EXPECT_TRUE(is_there) << "a message overtook the put";
    g.settle();
    expect_fate(answer, fate);
    g.at(1).seen().on_arrival = nullptr;
    g.at(1).hide(key);
  }
}

}  // namespace lci::test
