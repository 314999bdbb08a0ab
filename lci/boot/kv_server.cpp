#include "lci/boot/kv_server.hpp"

#include <utility>

#include "lci/base/log.hpp"

namespace lci::boot::kv {

namespace {

std::shared_ptr<const std::string> fail_frame(const std::string& why) {
  std::string bytes;
  encode_fail(bytes, why);
  return std::make_shared<const std::string>(std::move(bytes));
}

}  // namespace

server::server(int size, bool hold_news)
    : size_(size),
      hold_news_(hold_news),
      lives_(static_cast<std::size_t>(size), 0),
      departed_(lives_.size()) {}

void server::opened(connection c) { peers_.emplace(c, peer{}); }

void server::received(connection c, std::string_view bytes) {
  const auto found = peers_.find(c);
  if (found == peers_.end()) return;
  peer& p = found->second;
  p.in.feed(bytes);
  while (const auto f = p.in.next()) {
    if (!handle(c, p, *f)) return;
  }
  if (p.in.is_broken()) refuse(c, "this is not the protocol of lci's bootstrap");
}

// A peer that hangs up, or is refused, is forgotten here; its session remembers it.
void server::closed(connection c) {
  const auto found = peers_.find(c);
  if (found == peers_.end()) return;
  const peer p = std::move(found->second);
  peers_.erase(found);
  if (p.rank < 0) return;
  session& s = session_of(p);
  departed_[static_cast<std::size_t>(p.rank)] = !p.took_leave;
  s.members[static_cast<std::size_t>(p.rank)].left = true;
  s.members[static_cast<std::size_t>(p.rank)].link = -1;
  // Once all members have left, none can ask for its values any more.
  if (++s.left == size_) {
    sessions_.erase(p.life);
    return;
  }
  const std::string who = "rank " + std::to_string(p.rank);
  fail(s, who + " left the job before fence " + std::to_string(s.round) + " was complete", p.rank);
  if (p.took_leave) return s.took_leave.push_back(p.rank);
  s.departed.push_back({p.rank, who + " ended without leaving the job"});
  if (!hold_news_) tell_departures(s);
}

// At the end of a job all ranks leave at once: those that left since the last call share a frame.
std::vector<server::output> server::take_outputs() {
  for (auto& [number, s] : sessions_) tell_leaves(s);
  return std::exchange(outputs_, {});
}

bool server::is_member(connection c) const {
  const auto found = peers_.find(c);
  return found != peers_.end() && found->second.rank >= 0;
}

bool server::all_joined() const {
  return !sessions_.empty() && sessions_.rbegin()->second.joined == size_;
}

std::vector<int> server::missing() const {
  std::vector<int> ranks;
  for (int r = 0; r < size_; ++r) {
    if (sessions_.empty() ||
        !sessions_.rbegin()->second.members[static_cast<std::size_t>(r)].joined)
      ranks.push_back(r);
  }
  return ranks;
}

void server::rank_ended(int rank, const std::string& why) {
  ended_.emplace(rank, why);
  for (auto& [number, s] : sessions_) {
    if (s.culprit == rank && !s.told) s.failure = why;  // better than "left"
    for (departure& d : s.departed)
      if (d.rank == rank) d.why = why;
    fail_without_ended(s);
  }
  tell_failures();
}

bool server::has_news() const {
  for (const auto& [number, s] : sessions_) {
    if ((!s.failure.empty() && !s.told) || !s.departed.empty()) return true;
  }
  return false;
}

void server::tell_failures() {
  for (auto& [number, s] : sessions_) {
    if (!s.failure.empty() && !s.told) tell(s);
    tell_departures(s);
  }
}

bool server::has_departed(int rank) const { return departed_[static_cast<std::size_t>(rank)]; }

void server::take_leave() {
  std::string bytes;
  encode_leave(bytes);
  const auto shared = std::make_shared<const std::string>(std::move(bytes));
  for (const auto& [c, p] : peers_)
    if (p.rank >= 0) send(c, shared);
}

void server::fail_all(const std::string& why) {
  for (auto& [number, s] : sessions_) {
    if (s.failure.empty()) s.failure = why;
    s.told = true;
    const auto bytes = fail_frame(s.failure);
    for (const participant& m : s.members) {
      if (m.link >= 0) send(m.link, bytes, true);
    }
  }
}

bool server::handle(connection c, peer& p, const frame& f) {
  if (f.type == frame_type::hello && p.rank < 0) {
    if (const auto hello = decode_hello(f.body)) return join(c, p, *hello);
  } else if (p.rank >= 0 && f.type == frame_type::put) {
    if (const auto put = decode_put(f.body)) {
      // Encoded once, on arrival, in the form that is sent to all members.
      session& s = session_of(p);
      encode_value(s.values, p.rank, put->key, put->value);
      if (s.values.size() > MAX_ROUND_BYTES) {
        s.values.clear();
        fail(s, "the values of one fence exceed " + std::to_string(MAX_ROUND_BYTES) + " bytes");
      }
      return true;
    }
  } else if (p.rank >= 0 && f.type == frame_type::arrive) {
    if (const auto round = decode_round(f.body)) return arrive(c, p, *round);
  } else if (p.rank >= 0 && f.type == frame_type::leave) {
    p.took_leave = session_of(p).members[static_cast<std::size_t>(p.rank)].took_leave = true;
    return true;
  }
  refuse(c, "a frame of type " + std::to_string(static_cast<int>(f.type)) +
                " does not parse or does not belong here");
  return false;
}

bool server::join(connection c, peer& p, const hello_body& hello) {
  const std::string who = "rank " + std::to_string(hello.rank);
  if (hello.size != size_) {
    refuse(c, who + " was started for " + std::to_string(hello.size) + " ranks, this job has " +
                  std::to_string(size_));
    return false;
  }
  // Its former membership does not count: the owner reports a hang-up before it reports the
  // connection that follows.
  for (const auto& [other, q] : peers_) {
    if (q.rank != hello.rank) continue;
    refuse(c, who + " has already joined; two processes were given this rank");
    return false;
  }
  p.rank = hello.rank;
  departed_[static_cast<std::size_t>(p.rank)] = false;
  p.life = lives_[static_cast<std::size_t>(p.rank)]++;
  session& s = session_of(p);
  participant& m = s.members[static_cast<std::size_t>(p.rank)];
  m.link = c;
  m.joined = true;
  ++s.joined;
  fail_without_ended(s);
  if (!s.failure.empty()) {
    if (s.told) send(c, fail_frame(s.failure));
    return true;
  }
  if (s.joined < size_) return true;
  for (int r = 0; r < size_; ++r) {
    std::string bytes;
    encode_welcome(bytes, r, size_);
    send(s.members[static_cast<std::size_t>(r)].link,
         std::make_shared<const std::string>(std::move(bytes)));
  }
  return true;
}

// A rank that arrives in a session that has failed waits like the others for the reason, or gets it
// at once.
bool server::arrive(connection c, peer& p, std::uint32_t round) {
  session& s = session_of(p);
  participant& m = s.members[static_cast<std::size_t>(p.rank)];
  if (!s.failure.empty()) {
    m.arrived = true;
    if (s.told) send(c, fail_frame(s.failure));
    return true;
  }
  if (m.arrived || round != s.round) {
    refuse(c, "fence " + std::to_string(round) + " out of turn");
    return false;
  }
  m.arrived = true;
  if (++s.arrived == size_) release(s);
  return true;
}

// One buffer for all members: with n ranks the answer is n times as long as what one of them put,
// and n copies of it would be n squared.
void server::release(session& s) {
  encode_released(s.values, s.round);
  const auto bytes = std::make_shared<const std::string>(std::exchange(s.values, {}));
  ++s.round;
  s.arrived = 0;
  for (participant& m : s.members) {
    m.arrived = false;
    send(m.link, bytes);
  }
}

void server::fail(session& s, const std::string& why, int culprit) {
  if (!s.failure.empty()) return;
  s.failure = why;
  s.culprit = culprit;
  if (!hold_news_) tell(s);
}

// Members that wait are told now, the others when they come to a fence, which some never do: a
// program may end without one.
void server::tell(session& s) {
  s.told = true;
  const auto bytes = fail_frame(s.failure);
  for (const participant& m : s.members) {
    if (m.link >= 0 && (m.arrived || s.joined < size_)) send(m.link, bytes);
  }
}

// All other members are told, whether they wait or not.
void server::tell_departures(session& s) {
  for (const departure& d : std::exchange(s.departed, {})) {
    std::string bytes;
    encode_ended(bytes, d.rank, d.why);
    const auto shared = std::make_shared<const std::string>(std::move(bytes));
    for (const participant& m : s.members)
      if (m.link >= 0) send(m.link, shared);
  }
}

void server::tell_leaves(session& s) {
  if (s.took_leave.empty()) return;
  std::string bytes;
  encode_left(bytes, std::exchange(s.took_leave, {}));
  const auto shared = std::make_shared<const std::string>(std::move(bytes));
  // One that leaves as well looks no more: of n that leave at once, none is told of the others.
  for (const participant& m : s.members)
    if (m.link >= 0 && !m.took_leave) send(m.link, shared);
}

// A rank whose process ended without having joined never will join.
void server::fail_without_ended(session& s) {
  for (const auto& [rank, why] : ended_) {
    if (!s.members[static_cast<std::size_t>(rank)].joined) fail(s, why);
  }
}

void server::send(connection c, std::shared_ptr<const std::string> bytes, bool then_close) {
  outputs_.push_back(output{c, std::move(bytes), then_close});
}

// A stranger is told why and forgotten; a member that sends malformed bytes leaves its session in
// the same way.
void server::refuse(connection c, const std::string& why) {
  // Logged often enough to be noticed; a flood of strangers shall not become a flood of lines.
  if (refused_ < MOST_WARNINGS) log::warn("boot", "connection refused: %s", why.c_str());
  if (++refused_ == MOST_WARNINGS) log::warn("boot", "further refusals will not be shown");
  send(c, fail_frame(why), true);
  closed(c);
}

// The session to which the member's present connection belongs; its first member makes it.
server::session& server::session_of(const peer& p) {
  session& s = sessions_[p.life];
  s.members.resize(static_cast<std::size_t>(size_));
  return s;
}

}  // namespace lci::boot::kv
