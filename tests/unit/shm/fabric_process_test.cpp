// Real processes: mappings that differ, deaths without a word, what a message costs.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <fstream>

#include "tests/support/sanitized.hpp"
#include "tests/support/step_counter.hpp"
#include "tests/unit/shm/pair.hpp"

namespace lci::shm {
namespace {

using test::pattern;
using test::side;

// Addresses and a few numbers, shared by a test and its children.
struct board {
  std::atomic<int> ready[4];
  char address[4][208];
  net::remote_key key;
  std::atomic<int> step;
};

struct shared_board {
  shared_board()
      : at(static_cast<board*>(mmap(nullptr, sizeof(board), PROT_READ | PROT_WRITE,
                                    MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}
  ~shared_board() { munmap(at, sizeof(board)); }
  board* operator->() const { return at; }
  board* at;
};

// One rank: says where it is, waits for the others.
struct rank_here {
  rank_here(board& b, int rank, int size, net::fabric_config config = {})
      : all(static_cast<std::size_t>(size)), me(rank, all, config) {
    std::strcpy(b.address[rank], all[static_cast<std::size_t>(rank)].c_str());
    b.ready[rank].store(1);
    for (int r = 0; r < size; ++r) {
      while (b.ready[r].load() == 0) sched_yield();
      all[static_cast<std::size_t>(r)] = b.address[r];
    }
  }
  bool until(const std::function<bool()>& done) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!done()) {
      if (std::chrono::steady_clock::now() > limit) return false;
      if (me.poll() == 0) sched_yield();
    }
    return true;
  }
  test::addresses all;
  side me;
};

pid_t in_child(const std::function<void()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    _exit(0);
  }
  return child;
}

void expect_end(pid_t child, int signal) {
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  if (signal == 0) {
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  } else {
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal) << status;
  }
}

net::net_op put_op(int rank, std::string& text, net::remote_key key) {
  net::net_op op;
  op.rank = rank;
  op.buffer = text.data();
  op.size = text.size();
  op.remote = key;
  op.context = &text;
  return op;
}

}  // namespace

TEST(processes, kill_9_before_anybody_looked__what_was_written_is_delivered) {
  shared_board b;
  const pid_t child = in_child([&] {
    rank_here r(*b.at, 0, 2);
    for (std::uint32_t i = 0; i < 100; ++i) {
      if (r.me.say(1, pattern(i, i), i) != errorcode_t::done) _exit(1);
    }
    mem::packet* p = r.me.pool.get();
    const std::string text = pattern(5000, 7);
    std::memcpy(p->payload(), text.data(), text.size());
    net::net_op op;
    op.rank = 1;
    op.packet = p;
    op.buffer = p->payload();
    op.size = text.size();
    if (r.me.out->send(op) != errorcode_t::done) _exit(2);
    kill(getpid(), SIGKILL);
  });
  rank_here r(*b.at, 1, 2);
  expect_end(child, SIGKILL);
  r.me.seen.answer = [](const net::arrival& m) {
    return m.packet != nullptr ? net::verdict::kept : net::verdict::taken;
  };
  ASSERT_TRUE(r.until([&] { return !r.me.seen.gone.empty(); }));
  EXPECT_EQ(r.me.seen.gone[0].messages_before, 101u);
  EXPECT_FALSE(r.me.seen.gone[0].orderly);
  for (std::uint32_t i = 0; i < 100; ++i) EXPECT_EQ(r.me.seen.messages[i].data, pattern(i, i));
  EXPECT_EQ(r.me.seen.messages[100].data, pattern(5000, 7));
  // A packet borrowed from the dead is still there, and giving it back does no harm.
  mem::packet* borrowed = r.me.seen.messages[100].packet;
  ASSERT_NE(borrowed, nullptr);
  mem::release_packet(r.me.arena, borrowed);
  EXPECT_EQ(r.me.say(0, "x"), errorcode_t::fatal);
}

TEST(processes, kill_9_of_a_target__what_is_under_way_fails_once) {
  shared_board b;
  const pid_t child = in_child([&] {
    rank_here r(*b.at, 0, 2);
    std::string memory(std::size_t{4} << 20, '.');
    b->key = r.me.expose(memory.data(), memory.size());
    b->step.store(1);
    r.until([&] { return r.me.net->connections().find(1) != nullptr && b->step.load() == 2; });
    pause();
  });
  net::fabric_config config;
  config.shm_single_copy = false;
  rank_here r(*b.at, 1, 2, config);
  while (b->step.load() == 0) sched_yield();
  ASSERT_EQ(r.me.say(0, "hello"), errorcode_t::done);
  ASSERT_TRUE(r.until(
      [&] { return r.me.net->check_remote(0, b->key).what == net::remote_view::answer::ok; }));
  b->step.store(2);
  std::string text(std::size_t{4} << 20, 'x');
  ASSERT_EQ(r.me.out->put(put_op(0, text, b->key)), errorcode_t::posted);
  ASSERT_EQ(r.me.out->get(put_op(0, text, b->key)), errorcode_t::posted);
  kill(child, SIGKILL);
  expect_end(child, SIGKILL);
  ASSERT_TRUE(r.until([&] { return !r.me.seen.gone.empty(); }));
  EXPECT_EQ(r.me.seen.completed.size() + r.me.seen.errors.size(), 2u);
  EXPECT_TRUE(r.me.dev->is_drained());
}

TEST(processes, kill_9_of_an_origin__the_target_goes_on_with_others) {
  shared_board b;
  net::fabric_config config;
  config.shm_single_copy = false;
  const pid_t child = in_child([&] {
    rank_here r(*b.at, 0, 2, config);
    r.me.say(1, "hello");
    r.until([&] {
      return b->step.load() == 1 &&
             r.me.net->check_remote(1, b->key).what == net::remote_view::answer::ok;
    });
    std::string text(std::size_t{4} << 20, 'x');
    r.me.out->put(put_op(1, text, b->key));
    kill(getpid(), SIGKILL);
  });
  rank_here r(*b.at, 1, 2, config);
  std::string memory(std::size_t{4} << 20, '.');
  b->key = r.me.expose(memory.data(), memory.size());
  b->step.store(1);
  ASSERT_TRUE(r.until([&] { return !r.me.seen.gone.empty(); }));
  expect_end(child, SIGKILL);
  EXPECT_EQ(memory.substr(0, bulk_stream::WINDOW), std::string(bulk_stream::WINDOW, 'x'));
  EXPECT_EQ(r.me.say(1, "me"), errorcode_t::done);
  ASSERT_TRUE(r.until([&] { return r.me.seen.messages.size() == 2; }));
}

TEST(processes, put_and_get__between_two_memories_both_ways) {
  for (const bool kernel : {true, false}) {
    shared_board b;
    net::fabric_config config;
    config.shm_single_copy = kernel;
    config.shm_single_copy_min = kernel ? 1 : 0;
    const pid_t child = in_child([&] {
      rank_here r(*b.at, 0, 2, config);
      std::string memory = pattern(300000, 1);
      b->key = r.me.expose(memory.data(), memory.size());
      b->step.store(1);
      if (!r.until([&] { return b->step.load() == 2; })) _exit(1);
      if (memory != pattern(300000, 2)) _exit(2);
    });
    rank_here r(*b.at, 1, 2, config);
    while (b->step.load() == 0) sched_yield();
    std::string got(300000, '.'), text = pattern(300000, 2);
    const auto finish = [&](errorcode_t rc) {
      return rc == errorcode_t::done || r.until([&] {
        const bool over = !r.me.seen.completed.empty();
        r.me.seen.completed.clear();
        return over;
      });
    };
    ASSERT_TRUE(r.until(
        [&] { return r.me.net->check_remote(0, b->key).what == net::remote_view::answer::ok; }));
    EXPECT_TRUE(finish(r.me.out->get(put_op(0, got, b->key))));
    EXPECT_EQ(got, pattern(300000, 1));
    EXPECT_TRUE(finish(r.me.out->put(put_op(0, text, b->key))));
    b->step.store(2);
    expect_end(child, 0);
  }
}

TEST(processes, a_fork_without_exec__changes_nothing_for_the_parent) {
  test::pair p;
  p.meet();
  const pid_t child = in_child([] {});
  expect_end(child, 0);
  EXPECT_EQ(p.a.say(1, "x"), errorcode_t::done);
  p.until([&] { return p.b.seen.messages.size() == 1; });
  for (int i = 0; i < 1000; ++i) p.a.poll();
  EXPECT_TRUE(p.a.seen.gone.empty());
}

TEST(cost, a_small_message__no_locked_instruction_no_system_call_few_lines) {
  const std::string missing = lci::test::step_counter_missing();
  if (!missing.empty()) GTEST_SKIP() << missing;
  struct quiet final : net::sink {
    net::verdict on_message(const net::arrival&) noexcept override { return net::verdict::taken; }
    void on_immediate(int, std::uint32_t) noexcept override {}
    void on_complete(void*) noexcept override {}
    void on_error(int, void*, std::string_view) noexcept override {}
    void on_peer_ended(int, bool, std::string_view) noexcept override {}
  };
  const auto report = lci::test::count_steps([] {
    quiet seen;
    test::addresses all(1);
    side me(0, all);
    const std::uint64_t word = 1;
    const auto send = [&] { me.out->send_inline(0, 0, nullptr, 0, &word, 8); };
    // Until the clock is read seldom: a section should be a plain poll.
    for (int i = 0; i < 2000; ++i) {
      send();
      me.dev->poll(seen, 64);
    }
    for (int i = 0; i < 3; ++i) {
      lci::test::step_begin(1);
      send();
      lci::test::step_end();
      lci::test::step_begin(2);
      me.dev->poll(seen, 64);
      lci::test::step_end();
    }
  });
  ASSERT_EQ(report.failure, "");
  ASSERT_EQ(report.sections.size(), 6u);
  // The best of each kind: one poll in many reads the clock.
  for (const int id : {1, 2}) {
    std::uint64_t instructions = ~0ull, locked = ~0ull, calls = ~0ull;
    for (const auto& s : report.sections) {
      if (s.id != id) continue;
      instructions = std::min(instructions, s.instructions);
      locked = std::min(locked, s.locked);
      calls = std::min(calls, s.system_calls);
    }
    RecordProperty(id == 1 ? "send_instructions" : "poll_instructions",
                   static_cast<int>(instructions));
    std::printf("%s: %llu instructions\n", id == 1 ? "send_inline" : "poll of one message",
                static_cast<unsigned long long>(instructions));
    EXPECT_EQ(locked, 0u);
    EXPECT_EQ(calls, 0u);
  }
}

TEST(memory, a_peer__costs_less_than_64_kib_a_side) {
  // Proportional: a page that both sides of a pair have mapped counts once.
  const auto resident = [] {
    std::ifstream in("/proc/self/smaps_rollup");
    std::string word;
    while (in >> word && word != "Pss:") {
    }
    std::size_t kib = 0;
    in >> kib;
    return kib * 1024;
  };
  constexpr int PEERS = 8;
  test::addresses all(PEERS + 1);
  std::vector<std::unique_ptr<side>> sides;
  for (int i = 0; i <= PEERS; ++i) sides.push_back(std::make_unique<side>(i, all));
  const auto talk = [&](int to) {
    sides[0]->say(to, "ping");
    side& peer = *sides[static_cast<std::size_t>(to)];
    for (int i = 0; i < 1000000 && peer.seen.messages.empty(); ++i) peer.poll();
    peer.say(0, "pong");
    const std::size_t before = sides[0]->seen.messages.size();
    for (int i = 0; i < 1000000 && sides[0]->seen.messages.size() == before; ++i) sides[0]->poll();
    EXPECT_EQ(sides[0]->seen.messages.size(), before + 1);
  };
  // What a process pays once, whoever its peers are.
  for (const auto& s : sides) {
    s->say(s->book.rank(), "myself");
    for (int i = 0; i < 10; ++i) s->poll();
    s->seen.messages.clear();
  }
  talk(1);
  const std::size_t start = resident();
  for (int i = 2; i <= PEERS; ++i) talk(i);
  // Both sides of each pair are in this process.
  const std::size_t each = (resident() - start) / (PEERS - 1) / 2;
  std::printf("resident memory per peer and side: %zu bytes\n", each);
  if (!lci::test::IS_SANITIZED) {
    EXPECT_LE(each, 64u * 1024);
  }
}

}  // namespace lci::shm
