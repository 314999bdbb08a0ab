// A side that lives and cannot take the other in: both are told why.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "tests/unit/shm/pair.hpp"

namespace lci::shm {
namespace {

using test::pair;

// What comes on a socket, polls of b included.
received next_record(pair& p, const lci::base::descriptor& from) {
  received record;
  p.until([&] {
    record = receive_record(from.get());
    return record.error != EAGAIN;
  });
  return record;
}

TEST(refusal, of_memory_that_cannot_be_mapped__is_said_before_the_hang_up) {
  pair p;
  lci::base::descriptor caller;
  ASSERT_EQ(connect_to(address::parse(p.all[1])->id, caller), 0);
  hello said;
  said.rank = 0;
  said.from = address::parse(p.all[0])->id;
  said.to = address::parse(p.all[1])->id;
  said.arena_reserve = std::uint64_t{1} << 60;  // more than any process maps
  EXPECT_EQ(send_record(caller.get(), std::as_bytes(std::span(&said, 1)), p.a.arena.fd()), 0);
  const received words = next_record(p, caller);
  const std::string text(words_of_refusal({words.bytes.data(), words.size}));
  EXPECT_NE(text.find("1152921504606846976 bytes"), std::string::npos) << text;
  EXPECT_EQ(next_record(p, caller).size, 0u) << "and then it hangs up";
  p.until([&] { return !p.b.seen.gone.empty(); });
  EXPECT_EQ(p.b.seen.gone[0].reason, text) << "the same reason here";
}

TEST(refusal, by_a_peer_that_lives__is_the_reason_of_its_end) {
  pair p;
  address elsewhere = *address::parse(p.all[1]);
  elsewhere.id[0] ^= 0xff;
  const lci::base::descriptor listener = listen_at(elsewhere.id);
  p.all[1] = elsewhere.text();
  EXPECT_EQ(p.a.say(1, "x"), errorcode_t::done);
  {
    const lci::base::descriptor callee(
        accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    ASSERT_TRUE(callee);
    EXPECT_EQ(next_record(p, callee).size, sizeof(hello));
    send_refusal(callee.get(), "mmap of your arena: no room (ulimit -v)");
  }
  p.until([&] { return !p.a.seen.gone.empty(); });
  EXPECT_FALSE(p.a.seen.gone[0].orderly);
  EXPECT_EQ(p.a.seen.gone[0].reason,
            "it refused this rank, in its words: \"mmap of your arena: no room (ulimit -v)\"");
  EXPECT_EQ(p.a.say(1, "y"), errorcode_t::fatal);
}

// Both have called at once. A bye on the other connection would be read as a farewell.
TEST(refusal, on_one_connection_of_two__no_bye_comes_on_the_other) {
  pair p;
  address elsewhere = *address::parse(p.all[0]);
  elsewhere.id[0] ^= 0xff;
  const lci::base::descriptor listener = listen_at(elsewhere.id);
  p.all[0] = elsewhere.text();
  EXPECT_EQ(p.b.say(0, "x"), errorcode_t::done);
  const lci::base::descriptor callee(
      accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  ASSERT_TRUE(callee);
  EXPECT_EQ(next_record(p, callee).size, sizeof(hello));
  lci::base::descriptor caller;
  ASSERT_EQ(connect_to(address::parse(p.all[1])->id, caller), 0);
  hello said;
  said.rank = 0;
  said.from = elsewhere.id;
  said.to = address::parse(p.all[1])->id;
  said.arena_reserve = std::uint64_t{1} << 60;
  EXPECT_EQ(send_record(caller.get(), std::as_bytes(std::span(&said, 1)), p.a.arena.fd()), 0);
  const received words = next_record(p, caller);
  EXPECT_NE(words_of_refusal({words.bytes.data(), words.size}), "");
  p.b.net->leave();
  p.b.close();
  EXPECT_EQ(next_record(p, callee).size, 0u) << "no bye";
}

// Too long, cut short, or by somebody who has not said who he is.
TEST(refusal, that_makes_no_sense__is_none) {
  const auto words = [](const refusal& said, std::size_t size) {
    return words_of_refusal(std::as_bytes(std::span(&said, 1)).first(size));
  };
  refusal said;
  said.size = 2;
  said.why[0] = said.why[1] = 'x';
  EXPECT_EQ(words(said, sizeof(said)), "xx");
  for (const std::size_t size : {std::size_t{0}, std::size_t{7}, sizeof(said) - 1})
    EXPECT_EQ(words(said, size), "");
  said.size = refusal::MOST + 1;
  EXPECT_EQ(words(said, sizeof(said)), "");
  said.size = 2;
  said.magic = hello::MAGIC;
  EXPECT_EQ(words(said, sizeof(said)), "");

  pair p;
  p.meet();
  lci::base::descriptor stranger;
  ASSERT_EQ(connect_to(address::parse(p.all[1])->id, stranger), 0);
  send_refusal(stranger.get(), "go away");
  EXPECT_EQ(next_record(p, stranger).size, 0u);
  EXPECT_TRUE(p.b.seen.gone.empty());
}

TEST(refusal, longer_than_its_record__is_cut) {
  lci::base::descriptor ends[2];
  int pair_of_sockets[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair_of_sockets), 0);
  for (int i = 0; i < 2; ++i) ends[i].reset(pair_of_sockets[i]);
  const std::string text(1000, 'x');
  send_refusal(ends[0].get(), text);
  const received got = receive_record(ends[1].get());
  EXPECT_EQ(words_of_refusal({got.bytes.data(), got.size}), text.substr(0, refusal::MOST));
}

}  // namespace
}  // namespace lci::shm
