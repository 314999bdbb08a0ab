// Ways to hang, and what the page of who waits for what says of each.
#include <regex>

#include "tests/tools/launch.hpp"

namespace lcrun_tests {
namespace {

using hang_test = lcrun_test;

const std::string END = "end of who waits for what\n";

// Asks until a page has a line for each of these expressions: a rank that has said that it is about
// to wait does so only a moment later. The last page comes back.
std::string page_with(launch& run, int ranks, const std::vector<std::string>& expected) {
  std::string page;
  EXPECT_TRUE(run.wait_for("about to wait", static_cast<std::size_t>(ranks)));
  for (;;) {
    const std::size_t from = run.err().size();
    run.signal(SIGUSR1);
    if (!run.wait_for_error(END, from)) break;
    page = run.err().substr(from);
    bool has_all = true;
    for (const std::string& each : expected)
      has_all = has_all && std::regex_search(page, std::regex(each));
    if (has_all) return page;
  }
  ADD_FAILURE() << "the last page lacks something:\n" << page << "all of it:\n" << run.err();
  return page;
}

void hangs(const char* way, int ranks, const std::vector<std::string>& expected) {
  launch run({"-n", std::to_string(ranks), LCI_HANG, way});
  page_with(run, ranks, expected);
}

TEST_F(hang_test, tag_mismatch__is_said_in_words) {
  hangs("tag_mismatch", 4,
        {"rank 1 waits for tag 8 from 0; rank 0 has sent tag 7\n",
         "rank 1: waiting in sync_wait for a message from rank 0, tag 8, up to 64 bytes, for ",
         "rank 1: a message from rank 0, tag 7, 8 bytes, not matched by any receive",
         "ranks 0,2-3: waiting in barrier no. 2, for ",
         "rank 1 has not called barrier no. 2, in which ranks 0,2-3 wait\n"});
}

TEST_F(hang_test, wrong_peer__is_said_in_words) {
  hangs("wrong_peer", 3,
        {"rank 1 waits for tag 5 from 0; rank 0 has sent tag 5 to 2\n",
         "rank 1: waiting in a blocking receive for a message from rank 0, tag 5, up to 64 bytes"});
}

TEST_F(hang_test, barrier__who_is_missing) {
  hangs("missing_from_barrier", 4,
        {"rank 2 has not called barrier no. 2, in which ranks 0-1,3 wait\n",
         "ranks 0-1,3: waiting in barrier no. 2", "rank 2: made no call of progress during"});
}

TEST_F(hang_test, receive__nobody_sends) {
  hangs("never_sent", 2,
        {"rank 1 waits for tag 3 from 0; no message from rank 0 has arrived, though they are "
         "connected\n",
         "rank 0: not in a blocking call, and making progress\n",
         "rank 1: waiting in a blocking receive for a message from rank 0, tag 3"});
}

TEST_F(hang_test, receives__of_each_other) {
  hangs("each_other", 2, {"ranks 0 and 1 wait for a message from each other\n"});
}

TEST_F(hang_test, large_message__nobody_receives) {
  hangs("never_received", 2,
        {"rank 0 waits for rank 1 to receive tag 9 .1048576 bytes.; rank 1 has posted no such",
         "rank 0: waiting in a blocking post for rank 1 to post a receive for 1048576 bytes, tag 9",
         "rank 1: a message from rank 0, tag 9, 1048576 bytes, not matched by any receive; its "
         "sender waits"});
}

TEST_F(hang_test, large_active_messages__that_wait_for_their_turn) {
  hangs("large_active_messages", 2,
        {"rank 1: [0-9]+ large active messages from rank 0 wait for their turn, [0-9]+ bytes\n",
         "rank 0: sending 1048576 bytes, tag 3, to rank 1, which has not granted it yet"});
}

TEST_F(hang_test, peer__that_is_still_connecting) {
  hangs("still_connecting", 2,
        {"rank 0 waits for tag 8 from 1, with which it is still connecting\n",
         "rank 1: made no call of progress during"});
}

TEST_F(hang_test, peer__with_which_nobody_has_connected) {
  hangs("never_connected", 2,
        {"rank 0 waits for tag 8 from 1; no message from rank 1 has arrived, nor have they been "
         "connected\n"});
}

TEST_F(hang_test, progress__a_rank_that_makes_none) {
  hangs("no_progress", 2,
        {"rank 0 waits for tag 6 from 1; no message from rank 1 has arrived, though they are "
         "connected\n",
         "rank 1: made no call of progress during the inspection"});
}

TEST_F(hang_test, stopped__a_rank_that_does_not_answer) {
  hangs("stopped", 2,
        {"rank 0 waits for tag 2 from 1, which does not answer: it is stopped",
         "rank 1: does not answer: it is stopped .pid [0-9]+, state T.\n"});
}

TEST_F(hang_test, packets__posts_that_are_refused_for_ever) {
  hangs("no_packets", 2,
        {"rank 0: posts were refused with retry_nopacket [0-9]+ times, the last for rank 1\n"});
}

TEST_F(hang_test, collectives__that_are_not_the_same) {
  hangs("other_collective", 3,
        {"collective no. 2 differs between ranks: ranks 0,2 call barrier, rank 1 calls broadcast",
         "rank 1: waiting in broadcast no. 2"});
}

TEST_F(hang_test, timeout__prints_the_page_and_ends_the_job) {
  launch run({"-n", "2", "--timeout", "0.5", LCI_HANG, "never_sent"});
  EXPECT_EQ(run.finish(), 124);
  EXPECT_NE(run.err().find("lcrun: who waits for what (timeout after 0.5 s)\n"), std::string::npos)
      << run.err();
  EXPECT_NE(run.err().find(END), std::string::npos) << run.err();
}

TEST_F(hang_test, other_programs__are_left_alone_and_named) {
  launch run({"-n", "2", "/bin/sh", "-c", "echo about to wait; sleep 1000"});
  page_with(run, 2, {"ranks? 0[^\n]*: has not initialized lci"});
  // They are still there: nobody has died of the question.
  page_with(run, 2, {"rank 1: has not initialized lci|ranks 0-1: has not initialized"});
}

TEST_F(hang_test, ended__a_rank_that_is_over_is_named) {
  launch run({"-n", "2", "--keep-going", "/bin/sh", "-c",
              "echo about to wait; test $LCI_LCRUN_RANK = 0 || exit 3; sleep 1000"});
  page_with(run, 2, {"rank 1: has ended with status 3\n"});
}

}  // namespace
}  // namespace lcrun_tests
