// The page of who waits for what, made of what ranks would tell.
#include "tools/lcrun/page.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "lci/types.hpp"

namespace lcrun {
namespace {

using lci::base::report::kind;
using lci::base::report::record;
using lci::base::report::sheet;

constexpr std::uint32_t ENGINE = 1, COLLECTIVES = 5;

record make(kind what, int rank, std::uint64_t tag, std::uint64_t object = 0) {
  record r{};
  r.what = what;
  r.engine = ENGINE;
  r.rank = rank;
  r.tag = tag;
  r.size = 8;
  r.object = object;
  r.age_ms = -1;
  return r;
}

record call(const char* name, std::uint64_t object, std::int64_t age_ms, int thread = 1) {
  record r = make(kind::call, -1, 0, object);
  sheet::set_name(r, name);
  r.age_ms = age_ms;
  r.thread = thread;
  return r;
}

record collective(const char* name, std::uint64_t number) {
  record r = make(kind::collective, 0, 0, 77);
  sheet::set_name(r, name);
  r.engine = COLLECTIVES;
  r.number = number;
  r.other = 78;
  return r;
}

record begun(std::uint64_t number) {
  record r = make(kind::engine, 0, 0);
  r.engine = COLLECTIVES;
  r.number = number;
  return r;
}

rank_view view(int rank, std::vector<record> records) {
  rank_view v;
  v.rank = rank;
  v.has_answered = true;
  v.records = std::move(records);
  v.rounds_before = 1;
  v.rounds = 2;
  return v;
}

rank_view silent(int rank, const char* why) {
  rank_view v;
  v.rank = rank;
  v.why_not = why;
  return v;
}

std::string sentence(const std::vector<rank_view>& ranks) {
  const auto all = find_mismatches(ranks);
  EXPECT_EQ(all.size(), 1u);
  return all.empty() ? std::string() : all.front();
}

TEST(list_ranks, neighbours_become_ranges) {
  EXPECT_EQ(list_ranks({}), "");
  EXPECT_EQ(list_ranks({7}), "7");
  EXPECT_EQ(list_ranks({5, 0, 1, 3, 2}), "0-3,5");
  EXPECT_EQ(list_ranks({0, 2, 3, 9, 10}), "0,2-3,9-10");
}

TEST(find_mismatches, tag) {
  EXPECT_EQ(
      sentence({view(0, {}), view(1, {make(kind::receive, 0, 8), make(kind::message, 0, 7)})}),
      "rank 1 waits for tag 8 from 0; rank 0 has sent tag 7");
}

TEST(find_mismatches, sender) {
  EXPECT_EQ(sentence({view(1, {make(kind::receive, 0, 8), make(kind::message, 2, 8)})}),
            "rank 1 waits for tag 8 from 0; rank 2 has sent tag 8");
}

TEST(find_mismatches, receiver) {
  EXPECT_EQ(sentence({view(1, {make(kind::receive, 0, 8)}), view(2, {make(kind::message, 0, 8)})}),
            "rank 1 waits for tag 8 from 0; rank 0 has sent tag 8 to 2");
}

TEST(find_mismatches, policy) {
  EXPECT_EQ(sentence({view(1, {make(kind::receive, 0, 8), make(kind::message, 0, 8)})}),
            "rank 1 waits for tag 8 from 0; rank 0 has sent it with another matching policy");
}

TEST(find_mismatches, engine) {
  record other = make(kind::message, 0, 8);
  other.engine = ENGINE + 8;
  EXPECT_EQ(sentence({view(1, {make(kind::receive, 0, 8), other})}),
            "rank 1 waits for tag 8 from 0; rank 0 has sent it to another matching engine");
}

TEST(find_mismatches, any_source_and_any_tag) {
  const int any = lci::ANY_SOURCE;
  EXPECT_EQ(sentence({view(1, {make(kind::receive, any, 8), make(kind::message, 3, 7)})}),
            "rank 1 waits for tag 8 from any rank; rank 3 has sent tag 7");
  EXPECT_EQ(sentence({view(1, {make(kind::receive, 0, lci::ANY_TAG), make(kind::message, 3, 7)})}),
            "rank 1 waits for any tag from 0; rank 3 has sent tag 7");
}

TEST(find_mismatches, posted_receives_that_no_call_waits_for_are_no_mismatch) {
  EXPECT_TRUE(find_mismatches({view(0, {}), view(1, {make(kind::receive, 0, 8, 3)})}).empty());
}

TEST(find_mismatches, each_other_is_said_once) {
  EXPECT_EQ(sentence({view(0, {make(kind::receive, 1, 8, 3), call("sync_wait", 3, 5)}),
                      view(1, {make(kind::receive, 0, 9, 4), call("sync_wait", 4, 5)})}),
            "ranks 0 and 1 wait for a message from each other");
}

TEST(find_mismatches, source_that_does_not_answer) {
  EXPECT_EQ(sentence({silent(0, "has ended with status 0"),
                      view(1, {make(kind::receive, 0, 9, 4), call("sync_wait", 4, 5)})}),
            "rank 1 waits for tag 9 from 0, which has ended with status 0");
}

TEST(find_mismatches, how_far_the_connection_with_the_source_is) {
  using namespace lci::base::report;
  const std::string who = "rank 1 waits for tag 9 from 0";
  const std::string nothing = "; no message from rank 0 has arrived";
  const std::pair<std::uint16_t, std::string> cases[] = {
      {CONNECTED, nothing + ", though they are connected"},
      {CONNECTING, ", with which it is still connecting"},
      {NOT_CONNECTED, nothing + ", nor have they been connected"},
      {0, nothing}};
  for (const auto& [flag, rest] : cases) {
    record wanted = make(kind::receive, 0, 9, 4);
    wanted.flags = flag;
    EXPECT_EQ(sentence({view(0, {}), view(1, {wanted, call("sync_wait", 4, 5)})}), who + rest);
  }
}

TEST(find_mismatches, send_to_a_rank_that_is_still_connecting) {
  record asked = make(kind::send, 1, 9, 4);
  asked.flags = lci::base::report::CONNECTING;
  EXPECT_EQ(
      sentence({view(0, {asked}), view(1, {})}),
      "rank 0 waits for rank 1 to receive tag 9 (8 bytes), with which it is still connecting");
}

TEST(find_mismatches, send_that_nobody_receives) {
  EXPECT_EQ(
      sentence({view(0, {make(kind::send, 1, 9, 4)}), view(1, {make(kind::message, 0, 9)})}),
      "rank 0 waits for rank 1 to receive tag 9 (8 bytes); rank 1 has posted no such receive");
}

// A message with its tag that lies there is another one.
TEST(find_mismatches, active_message_needs_no_receive) {
  record asked = make(kind::send, 1, 9, 4);
  asked.flags = lci::base::report::NO_RECEIVE;
  EXPECT_TRUE(find_mismatches({view(0, {asked}), view(1, {make(kind::message, 0, 9)})}).empty());
}

TEST(find_mismatches, collective_that_a_rank_has_not_called) {
  EXPECT_EQ(sentence({view(0, {begun(3), collective("barrier", 2)}), view(1, {begun(2)}),
                      view(2, {begun(3), collective("barrier", 2)})}),
            "rank 1 has not called barrier no. 3, in which ranks 0,2 wait");
}

TEST(find_mismatches, collectives_that_differ) {
  EXPECT_EQ(sentence({view(0, {begun(3), collective("barrier", 2)}),
                      view(1, {begun(3), collective("broadcast", 2)})}),
            "collective no. 3 differs between ranks: rank 0 calls barrier, rank 1 calls broadcast");
}

TEST(write_page, ranks_that_wait_for_the_same_are_in_one_line) {
  std::vector<rank_view> ranks;
  for (const int r : {0, 1, 2, 3, 5})
    ranks.push_back(view(r, {begun(1), collective("barrier", 0), call("sync_wait", 77, 1000 + r)}));
  ranks.push_back(silent(4, "does not answer: it is stopped (pid 9, state T)"));
  EXPECT_EQ(write_page(ranks, 6, "on request"),
            "who waits for what (on request)\n"
            "  rank 4 reports nothing about barrier no. 1, in which ranks 0-3,5 wait\n"
            "  ranks 0-3,5: waiting in barrier no. 1, for 1.0 s\n"
            "  rank 4: does not answer: it is stopped (pid 9, state T)\n"
            "end of who waits for what\n");
}

TEST(write_page, threads_are_told_apart_where_there_are_several) {
  const std::string page =
      write_page({view(0, {call("wait_drained", 0, 500, 11), call("wait_drained", 0, 700, 12)})}, 1,
                 "on request");
  EXPECT_NE(page.find("rank 0: thread 11 waiting in wait_drained, for 0.5 s\n"), std::string::npos)
      << page;
  EXPECT_NE(page.find("rank 0: thread 12 waiting in wait_drained, for 0.7 s\n"), std::string::npos);
}

TEST(write_page, many_of_a_kind_are_counted) {
  std::vector<record> many;
  for (int i = 0; i < 20; ++i)
    many.push_back(make(kind::message, 0, static_cast<unsigned>(i % 10)));
  const std::string page = write_page({view(1, many)}, 2, "on request");
  EXPECT_NE(page.find("tag 0, 8 bytes, not matched by any receive (2 of these)\n"),
            std::string::npos)
      << page;
  EXPECT_NE(page.find("rank 1: and 10 more messages\n"), std::string::npos) << page;
  EXPECT_NE(page.find(", of 1 ranks of 2\n"), std::string::npos) << page;
}

TEST(write_page, peers_that_are_still_connecting) {
  std::vector<record> named;
  for (const kind what : {kind::call, kind::send, kind::backlog, kind::refusals}) {
    record r = make(what, 3, 7);
    r.flags = lci::base::report::CONNECTING;
    r.number = 2;
    named.push_back(r);
  }
  sheet::set_name(named[0], "a blocking post");
  for (record& r : {std::ref(named[0]), std::ref(named[3])})
    r.how = static_cast<std::uint8_t>(lci::errorcode_t::retry_nomem);
  const std::string page = write_page({view(0, named)}, 1, "on request");
  for (const char* const line :
       {"rank 3, tag 7, 8 bytes, which is refused again and again: retry_nomem; it is still "
        "connecting with that rank\n",
        "sending 8 bytes, tag 7, to rank 3, with which it is still connecting\n",
        "2 operations with rank 3 not yet accepted by the network, which is still connecting with "
        "that rank\n",
        "times, the last for rank 3, with which it is still connecting\n"})
    EXPECT_NE(page.find(line), std::string::npos) << line << page;
}

TEST(write_page, large_active_messages_that_wait_for_their_turn) {
  record many = make(kind::turn, 0, 0), one = make(kind::turn, 2, 0);
  many.number = 3;
  many.size = 196608;
  one.number = 1;
  one.size = 32768;
  EXPECT_EQ(write_page({view(1, {many, one})}, 1, "on request"),
            "who waits for what (on request)\n"
            "  rank 1: 1 large active message from rank 2 waits for its turn, 32768 bytes\n"
            "  rank 1: 3 large active messages from rank 0 wait for their turn, 196608 bytes\n"
            "end of who waits for what\n");
}

TEST(write_page, sends__which_the_peer_has_not_granted) {
  record sent = make(kind::send, 1, 9), active = sent, written = sent, waited_for = sent;
  active.flags = written.flags = waited_for.flags = lci::base::report::NO_RECEIVE;
  written.how = 1;
  waited_for.object = 4;
  EXPECT_EQ(write_page({view(0, {sent, active, written, waited_for, call("sync_wait", 4, 0)})}, 1,
                       "on request"),
            "who waits for what (on request)\n"
            "  rank 0: waiting in sync_wait for rank 1 to grant 8 bytes, tag 9, for 0.0 s\n"
            "  rank 0: sending 8 bytes, tag 9, to rank 1\n"
            "  rank 0: sending 8 bytes, tag 9, to rank 1, which has not granted it yet\n"
            "  rank 0: sending 8 bytes, tag 9, to rank 1, which has posted no receive for it\n"
            "end of who waits for what\n");
}

TEST(write_page, what_a_post_is_refused_for) {
  record refused = call("a blocking post", 0, 100);
  refused.how = static_cast<std::uint8_t>(lci::errorcode_t::retry_nopacket);
  refused.rank = 3;
  const std::string page = write_page({view(0, {refused})}, 1, "on request");
  EXPECT_NE(
      page.find("waiting in a blocking post with rank 3, tag 0, 8 bytes, which is refused again "
                "and again: retry_nopacket, for 0.1 s\n"),
      std::string::npos)
      << page;
}

}  // namespace
}  // namespace lcrun
