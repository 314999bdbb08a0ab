// A process is killed at each step of each protocol. Those that live are told who is gone, never
// get wrong bytes, go on with each other, and have nothing left over. The backend is the one that
// LCI_ATTR_BACKEND names. LCI_DEATHS_STRIDE: every so-manieth step only (1: all). LCI_DEATHS_SPOIL
// makes the checks fire: bytes (the origin sends others), packet, region (a survivor keeps one).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "actors.hpp"
#include "steps.hpp"

namespace lci::test {
namespace {

constexpr int ORIGIN = 0, TARGET = 1;
constexpr int ROUNDS = 2;  // the second one finds connections and keys known

struct protocol {
  const char* name;
  std::size_t size;  // bytes
  void (*origin)(actor&, std::size_t size, int round);
  void (*target)(actor&, std::size_t size, int round);
  enum { MESSAGES, ONE_SIDED, CONTACT, COLLECTIVE } sort = MESSAGES;

  bool is_for_all() const { return sort == COLLECTIVE; }
  // At the target of what is one-sided nothing else happens.
  bool counts_polls(int victim) const {
    return sort == CONTACT || (sort == ONE_SIDED && victim == TARGET);
  }
};

void expect_bytes(const void* data, std::size_t size, int round, const char* what) {
  const std::vector<char> wanted = bytes_of(size, static_cast<unsigned>(round));
  EXPECT_EQ(std::memcmp(data, wanted.data(), size), 0) << what << ": wrong bytes";
}

char* source(actor& me, std::size_t size, int round) {
  char* const data = me.keep(bytes_of(size, static_cast<unsigned>(round)));
  if (spoils("bytes")) data[size / 2] ^= 1;
  return data;
}

void am_origin(actor& me, std::size_t size, int round) {
  char* const data = source(me, size, round);
  me.post([&] { return post_am_x(TARGET, data, size, me.done, me.number).device(me.device)(); });
}

void am_target(actor& me, std::size_t size, int round) {
  status_t s;
  if (!me.wait([&] { return (s = cq_pop(me.inbox)).is_done(); })) return;
  EXPECT_EQ(s.size, size);
  expect_bytes(s.buffer, size, round, "active message");
  std::free(s.buffer);
}

void send_origin(actor& me, std::size_t size, int round) {
  char* const data = source(me, size, round);
  me.post([&] { return post_send_x(TARGET, data, size, 7, me.done).device(me.device)(); });
}

void receive(actor& me, std::size_t size, int round) {
  char* const data = me.keep(std::vector<char>(size));
  status_t s;
  if (!me.hears([&] { s = post_recv_x(ORIGIN, data, size, 7, me.done).device(me.device)(); }))
    return;
  if (s.is_done() || me.wait([&] { return cq_pop(me.done).is_done(); }))
    expect_bytes(data, size, round, "message");
}

// The receive comes when the message has been there for a while.
void receive_late(actor& me, std::size_t size, int round) {
  for (int i = 0; i < 50; ++i) me.progress();
  receive(me, size, round);
}

void put_origin(actor& me, std::size_t size, int round) {
  char* const data = source(me, size, round);
  const bool is_complete = me.post([&] {
    return post_put_x(TARGET, data, size, me.done, 0, me.key_of(TARGET))
        .device(me.device)
        .comp_semantic(comp_semantic_t::network)();
  });
  if (is_complete) me.process().reach("put " + std::to_string(round));
}

void put_target(actor& me, std::size_t size, int round) {
  const std::string point = "put " + std::to_string(round);
  // The next one may follow at once, so only the last has to be as it was sent.
  if (me.wait([&] { return me.process().has_reached(ORIGIN, point); }) && round == ROUNDS - 1)
    expect_bytes(me.window.data(), size, round, "put");
}

void signal_origin(actor& me, std::size_t size, int round) {
  char* const data = source(me, size, round);
  me.post([&] {
    return post_put_x(TARGET, data, size, me.done, size * static_cast<std::size_t>(round),
                      me.key_of(TARGET))
        .device(me.device)
        .remote_comp(me.number)();
  });
}

void signal_target(actor& me, std::size_t size, int round) {
  if (me.wait([&] { return cq_pop(me.inbox).is_done(); }))
    expect_bytes(me.window.data() + size * static_cast<std::size_t>(round), size, round, "signal");
}

void get_origin(actor& me, std::size_t size, int round) {
  char* const data = me.keep(std::vector<char>(size));
  const bool is_complete = me.post([&] {
    return post_get_x(TARGET, data, size, me.done, 0, me.key_of(TARGET)).device(me.device)();
  });
  if (!is_complete) return;
  EXPECT_EQ(std::count(data, data + size, actor::UNTOUCHED), static_cast<std::ptrdiff_t>(size))
      << "get: wrong bytes";
  me.process().reach("got " + std::to_string(round));
}

void get_target(actor& me, std::size_t, int round) {
  me.wait([&] { return me.process().has_reached(ORIGIN, "got " + std::to_string(round)); });
}

void meet(actor& me, std::size_t, int) {
  me.hears([&] { barrier_x().device(me.device)(); });
}

// 100 bytes are inlined, 3000 travel in a packet, 100000 after a rendezvous.
constexpr protocol PROTOCOLS[] = {
    {"first_contact", 8, am_origin, am_target, protocol::CONTACT},
    {"am_inline", 8, am_origin, am_target},
    {"am_packet", 3000, am_origin, am_target},
    {"am_rendezvous", 100000, am_origin, am_target},
    {"send_inline", 8, send_origin, receive},
    {"send_packet", 3000, send_origin, receive},
    {"send_packet_unexpected", 3000, send_origin, receive_late},
    {"send_rendezvous", 100000, send_origin, receive},
    {"send_rendezvous_unexpected", 100000, send_origin, receive_late},
    {"put_small", 64, put_origin, put_target, protocol::ONE_SIDED},
    {"put_large", 100000, put_origin, put_target, protocol::ONE_SIDED},
    {"signal_small", 64, signal_origin, signal_target},
    {"signal_large", 100000, signal_origin, signal_target},
    {"get_small", 64, get_origin, get_target, protocol::ONE_SIDED},
    {"get_large", 100000, get_origin, get_target, protocol::ONE_SIDED},
    {"barrier", 0, meet, meet, protocol::COLLECTIVE},
};

int run_rank(child_process& process, const protocol& p, int victim, long at,
             const std::string& folder) {
  actor me(process, victim, folder);
  if (me.rank() == victim) steps::die_at(at, p.counts_polls(victim));
  for (int round = 0; round < ROUNDS; ++round) {
    if (me.rank() == ORIGIN || p.is_for_all()) p.origin(me, p.size, round);
    if (me.rank() == TARGET && !p.is_for_all()) p.target(me, p.size, round);
  }
  me.see_the_end();
  me.close();
  return 0;
}

// Whether the victim came to its step before it had nothing left to do.
bool dies_at(const protocol& p, int victim, long at) {
  SCOPED_TRACE(std::string(p.name) + ", rank " + std::to_string(victim) + " dies at step " +
               std::to_string(at));
  char folder[] = "/tmp/lci-deaths-XXXXXX";
  if (mkdtemp(folder) == nullptr) throw std::runtime_error("no folder for the bootstrap");
  process_end end;
  {
    processes all(3, [&](child_process& me) { return run_rank(me, p, victim, at, folder); });
    end = all.wait(victim);
    EXPECT_TRUE(end == KILLED || end == ENDED_WELL) << "the victim ended with " << end.code;
    std::vector<process_end> expected(3, ENDED_WELL);
    expected[static_cast<std::size_t>(victim)] = end;
    all.expect_ends(expected);
  }
  std::filesystem::remove_all(folder);
  return end == KILLED;
}

class deaths : public testing::TestWithParam<std::tuple<protocol, int>> {};

TEST_P(deaths, at_each_step__are_heard_of_and_leave_nothing) {
  const auto& [p, victim] = GetParam();
  const char* const given = std::getenv("LCI_DEATHS_STRIDE");
  const long stride = given != nullptr ? std::atol(given) : 1;
  int kills = 0;
  // Polls are many, and the same thing happens in most of them.
  for (long at = 1; dies_at(p, victim, at) && !HasFailure();
       at = p.counts_polls(victim) ? at + at / 2 + stride : at + stride)
    ++kills;
  std::printf("%s, rank %d: %d kills\n", p.name, victim, kills);
  RecordProperty("kills", kills);
  EXPECT_GT(kills, 0) << "nothing that this rank did was a step";
}

std::string name_of(const testing::TestParamInfo<std::tuple<protocol, int>>& info) {
  const auto& [p, victim] = info.param;
  return std::string(p.name) + (victim == ORIGIN ? "_origin" : "_target");
}

INSTANTIATE_TEST_SUITE_P(all, deaths,
                         testing::Combine(testing::ValuesIn(PROTOCOLS),
                                          testing::Values(ORIGIN, TARGET)),
                         name_of);

}  // namespace
}  // namespace lci::test
