// What a peer of this host pays for the network beside it: one small message through shared memory
// alone, and with verbs beside it that some other rank is reached over. On the fake library, whose
// own instructions are left out.
#include <gtest/gtest.h>

#include <deque>

#include "lci/net/route.hpp"
#include "tests/contract/group.hpp"
#include "tests/cost/net_pair.hpp"
#include "tests/support/fake_ibv/fake_ibv.hpp"
#include "tests/support/step_counter.hpp"

namespace lci::test {
namespace {

constexpr int ROUNDS = 160;
enum section_id { POST, POLL, IDLE_POLL };
enum class beside { nothing, network };

fake_ibv& fake_library() {
  static fake_ibv* const one = load_fake_ibv(LCI_FAKE_IBV);
  if (one == nullptr) throw std::runtime_error("there is no " LCI_FAKE_IBV);
  return *one;
}

// Where shared memory finds its peers. Verbs is not used.
class shm_book final : public net::address_book {
 public:
  shm_book(net::address_book& all, std::vector<std::string>& addresses)
      : all_(all), addresses_(addresses) {}
  int rank() const noexcept override { return all_.rank(); }
  int size() const noexcept override { return all_.size(); }
  std::string lookup(int rank) override { return addresses_[static_cast<std::size_t>(rank)]; }

 private:
  net::address_book& all_;
  std::vector<std::string>& addresses_;
};

// Ranks 0 and 1 share a host, 2 has one of its own. Warm.
struct warm_trio {
  explicit warm_trio(beside what)
      : ranks((fake_library().reset(), 3), 1,
              [&, what](int, const net::fabric_config& c) { return open(what, c); }) {
    for (int i = 0; i < 2000; ++i) {
      ranks.post([&] { return send(); });
      poll();
    }
  }
  std::unique_ptr<net::fabric> open(beside what, const net::fabric_config& c) {
    using net::way;
    net::fabric_config inside = c;
    inside.book = &books.emplace_back(*c.book, addresses);
    std::unique_ptr<net::fabric> local = open_named("shm", inside);
    addresses.push_back(local->address());
    if (what == beside::nothing) return local;
    const bool is_far = c.book->rank() == 2;
    return std::make_unique<net::routed_fabric>(
        std::move(local), open_named("ibv", c),
        std::vector<way>{is_far ? way::remote : way::local, is_far ? way::remote : way::local,
                         is_far ? way::local : way::remote});
  }
  errorcode_t send() { return ranks.at(0).to().send_inline(1, 5, nullptr, 0, &word, sizeof word); }
  std::size_t poll() { return ranks.at(1).devices[0]->poll(sink, 32); }

  std::vector<std::string> addresses;
  std::deque<shm_book> books;
  group ranks;
  null_sink sink;
  std::uint64_t word = 1;
};

struct cost {
  std::uint64_t post = 0, poll = 0, idle_poll = 0, idle_sum = 0, locked = 0, system_calls = 0;
};

cost count(beside what, std::string& failure) {
  const step_report report = count_steps(
      [what] {
        warm_trio trio(what);
        if (!step_freeze_clock()) abort();
        for (int i = 0; i < 100; ++i) {  // what was due then is done now
          trio.send();
          trio.ranks.at(0).poll();
          trio.poll();
        }
        for (int i = 0; i < ROUNDS; ++i) {
          step_begin(POST);
          const errorcode_t answer = trio.send();
          step_end();
          if (answer != errorcode_t::done) abort();
          step_begin(POLL);
          trio.poll();
          step_end();
          step_begin(IDLE_POLL);
          trio.poll();
          step_end();
        }
        step_freeze_clock(false);
      },
      library_around(&fake_library()));
  failure = report.failure;
  cost out;
  std::vector<std::uint64_t> by_id[3];
  for (const step_section& s : report.sections) {
    by_id[s.id].push_back(s.instructions);
    if (s.id == IDLE_POLL) out.idle_sum += s.instructions;
    out.locked += s.locked;
    out.system_calls += s.system_calls;
  }
  if (report.sections.empty()) return out;
  out.post = median(by_id[POST]);
  out.poll = median(by_id[POLL]);
  out.idle_poll = median(by_id[IDLE_POLL]);
  return out;
}

TEST(route_cost, message_inside_the_host__with_a_network_beside_it) {
  if (const std::string why = step_counter_missing(); !why.empty()) GTEST_SKIP() << why;
  std::string failure;
  const cost alone = count(beside::nothing, failure);
  ASSERT_EQ(failure, "");
  const cost mixed = count(beside::network, failure);
  ASSERT_EQ(failure, "");
  for (const auto& [name, c] : {std::pair{"alone", alone}, std::pair{"beside verbs", mixed}})
    std::printf(
        "shared memory %s: post %llu, poll with a message %llu, idle poll %llu (mean %.1f)\n", name,
        static_cast<unsigned long long>(c.post), static_cast<unsigned long long>(c.poll),
        static_cast<unsigned long long>(c.idle_poll), static_cast<double>(c.idle_sum) / ROUNDS);
  EXPECT_EQ(mixed.locked, 0u);
  EXPECT_EQ(mixed.system_calls, 0u);
  // See docs/decisions/0021-routes.md.
  EXPECT_LE(mixed.post, alone.post + 12);
  EXPECT_LE(mixed.poll, alone.poll + 75);
}

}  // namespace
}  // namespace lci::test
