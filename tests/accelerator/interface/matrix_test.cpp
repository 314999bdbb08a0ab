// Every operation from every kind of memory to every other, in all sizes, with all ways to say what
// the buffer is. A case moves one message per size, some at the same time; which handle and which
// way of completion each of them uses changes from size to size and from case to case.
#include <map>
#include <memory>
#include <tuple>

#include "tests/accelerator/interface/common.hpp"
#include "tests/support/sizes.hpp"

namespace accelerator_test {
namespace {

using lci::test::KIB, lci::test::MIB;
constexpr int MATRIX_ROUNDS = 2;

std::vector<std::size_t> sizes() {
  const std::size_t b = world().bcopy;
  return {0, 1, 4, 8, 100, 4 * KIB, b - 12, b, b + 1, 64 * KIB, MIB, 5 * MIB + 3};
}

enum class style { posted, send_waits, recv_waits };

class matrix : public testing::TestWithParam<std::tuple<place, place>> {
 public:
  // Of all kinds of memory, made once: registering and telling keys is collective.
  struct memory {
    std::map<place, std::unique_ptr<target>> sources, targets;
  };
  static std::unique_ptr<memory> all;

  static void SetUpTestSuite() {
    all = std::make_unique<memory>();
    for (const place where : PLACES) {
      all->sources[where] = std::make_unique<target>(where, sizes());
      all->targets[where] = std::make_unique<target>(where, sizes());
    }
  }
  static void TearDownTestSuite() { all.reset(); }

 protected:
  target& from() { return *all->sources.at(std::get<0>(GetParam())); }
  target& to() { return *all->targets.at(std::get<1>(GetParam())); }
  std::size_t count() { return from().count(); }
  std::size_t turn(std::size_t i) const {
    const auto [a, b] = GetParam();
    return static_cast<std::size_t>(a) * 3 + static_cast<std::size_t>(b) + i +
           static_cast<std::size_t>(round_);
  }
  handle local(std::size_t i) const { return static_cast<handle>(turn(i) % HANDLES); }
  handle other(std::size_t i) const { return static_cast<handle>((turn(i) / 2 + i) % HANDLES); }
  handle remote(std::size_t i) const { return turn(i) % 2 == 0 ? handle::whole : handle::part; }
  style how(std::size_t i) const { return static_cast<style>((turn(i) + i / 3) % 3); }
  std::uint64_t seed(int sender, std::size_t i) const { return seed_of(sender, use_ * 16 + i); }
  lci::tag_t tag(std::size_t i) const { return use_ * 16 + i; }

  // New bytes in all sources, and targets without them. `reader`: whose sources will be read.
  void prepare(int round, int reader) {
    round_ = round;
    use_ = next_use();
    for (std::size_t i = 0; i < count(); ++i) {
      from().at(i).fill(seed(world().rank, i));
      to().at(i).clear(seed(reader, i));
    }
  }
  void expect_arrived(std::size_t i, int sender) {
    const slot& at = to().at(i);
    EXPECT_EQ(at.check(seed(sender, i)), "")
        << "size " << at.size() << ", handles " << static_cast<int>(local(i)) << " and "
        << static_cast<int>(other(i)) << ", style " << static_cast<int>(how(i));
  }
  void post_recv_of(std::size_t i, lci::comp_t comp) {
    const slot& at = to().at(i);
    const auto op = lci::post_recv_x(world().previous(), at.get(), at.size(), tag(i), comp)
                        .mr(to().mr(i, other(i)))
                        .device(world().device)
                        .user_context(&to());
    comp.is_empty() ? post_and_wait(lci::post_recv_x(op)) : post(lci::post_recv_x(op));
  }
  void post_send_of(std::size_t i, lci::comp_t comp) {
    const slot& at = from().at(i);
    const auto op = lci::post_send_x(world().next(), at.get(), at.size(), tag(i), comp)
                        .mr(from().mr(i, local(i)))
                        .device(world().device)
                        .user_context(&from());
    comp.is_empty() ? post_and_wait(lci::post_send_x(op)) : post(lci::post_send_x(op));
  }
  template <class Post>
  void for_each(style wanted, Post each) {
    for (std::size_t i = 0; i < count(); ++i) {
      if (how(i) == wanted) each(i);
    }
  }
  // How many ended in `cq`; each has to be one of `expected_context`, from or to `peer`.
  void collect(lci::comp_t cq, std::size_t messages, int peer, const void* context, bool arrived) {
    for (std::size_t n = 0; n < messages; ++n) {
      const lci::status_t status = pop(cq);
      const std::size_t i = status.tag - tag(0);
      ASSERT_LT(i, count());
      EXPECT_EQ(status.rank, peer);
      EXPECT_EQ(status.user_context, context);
      EXPECT_EQ(status.size, from().at(i).size());
      if (arrived) expect_arrived(i, peer);
    }
    EXPECT_TRUE(lci::cq_pop(cq).is_retry());
  }

  std::uint64_t use_ = 0;
  int round_ = 0;
};
std::unique_ptr<matrix::memory> matrix::all;

TEST_P(matrix, send_recv) {
  const int before = world().previous();
  for (int round = 0; round < MATRIX_ROUNDS; ++round) {
    prepare(round, before);
    const owned_comp sent(lci::alloc_cq()), received(lci::alloc_cq());
    std::size_t sends = 0, receives = 0;
    const auto recv = [&](std::size_t i) { post_recv_of(i, received), ++receives; };
    const auto send = [&](std::size_t i) { post_send_of(i, sent), ++sends; };
    for_each(style::posted, recv);
    for_each(style::send_waits, recv);
    for_each(style::posted, send);
    for_each(style::recv_waits, send);
    for_each(style::send_waits, [&](std::size_t i) { post_send_of(i, lci::COMP_NULL); });
    for_each(style::recv_waits, [&](std::size_t i) {
      post_recv_of(i, lci::COMP_NULL);
      expect_arrived(i, before);
    });
    collect(received, receives, before, &to(), true);
    collect(sent, sends, world().next(), &from(), false);
  }
}

TEST_P(matrix, put) {
  for (int round = 0; round < MATRIX_ROUNDS; ++round) {
    prepare(round, world().previous());
    const owned_comp sent(lci::alloc_counter());
    int posted = 0;
    barrier();
    for (std::size_t i = 0; i < count(); ++i) {
      const slot& at = from().at(i);
      const auto [rmr, disp] = to().at_peer(world().next(), i, remote(i));
      lci::post_put_x put(world().next(), at.get(), at.size(), sent, disp, rmr);
      put.mr(from().mr(i, local(i))).comp_semantic(lci::comp_semantic_t::network);
      put.device(world().device);
      if (how(i) == style::posted) {
        post(put);
        ++posted;
      } else {
        post_and_wait(put);
      }
    }
    wait_until([&] { return lci::counter_get(sent) == posted; });
    barrier();
    for (std::size_t i = 0; i < count(); ++i) expect_arrived(i, world().previous());
  }
}

TEST_P(matrix, put_with_signal) {
  const int before = world().previous();
  interface_test::inbox arrived;
  for (int round = 0; round < MATRIX_ROUNDS; ++round) {
    prepare(round, before);
    const owned_comp sent(lci::alloc_counter());
    int posted = 0;
    barrier();
    for (std::size_t i = 0; i < count(); ++i) {
      const slot& at = from().at(i);
      const auto [rmr, disp] = to().at_peer(world().next(), i, remote(i));
      lci::post_put_x put(world().next(), at.get(), at.size(), sent, disp, rmr);
      put.mr(from().mr(i, local(i))).remote_comp(arrived.rcomp()).tag(i).device(world().device);
      if (how(i) == style::posted) {
        post(put);
        ++posted;
      } else {
        post_and_wait(put);
      }
    }
    for (std::size_t n = 0; n < count(); ++n) {
      const lci::status_t status = pop(arrived.cq());
      EXPECT_EQ(status.rank, before);
      ASSERT_LT(status.tag, count());
      expect_arrived(status.tag, before);  // now, not some time later
    }
    wait_until([&] { return lci::counter_get(sent) == posted; });
    EXPECT_TRUE(lci::cq_pop(arrived.cq()).is_retry());
    barrier();
  }
}

TEST_P(matrix, get) {
  const int next = world().next();
  for (int round = 0; round < MATRIX_ROUNDS; ++round) {
    prepare(round, next);
    const owned_comp done(lci::alloc_cq());
    std::size_t posted = 0;
    barrier();
    for (std::size_t i = 0; i < count(); ++i) {
      const slot& at = to().at(i);
      const auto [rmr, disp] = from().at_peer(next, i, remote(i));
      lci::post_get_x get(next, at.get(), at.size(), done, disp, rmr);
      get.mr(to().mr(i, other(i))).tag(tag(i)).user_context(&to()).device(world().device);
      if (how(i) == style::posted) {
        post(get);
        ++posted;
      } else {
        post_and_wait(get);
        expect_arrived(i, next);
      }
    }
    collect(done, posted, next, &to(), true);
    barrier();  // nobody changes a source that is still being read
  }
}

// Active messages: from whatever memory, always to the host.
class messages : public matrix {};

TEST_P(messages, am) {
  const int before = world().previous();
  for (const bool zero_copy : {false, true}) {
    interface_test::inbox arrived(zero_copy);
    prepare(zero_copy ? 1 : 0, before);
    const owned_comp sent(lci::alloc_cq());
    std::size_t posted = 0;
    for (std::size_t i = 0; i < count(); ++i) {
      const slot& at = from().at(i);
      lci::post_am_x am(world().next(), at.get(), at.size(), sent, arrived.rcomp());
      am.mr(from().mr(i, local(i))).tag(tag(i)).user_context(&from()).device(world().device);
      if (how(i) == style::posted) {
        post(am);
        ++posted;
      } else {
        post_and_wait(am);
      }
    }
    for (std::size_t n = 0; n < count(); ++n) {
      const lci::status_t status = pop(arrived.cq());
      const std::size_t i = status.tag - tag(0);
      ASSERT_LT(i, count());
      EXPECT_EQ(status.rank, before);
      ASSERT_EQ(status.size, from().at(i).size());
      EXPECT_EQ(difference(status.buffer, status.size, seed(before, i)), "");
      const bool in_packet = zero_copy && status.size <= world().bcopy;
      in_packet ? lci::put_upacket(status.buffer) : std::free(status.buffer);
    }
    collect(sent, posted, world().next(), &from(), false);
  }
}

std::string name_of_pair(const testing::TestParamInfo<matrix::ParamType>& info) {
  return std::string(name_of(std::get<0>(info.param))) + "_to_" + name_of(std::get<1>(info.param));
}
INSTANTIATE_TEST_SUITE_P(memory, matrix,
                         testing::Combine(testing::ValuesIn(PLACES), testing::ValuesIn(PLACES)),
                         name_of_pair);
INSTANTIATE_TEST_SUITE_P(memory, messages,
                         testing::Combine(testing::ValuesIn(PLACES), testing::Values(place::host)),
                         name_of_pair);

}  // namespace
}  // namespace accelerator_test
