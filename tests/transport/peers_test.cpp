// Several peers, the end of one, and both sides calling each other.
#include "both_ends.hpp"

namespace transport_test {
namespace {

TEST(peers, several_of_one_listener) {
  lci::transport server(usual());
  std::vector<std::unique_ptr<lci::transport>> clients;
  std::vector<lci::transport*> all{&server};
  const std::string url = server.bind();
  for (int i = 0; i < 5; ++i) {
    clients.push_back(std::make_unique<lci::transport>(usual()));
    clients.back()->connect(url);
    all.push_back(clients.back().get());
  }
  ASSERT_TRUE(run(all, [&] { return server.peers().size() == 5 && server.connected(); }));
  std::vector<std::uint8_t> bytes(5);
  lci::memory target(bytes.data(), 5);
  std::uint8_t value = 1;
  lci::memory source(&value, 1);
  EXPECT_THROW(server.write(source.view(), target.remote()), lci::argument_error);
  for (std::size_t i = 0; i < 5; ++i)
    clients[i]->write(source.view(), target.remote().slice(i, 1), true, i);
  std::set<std::uint64_t> tags;
  std::set<int> from;
  ASSERT_TRUE(run(all, [&] {
    lci::notification note;
    if (server.wait_for_write(0, &note)) {
      tags.insert(note.tag);
      from.insert(note.peer);
    }
    return tags.size() == 5;
  }));
  EXPECT_EQ(from.size(), 5u);
  EXPECT_EQ(bytes, std::vector<std::uint8_t>(5, 1));
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(server.accept().is_valid());
  EXPECT_FALSE(server.accept().is_valid());
  // And back, to each.
  for (lci::transport::peer& one : server.peers())
    one.write(source.view(), target.remote().slice(0, 1), true, 9);
  for (auto& one : clients) {
    lci::notification note;
    ASSERT_TRUE(run(all, [&] { return one->wait_for_write(0, &note); }));
    EXPECT_EQ(note.tag, 9u);
  }
}

TEST(peers, both_call_each_other) {
  lci::transport a(usual()), b(usual());
  const std::string of_a = a.bind(), of_b = b.bind();
  a.connect(of_b);
  b.connect(of_a);
  ASSERT_TRUE(run({&a, &b}, [&] { return a.connected() && b.connected(); })) << a.describe() << "\n"
                                                                             << b.describe();
  EXPECT_EQ(a.peers().size(), 1u);
  EXPECT_EQ(b.peers().size(), 1u);
  int value = 7, landed = 0;
  lci::memory source(&value, sizeof value), target(&landed, sizeof landed);
  a.write(source.view(), target.remote(), true);
  lci::notification note;
  ASSERT_TRUE(run({&a, &b}, [&] { return b.wait_for_write(0, &note); }));
  EXPECT_EQ(landed, 7);
}

TEST(peers, one_closes__the_other_learns_why) {
  both_ends e;
  e.connect();
  lci::transport::peer of_a = e.a.peers().front();
  std::vector<std::uint8_t> bytes(8);
  lci::memory memory(bytes.data(), 8);
  const lci::transfer waiting = e.a.next_write();
  e.b.close();
  // A listener goes on: somebody else may come.
  ASSERT_TRUE(run({&e.a}, [&] { return e.a.peers().empty(); }));
  EXPECT_FALSE(of_a.connected());
  EXPECT_NE(of_a.why_closed(), "");
  EXPECT_THROW(of_a.write(memory.view(), memory.remote()), lci::peer_failure_error);
  EXPECT_FALSE(waiting.is_done());
  lci::transport again(usual());
  again.connect(e.a.bind());
  ASSERT_TRUE(run({&e.a, &again}, [&] { return e.a.connected() && again.connected(); }));
  again.write(memory.view(), memory.remote(), true, 3);
  ASSERT_TRUE(run({&e.a, &again}, [&] { return waiting.is_done(); }));
  EXPECT_EQ(waiting.note().tag, 3u);
}

TEST(peers, closed_before_accept__are_not_kept) {
  lci::transport a(usual());
  const std::string url = a.bind();
  for (int i = 0; i < 3; ++i) {
    lci::transport gone(usual());
    gone.connect(url);
    ASSERT_TRUE(run({&a, &gone}, [&] { return a.connected() && gone.connected(); }));
    gone.close();
    ASSERT_TRUE(run({&a}, [&] { return a.peers().empty(); }));
  }
  lci::transport here(usual());
  here.connect(url);
  ASSERT_TRUE(run({&a, &here}, [&] { return a.connected() && here.connected(); }));
  EXPECT_TRUE(a.accept().connected());
  EXPECT_FALSE(a.accept().is_valid());
}

// By shared memory what was done is there at once.
TEST(peers, one_leaves__what_it_has_told_is_there) {
  if (std::getenv("LCI_TEST_PROVIDER") != nullptr) GTEST_SKIP() << "of shared memory";
  both_ends e;
  e.connect();
  std::uint8_t byte = 1;
  lci::memory memory(&byte, 1);
  const lci::transfer first = e.a.write(memory.view(), memory.remote(), true);
  ASSERT_TRUE(e.run_both(first));
  // As many as there is room for.
  int done = 1;
  for (; done < 1000; ++done) {
    const lci::transfer one = e.a.write(memory.view(), memory.remote(), true);
    for (int i = 0; i < 100 && !one.is_done(); ++i) e.a.process();
    if (!one.is_done()) break;
  }
  e.a.close();
  ASSERT_TRUE(run({&e.b}, [&] { return e.b.peers().empty(); }));
  lci::notification note;
  int got = 0;
  while (got < done && e.b.wait_for_write(0, &note)) ++got;
  EXPECT_EQ(got, done);
  RecordProperty("notifications", done);
}

// Messages behind their writes: done once they are handed over, and on their way for as long as the
// network likes (transport_late). They come before the end is told.
TEST(peers, one_leaves__what_is_on_its_way_comes_first) {
  both_ends e;
  e.connect();
  std::uint8_t byte = 1;
  lci::memory memory(&byte, 1);
  const std::uint64_t beyond = std::uint64_t{1} << 40;
  const int count = 20;
  for (int i = 0; i < count; ++i) {
    const auto tag = beyond + static_cast<std::uint64_t>(i);
    const lci::transfer one = e.b.write(memory.view(), memory.remote(), true, tag);
    ASSERT_TRUE(e.run_both(one));
  }
  e.b.close();
  int got = 0;
  lci::notification note;
  ASSERT_TRUE(run({&e.a}, [&] {
    while (e.a.wait_for_write(0, &note)) {
      ++got;
      EXPECT_EQ(note.count, static_cast<std::uint64_t>(got));
    }
    return e.a.peers().empty();
  })) << e.a.describe();
  while (e.a.wait_for_write(0, &note)) ++got;
  EXPECT_EQ(got, count);
}

// Own operations toward the one that leaves fail, and take nothing from what is on its way.
TEST(peers, one_leaves__own_ones_fail_and_the_rest_comes) {
  both_ends e;
  e.connect();
  std::vector<std::uint8_t> bytes(1 << 20), there(1 << 20);
  lci::memory memory(bytes.data(), bytes.size()), source(there.data(), there.size());
  // The key is known.
  ASSERT_TRUE(e.run_both(e.a.read(memory.view(), source.remote())));
  const std::uint64_t beyond = std::uint64_t{1} << 40;
  const int count = 20;
  for (int i = 0; i < count; ++i)
    ASSERT_TRUE(
        e.run_both(e.b.write(source.view(0, 1), memory.remote().slice(0, 1), true, beyond)));
  std::vector<lci::transfer> own;
  for (int i = 0; i < count; ++i) {
    own.push_back(e.a.write(memory.view(), source.remote(), true, beyond));
    own.push_back(e.a.read(memory.view(), source.remote()));
  }
  e.b.close();
  int got = 0;
  lci::notification note;
  ASSERT_TRUE(run({&e.a}, [&] {
    while (e.a.wait_for_write(0, &note)) ++got;
    return e.a.peers().empty();
  })) << e.a.describe();
  while (e.a.wait_for_write(0, &note)) ++got;
  EXPECT_EQ(got, count);
  for (const lci::transfer& one : own) EXPECT_TRUE(one.is_done());
}

TEST(peers, the_listener_closes__waits_end) {
  both_ends e;
  e.connect();
  const lci::transfer waiting = e.b.next_write();
  e.a.close();
  ASSERT_TRUE(run({&e.b}, [&] { return waiting.is_done(); }));
  EXPECT_THROW(waiting.get(), lci::peer_failure_error);
  EXPECT_THROW(e.b.wait_for_write(), lci::peer_failure_error);
  EXPECT_THROW(e.b.wait_connected(), lci::peer_failure_error);
}

TEST(peers, a_closed_transport_lets_nobody_in) {
  lci::transport a(usual()), b(usual()), c(usual());
  const std::string url = a.bind();
  b.connect(url);
  c.connect(url);
  for (int i = 0; i < 3; ++i) b.process(), a.process();  // in set-up
  a.close();
  lci::transport late(usual());
  late.connect(url);
  ASSERT_TRUE(run({&a, &b, &c, &late},
                  [&] { return b.peers().empty() && c.peers().empty() && late.peers().empty(); }));
  EXPECT_TRUE(a.peers().empty());
  EXPECT_FALSE(a.accept().is_valid());
}

TEST(peers, closed_before_it_came__is_not_revived) {
  lci::transport a(usual()), b(usual());
  std::uint8_t byte = 1;
  lci::memory memory(&byte, 1);
  const lci::transfer waiting = a.write(memory.view(), memory.remote());
  lci::transport::peer first = a.peers().front();
  first.close();
  EXPECT_THROW(waiting.get(), lci::peer_failure_error);
  lci::transport::peer second = a.connect(b.bind());
  ASSERT_TRUE(run({&a, &b}, [&] { return a.connected() && b.connected(); }));
  EXPECT_EQ(second.why_closed(), "");
  EXPECT_NE(first.why_closed(), "");
}

TEST(peers, closed_by_this_side__another_may_come_at_once) {
  lci::transport a(usual()), b(usual()), c(usual());
  std::uint8_t byte = 1, there = 0;
  lci::memory source(&byte, 1), target(&there, 1);
  b.connect(a.bind());
  ASSERT_TRUE(run({&a, &b}, [&] { return a.connected() && b.connected(); }));
  b.peers().front().close();
  EXPECT_TRUE(b.peers().empty());
  EXPECT_FALSE(b.connected());
  b.connect(c.bind());
  EXPECT_EQ(b.peers().size(), 1u);
  const lci::transfer write = b.write(source.view(), target.remote());
  ASSERT_TRUE(run({&b, &c}, [&] { return write.is_done(); }));
  EXPECT_NO_THROW(write.get());
}

TEST(peers, closed_by_this_side__not_accepted_any_more) {
  lci::transport a(usual()), b(usual()), c(usual());
  const std::string url = a.bind();
  b.connect(url);
  c.connect(url);
  ASSERT_TRUE(run({&a, &b, &c}, [&] { return a.peers().size() == 2 && a.connected(); }));
  const int second = a.peers()[1].number();
  a.peers()[0].close();
  EXPECT_EQ(a.accept().number(), second);
  EXPECT_FALSE(a.accept().is_valid());
}

// An error without a peer of its own is about the one that ended last, not the one that came last.
TEST(peers, all_end__the_last_one_is_named) {
  lci::transport a(usual()), b(usual()), c(usual());
  const int first = c.connect(a.bind()).number();
  c.connect(b.bind());
  ASSERT_TRUE(run({&a, &b, &c}, [&] { return c.peers().size() == 2 && c.connected(); }));
  b.close();
  ASSERT_TRUE(run({&a, &c}, [&] { return c.peers().size() == 1; }));
  a.close();
  ASSERT_TRUE(run({&c}, [&] { return c.peers().empty(); }));
  try {
    c.wait_for_write(0, nullptr);
    ADD_FAILURE() << "there is no peer";
  } catch (const lci::peer_failure_error& e) {
    EXPECT_EQ(e.failed_rank(), first);
    EXPECT_NE(std::string(e.what()).find("peer " + std::to_string(first)), std::string::npos)
        << e.what();
  }
}

TEST(peers, kept_beyond_their_transport) {
  lci::transport::peer of_caller, of_listener;
  {
    both_ends e;
    e.connect();
    of_listener = e.a.accept();
    of_caller = e.b.peers().front();
    e.a.close();
    ASSERT_TRUE(run({&e.b}, [&] { return e.b.peers().empty(); }));
  }
  EXPECT_FALSE(of_caller.connected());
  EXPECT_THROW(of_listener.close(), lci::peer_failure_error);
}

TEST(peers, wrong_secret__is_refused) {
  lci::transport a(usual()), b(usual());
  std::string url = a.bind();
  const std::size_t key = url.find("k=") + 2;
  url[key] = url[key] == '0' ? '1' : '0';
  lci::transport::peer peer = b.connect(url);
  ASSERT_TRUE(run({&a, &b}, [&] { return b.peers().empty(); }));
  try {
    b.wait_connected();
    ADD_FAILURE() << "connected";
  } catch (const lci::peer_failure_error& e) {
    EXPECT_EQ(e.failed_rank(), peer.number());
    EXPECT_EQ(e.what(), "the connection to peer 0 could not be made: " + peer.why_closed());
  }
  try {
    b.wait_for_write();
    ADD_FAILURE() << "a notification";
  } catch (const lci::peer_failure_error& e) {
    EXPECT_EQ(e.what(), "the transport has no peer: the connection to peer 0 could not be made: " +
                            peer.why_closed());
  }
  EXPECT_TRUE(a.peers().empty());
}

// A listener goes on waiting for others; its own call is over all the same.
TEST(peers, wrong_secret__a_listener_learns_it_too) {
  lci::transport a(usual()), b(usual());
  b.bind();
  std::string url = a.bind();
  const std::size_t key = url.find("k=") + 2;
  url[key] = url[key] == '0' ? '1' : '0';
  b.connect(url);
  ASSERT_TRUE(run({&a, &b}, [&] { return b.peers().empty(); }));
  EXPECT_THROW(b.wait_connected(1), std::runtime_error);
  // A new call counts.
  url[key] = url[key] == '0' ? '1' : '0';
  lci::transport again(usual());
  b.connect(again.bind());
  ASSERT_TRUE(run({&again, &b}, [&] { return again.connected() && b.connected(); }));
  EXPECT_TRUE(b.wait_connected(1));
}

TEST(peers, progress_thread__nobody_else_moves_it) {
  lci::transport_options options = usual();
  options.progress_thread = true;
  both_ends e(options);
  e.b.connect(e.a.bind());
  ASSERT_TRUE(e.b.wait_connected());
  ASSERT_TRUE(e.a.wait_connected());
  std::vector<std::uint8_t> bytes(8, 1), target(8);
  lci::memory source(bytes.data(), 8), there(target.data(), 8);
  for (int i = 0; i < 100; ++i) {
    std::future<void> done = e.a.write(source.view(), there.remote(), true, 4).future();
    EXPECT_EQ(e.b.wait_for_write().count, static_cast<std::uint64_t>(i + 1));
    done.get();
  }
  EXPECT_EQ(target, bytes);
}

}  // namespace
}  // namespace transport_test
