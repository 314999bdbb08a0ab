// What a rank reports about itself when its launcher asks what it waits for: plain records in one
// buffer, and the datagrams that carry them. Read by tools/lcrun of the same build.
// Threads: one thread fills a report, in a signal handler: nothing here allocates memory, takes a
// lock or throws. Always true: records for which there was no room are counted.
#pragma once

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <type_traits>

#include "lci/base/platform.hpp"

namespace lci::base::report {

// The name of the abstract datagram socket to which answers go; lcrun sets it.
inline constexpr const char* SOCKET_VARIABLE = "LCI_LCRUN_REPORT";
// The signal, queued with the number of the question. Its default action is to be ignored, so a
// process that gets it by mistake does not die.
inline constexpr int QUESTION = SIGURG;

// New ones come last: the numbers of the others stay.
enum class kind : std::uint8_t {
  call,        // name; thread, object; rank, tag, size of what it waits for, how: last refusal
  collective,  // name, number; engine; object: signalled at its end; other: its transfers' object
  receive,     // not matched yet: engine, rank, tag, size, how: policy, object
  message,     // not matched yet: the same; flag RENDEZVOUS: its sender waits
  send,        // large, under way: rank, tag, size, how: 0 asked, 1 being written; object
  incoming,    // large, being received: rank, tag, size, object
  atomic,      // asked of a peer, by a kernel: rank, size: of the word
  backlog,     // number: operations that wait for room in the network; rank
  refusals,    // how: errorcode_t; number: posts that it answered; rank of the last
  progress,    // number: rounds of a device; age_ms since the last look, -1 unknown
  device,      // number: operations open; size: receives open
  packets,     // number: packets in use; size: packets in all
  engine,      // number: collectives begun on this engine
  busy,        // name: could not be looked at now
  turn         // number: large active messages that wait for their turn here; rank of the sender;
               // size: bytes of all of them
};

// What a message's sender does, and how far this rank is with the peer that a record names. None of
// the last three: it has ended, or the record names no peer.
inline constexpr std::uint16_t RENDEZVOUS = 1, NOT_CONNECTED = 2, CONNECTING = 4, CONNECTED = 8;
// Of a send: an active message or a put, which the peer grants without a receive.
inline constexpr std::uint16_t NO_RECEIVE = 16;

struct record {
  kind what;
  std::uint8_t how;
  std::uint16_t flags;
  std::uint32_t engine;  // the first number of its name
  std::int32_t rank;
  std::int32_t thread;  // as the system numbers it
  std::uint64_t tag;
  std::uint64_t size;    // bytes
  std::uint64_t object;  // address of the completion object; serves as a name for it
  std::uint64_t other;
  std::uint64_t number;
  std::int64_t age_ms;  // -1: unknown
  char name[24];        // ends with a zero
};
static_assert(std::is_trivially_copyable_v<record> && sizeof(record) == 88);

struct header {
  static constexpr std::uint32_t MAGIC = 0x4c434952, VERSION = 2;
  std::uint32_t magic, version;
  std::int32_t rank, ranks;  // -1: not known yet
  std::int32_t pid;
  std::int32_t question;
  std::uint16_t part, is_last;
  std::uint32_t records;   // how many follow
  std::uint64_t left_out;  // records without room, in the whole answer
};
static_assert(std::is_trivially_copyable_v<header>);

// Both clocks at one moment. Two moments give the rate of the cheap one.
struct moment {
  std::uint64_t ticks = 0;
  std::int64_t ms = 0;

  static std::int64_t now_ms() noexcept {
    timespec t{};
    ::clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1'000'000;
  }
  static moment now() noexcept { return {cpu_ticks(), now_ms()}; }
};

class sheet {
 public:
  static constexpr std::size_t ROOM = 1024;

  // Null when there is no room left.
  record* add(kind what) noexcept {
    if (count_ == ROOM) {
      ++left_out_;
      return nullptr;
    }
    record& r = records_[count_++];
    r = record{};
    r.what = what;
    r.age_ms = -1;
    return &r;
  }
  record* add(kind what, const char* name) noexcept {
    record* const r = add(what);
    if (r != nullptr) set_name(*r, name);
    return r;
  }
  static void set_name(record& r, const char* name) noexcept {
    for (std::size_t i = 0; i + 1 < sizeof r.name && name[i] != 0; ++i) r.name[i] = name[i];
  }
  // Empties it. `start`: some earlier moment of this process.
  void begin_at(const moment& start) noexcept {
    count_ = left_out_ = 0;
    start_ = start;
    now_ = moment::now();
  }
  std::int64_t now_ms() const noexcept { return now_.ms; }
  // Milliseconds since the moment `ticks`; -1: not known.
  std::int64_t age_of(std::uint64_t ticks) const noexcept {
    if (ticks == 0) return -1;
    const auto passed = static_cast<double>(now_.ticks - start_.ticks);
    if (ticks >= now_.ticks || passed <= 0) return 0;
    return static_cast<std::int64_t>(static_cast<double>(now_.ticks - ticks) / passed *
                                     static_cast<double>(now_.ms - start_.ms));
  }
  record* begin() noexcept { return records_; }
  record* end() noexcept { return records_ + count_; }
  const record* begin() const noexcept { return records_; }
  const record* end() const noexcept { return records_ + count_; }
  std::size_t count() const noexcept { return count_; }
  std::uint64_t left_out() const noexcept { return left_out_; }

 private:
  moment start_, now_;
  std::size_t count_ = 0;
  std::uint64_t left_out_ = 0;
  record records_[ROOM] = {};
};

}  // namespace lci::base::report
