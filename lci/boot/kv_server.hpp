// The server side of the key-value exchange, without the sockets: it joins the members of a job,
// collects what they put, and releases a fence by sending all new values to all members.
// Callers: kv_service, which owns the sockets. Threads: single.
// Always true: a rank has at most one member connection at a time. A process (or a later program of
// the same launch) may leave and join again: the first connections of all ranks make up the first
// session, their second ones the second, so sessions never mix. Once a member has left, no fence of
// its session can complete: a member that waits in one, or comes later, is told who left.
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
  // What the owner has to send. The same bytes may go to many members, hence shared.
  struct output {
    connection to;
    std::shared_ptr<const std::string> bytes;  // may be null
    bool then_close;
  };

  // The values of one fence, all ranks together; if they exceed it the session fails.
  static constexpr std::size_t MAX_ROUND_BYTES = std::size_t{256} << 20;

  // With `hold_news`, members are not told that one has left until rank_ended() or tell_failures():
  // the owner is about to learn how the process ended, and they shall be told that.
  explicit server(int size, bool hold_news = false);

  // A stream of bytes began, delivered bytes, ended.
  void opened(connection c);
  void received(connection c, std::string_view bytes);
  void closed(connection c);
  // Ends a connection and tells the peer why, if it understands; called when the owner found the
  // fault.
  void refuse(connection c, const std::string& why);
  // The outputs since the last call, in order.
  std::vector<output> take_outputs();

  bool is_member(connection c) const;
  // Of the newest session.
  bool all_joined() const;
  std::vector<int> missing() const;
  // The process that was to be `rank` has ended: sessions that still lack it can never be complete.
  void rank_ended(int rank, const std::string& why);
  // Whether there are members that would be told of a failure if news were not held; and: tell
  // them.
  bool has_news() const;
  void tell_failures();
  // True if it left without announcing it, and has not joined again.
  bool has_departed(int rank) const;
  // The owner's process announces that it leaves.
  void take_leave();
  // Tells all members and ends the sessions; `why` becomes the text of their exceptions.
  void fail_all(const std::string& why);

 private:
  // One rank of one session.
  struct participant {
    connection link = -1;  // -1 = not joined yet, or left
    bool joined = false;   // stays true after it has left
    bool arrived = false;  // in the open fence
    bool took_leave = false;
    bool left = false;
  };
  struct session {
    std::vector<participant> members;       // by rank
    int joined = 0, arrived = 0, left = 0;  // how many members have the flag set
    std::uint32_t round = 0;                // number of the open fence
    std::string values;                     // encoded, of the open round
    std::string failure;                    // empty = none
    int culprit = -1;                       // the rank that left, if that was the failure
    bool told = false;                      // members are told when they come to a fence
    std::vector<departure> departed;        // not yet reported to any member
    std::vector<int> took_leave;            // ranks that announced it; sent with the next outputs
  };
  // One connection, member or stranger.
  struct peer {
    splitter in;
    int rank = -1;      // -1 = has not said hello
    unsigned life = 0;  // number of its session
    bool took_leave = false;
  };

  // These return false when the connection was refused; `p` no longer exists then.
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
  std::map<int, std::string> ended_;      // by rank: how its process ended
  std::map<unsigned, session> sessions_;  // by number, erased when all members have left
  std::vector<output> outputs_;
};

}  // namespace lci::boot::kv
