// The server side of the key-value exchange, without the sockets: it joins the members of a job,
// collects what they put, and releases a fence with everything that is new to everybody.
// Callers: kv_service, which owns the sockets. Threads: single.
// Always true: a rank has at most one member connection at a time. A process (or a later program of
// the same launch) may leave and join again: all ranks' first connections make up the first
// session, their second ones the second, so lives never mix. Once a member has left, no fence of
// its session can complete: who waits in one, or comes later, is told who left.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lci/boot/kv_wire.hpp"

namespace lci::boot::kv {

class server {
 public:
  using connection = int;  // the owner's name for a stream of bytes, not negative
  // What the owner has to do. The same bytes may go to many, hence shared.
  struct output {
    connection to;
    std::shared_ptr<const std::string> bytes;  // may be null
    bool then_close;
  };

  // Values of one fence, all ranks together; beyond it the session fails.
  static constexpr std::size_t MAX_ROUND_BYTES = std::size_t{256} << 20;

  // With `hold_news`, members are not told that somebody has left until rank_ended() or
  // tell_failures(): the owner is about to learn how the process ended, and they shall hear that.
  explicit server(int size, bool hold_news = false);

  // A stream of bytes began, brought something, ended.
  void opened(connection c);
  void received(connection c, std::string_view bytes);
  void closed(connection c);
  // Ends a connection and tells it why, as far as it understands; its owner has found it out.
  void refuse(connection c, const std::string& why);
  // What has come up since the last call, in order.
  std::vector<output> take_outputs();

  bool is_member(connection c) const;
  // Of the newest session.
  bool all_joined() const;
  std::vector<int> missing() const;
  // The process that was to be `rank` has ended: sessions that still miss it can never be whole.
  void rank_ended(int rank, const std::string& why);
  // There are members that would be told of a failure if news were not held; and: tell them.
  bool has_news() const;
  void tell_failures();
  // It has left without taking leave, and not joined again.
  bool has_departed(int rank) const;
  // The owner's process goes in good order.
  void take_leave();
  // Tells everybody and ends the sessions; `why` becomes the text of their exceptions.
  void fail_all(const std::string& why);

 private:
  // One rank of one session.
  struct participant {
    connection link = -1;  // -1 = not joined yet, or left
    bool joined = false;   // stays true after it has left
    bool arrived = false;  // in the open fence
    bool left = false;
  };
  struct session {
    std::vector<participant> members;       // by rank
    int joined = 0, arrived = 0, left = 0;  // how many members have the flag set
    std::uint32_t round = 0;                // number of the open fence
    std::string values;                     // encoded, of the open round
    std::string failure;                    // empty = none
    int culprit = -1;                       // the rank that left, if that was the failure
    bool told = false;                      // members hear of it when they come to a fence
    std::vector<departure> departed;        // that nobody was told of yet
    std::vector<int> took_leave;            // ranks, likewise; told with the next outputs
  };
  // One connection, member or stranger.
  struct peer {
    splitter in;
    int rank = -1;      // -1 = has not said hello
    unsigned life = 0;  // number of its session
    bool took_leave = false;
  };

  // These answer false when the connection was refused; `p` is gone then.
  bool handle(connection c, peer& p, const frame& f);
  bool join(connection c, peer& p, const hello_body& hello);
  bool arrive(connection c, peer& p, std::uint32_t round);
  void release(session& s);
  void fail(session& s, const std::string& why, int culprit = -1);
  void tell(session& s);
  void tell_departures(session& s);
  void tell_leaves(session& s);
  void send(connection c, std::shared_ptr<const std::string> bytes, bool then_close = false);
  void fail_without_ended(session& s);
  session& session_of(const peer& p);

  static constexpr unsigned MOST_WARNINGS = 10;

  const int size_;
  const bool hold_news_;
  unsigned refused_ = 0;
  std::map<connection, peer> peers_;
  std::vector<unsigned> lives_;           // by rank: sessions joined so far
  std::vector<bool> departed_;            // by rank: see has_departed()
  std::map<int, std::string> ended_;      // by rank: how it ended
  std::map<unsigned, session> sessions_;  // by number, erased when all members have left
  std::vector<output> outputs_;
};

}  // namespace lci::boot::kv
