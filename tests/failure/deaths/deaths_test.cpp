// A process is killed at each step of each protocol. Those that live are told who is gone, never
// get wrong bytes, go on with each other, and have nothing left over. The backend is the one that
// LCI_ATTR_BACKEND names. LCI_DEATHS_STRIDE: every so-manieth step only (1: all). LCI_DEATHS_HOSTS:
// a letter per rank, as if those of the same letter were on one host and the others elsewhere.
// LCI_DEATHS_GPU: there is a GPU with gdrcopy, or the mocks of both. LCI_DEATHS_SPOIL makes the
// checks fire: bytes (the origin sends others), way (by another protocol), packet, region,
// descriptor, thread (a survivor keeps one).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>

#include "actors.hpp"
#include "steps.hpp"
#include "tests/accelerator/real_gpu.hpp"
#include "tests/support/mock_gdr/mock_gdr.hpp"

namespace lci::test {
namespace {

constexpr int ORIGIN = 0, TARGET = 1, RANKS = 3;
constexpr int ROUNDS = 2;  // the second one finds connections and keys known

using way = steps::way;

struct protocol {
  const char* name;
  std::size_t size;  // bytes
  way by;            // how they leave the origin, unless for all
  void (*origin)(actor&, std::size_t size, int round);
  void (*target)(actor&, std::size_t size, int round);
  enum { MESSAGES, ONE_SIDED, CONTACT, COLLECTIVE, GPU } sort = MESSAGES;

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

void am_zero_copy_origin(actor& me, std::size_t size, int round) {
  char* const data = source(me, size, round);
  const mr_t mr = spoils("way") ? MR_HOST : me.registration_of(data, size);
  me.post(
      [&] { return post_am_x(TARGET, data, size, me.done, me.number).device(me.device).mr(mr)(); });
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

void send_zero_copy_origin(actor& me, std::size_t size, int round) {
  char* const data = source(me, size, round);
  const mr_t mr = me.registration_of(data, size);
  me.post([&] { return post_send_x(TARGET, data, size, 7, me.done).device(me.device).mr(mr)(); });
}

// The processor reads memory of a GPU, so the network sees what it sees of host memory.
void send_by_cpu_origin(actor& me, std::size_t size, int round) {
  cuda::real_gpu& gpu = cuda::real_gpu::get();
  const char* const data = source(me, size, round);
  void* const there = gpu.allocate(cuda::real_gpu::kind::device, size);
  const auto* const at = reinterpret_cast<const std::byte*>(data);
  gpu.write(there, {at, at + size});
  const bool is_complete = me.post([&] {
    return post_send_x(TARGET, there, size, 7, me.done).device(me.device).mr(MR_DEVICE)();
  });
  mock_gdr* const gdr = load_mock_gdr("");
  if (is_complete && gdr != nullptr) {
    EXPECT_GT(gdr->count("gdr_copy_from_mapping"), 0u) << "the processor has read nothing";
  }
  gpu.free(cuda::real_gpu::kind::device, there, size);
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

// A rank's part in a collective may be over while what it sent still waits in the library: nobody
// goes on before everybody has everything. Whether that is so.
bool take_part(actor& me, int round, bool meets_victim, const std::function<void()>& start) {
  const std::string point = "has all of " + std::to_string(round);
  if (!me.wait_for_part(start)) return false;
  me.process().reach(point);
  return me.wait(
      [&] {
        return me.process().has_reached(0, point) && me.process().has_reached(1, point) &&
               me.process().has_reached(2, point);
      },
      meets_victim);
}

// From the origin. Rank 2 meets the victim or not, which the algorithm decides.
void broadcast_by(actor& me, std::size_t size, int round, broadcast_algorithm_t algorithm,
                  bool rank_2_meets) {
  char* const data =
      me.rank() == ORIGIN ? source(me, size, round) : me.keep(std::vector<char>(size));
  const bool is_complete = take_part(me, round, me.rank() != 2 || rank_2_meets, [&] {
    broadcast_x(data, size, ORIGIN).device(me.device).comp(me.done).algorithm(algorithm)();
  });
  if (is_complete) expect_bytes(data, size, round, "broadcast");
}

void broadcast_direct(actor& me, std::size_t size, int round) {
  broadcast_by(me, size, round, broadcast_algorithm_t::direct, me.victim() == ORIGIN);
}

// Each rank but the last sends to the next.
void broadcast_ring(actor& me, std::size_t size, int round) {
  broadcast_by(me, size, round, broadcast_algorithm_t::ring, me.victim() == TARGET);
}

void exchange_all(actor& me, std::size_t size, int round) {
  const auto of_rank = [&](int rank) {
    return bytes_of(RANKS * size, static_cast<unsigned>(1000 * (round + 1) + rank));
  };
  const char* const out = me.keep(of_rank(me.rank()));
  char* const in = me.keep(std::vector<char>(RANKS * size));
  const auto start = [&] { alltoall_x(out, in, size).device(me.device).comp(me.done)(); };
  if (!take_part(me, round, true, start)) return;
  for (int rank = 0; rank < RANKS; ++rank) {
    const char* const block = in + static_cast<std::size_t>(rank) * size;
    const std::vector<char> sent = of_rank(rank);
    const char* const wanted = sent.data() + static_cast<std::size_t>(me.rank()) * size;
    EXPECT_EQ(std::memcmp(block, wanted, size), 0) << "alltoall: wrong bytes from " << rank;
  }
}

// 8 bytes are inlined, 3000 travel in a packet or, registered, by themselves, 100000 after a
// rendezvous. What a collective leaves with a rank that has given it up holds no packet up to 128.
constexpr protocol PROTOCOLS[] = {
    {"first_contact", 8, way::in_line, am_origin, am_target, protocol::CONTACT},
    {"am_inline", 8, way::in_line, am_origin, am_target},
    {"am_packet", 3000, way::packet, am_origin, am_target},
    {"am_zero_copy", 3000, way::buffer, am_zero_copy_origin, am_target},
    {"am_rendezvous", 100000, way::write, am_origin, am_target},
    {"send_inline", 8, way::in_line, send_origin, receive},
    {"send_packet", 3000, way::packet, send_origin, receive},
    {"send_packet_unexpected", 3000, way::packet, send_origin, receive_late},
    {"send_zero_copy", 3000, way::buffer, send_zero_copy_origin, receive},
    {"send_zero_copy_unexpected", 3000, way::buffer, send_zero_copy_origin, receive_late},
    {"send_by_cpu", 1000, way::packet, send_by_cpu_origin, receive, protocol::GPU},
    {"send_rendezvous", 100000, way::write, send_origin, receive},
    {"send_rendezvous_unexpected", 100000, way::write, send_origin, receive_late},
    {"put_small", 64, way::write, put_origin, put_target, protocol::ONE_SIDED},
    {"put_large", 100000, way::write, put_origin, put_target, protocol::ONE_SIDED},
    {"signal_small", 64, way::write, signal_origin, signal_target},
    {"signal_large", 100000, way::write, signal_origin, signal_target},
    {"get_small", 64, way::read, get_origin, get_target, protocol::ONE_SIDED},
    {"get_large", 100000, way::read, get_origin, get_target, protocol::ONE_SIDED},
    {"barrier", 0, way::in_line, meet, meet, protocol::COLLECTIVE},
    {"broadcast_direct", 100, way::packet, broadcast_direct, broadcast_direct,
     protocol::COLLECTIVE},
    {"broadcast_ring", 100, way::packet, broadcast_ring, broadcast_ring, protocol::COLLECTIVE},
    {"alltoall", 100, way::packet, exchange_all, exchange_all, protocol::COLLECTIVE},
};

// The bytes of all rounds have left in the one way that the protocol stands for.
void expect_way(const protocol& p) {
  constexpr const char* NAMES[steps::WAYS] = {"inline", "packet", "buffer", "write", "read"};
  for (int i = 0; i < steps::WAYS; ++i) {
    const bool has_carried_all = steps::carried(way{i}) >= p.size * ROUNDS;
    EXPECT_EQ(has_carried_all, way{i} == p.by) << "not the protocol that was meant: " << NAMES[i];
  }
}

int run_rank(child_process& process, const protocol& p, int victim, long at,
             const std::string& folder) {
  // The driver is the program's and not what is looked at.
  if (p.sort == protocol::GPU) cuda::real_gpu::get();
  actor me(process, victim, folder);
  if (me.rank() == victim) steps::die_at(at, p.counts_polls(victim));
  for (int round = 0; round < ROUNDS; ++round) {
    if (me.rank() == ORIGIN || p.is_for_all()) p.origin(me, p.size, round);
    if (me.rank() == TARGET && !p.is_for_all()) p.target(me, p.size, round);
  }
  if (me.rank() == ORIGIN && !me.has_lost() && !p.is_for_all()) expect_way(p);
  me.see_the_end();
  me.close();
  if (mock_gdr* const gdr = p.sort == protocol::GPU ? load_mock_gdr("") : nullptr) {
    for (const std::string& leak : gdr->leaks()) ADD_FAILURE() << "left in gdrcopy: " << leak;
  }
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
    processes all(RANKS, [&](child_process& me) { return run_rank(me, p, victim, at, folder); });
    end = all.wait(victim);
    EXPECT_TRUE(end == KILLED || end == ENDED_WELL) << "the victim ended with " << end.code;
    std::vector<process_end> expected(RANKS, ENDED_WELL);
    expected[static_cast<std::size_t>(victim)] = end;
    all.expect_ends(expected);
  }
  std::filesystem::remove_all(folder);
  return end == KILLED;
}

class deaths : public testing::TestWithParam<std::tuple<protocol, int>> {};

TEST_P(deaths, at_each_step__are_heard_of_and_leave_nothing) {
  const auto& [p, victim] = GetParam();
  if (p.sort == protocol::GPU && std::getenv("LCI_DEATHS_GPU") == nullptr)
    GTEST_SKIP() << "LCI_DEATHS_GPU does not say that there is a GPU";
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
