// Checks a stream of messages from many threads: lost, repeated, reordered or damaged ones are
// reported, each by name.
//
// The stress parts of the suite stamp messages with it and give it what arrives. Threads: stamp()
// any thread with its own `thread` number; check() any thread, for messages of one stream one after
// the other. Always true: report() is empty only if every message of every thread arrived once and
// as sent (and in order where that was asked).
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace lci::test {

class stream_verifier {
 public:
  // What travels; the check sum covers the rest.
  struct stamp_t {
    std::uint32_t origin;  // rank of the sender
    std::uint32_t thread;
    std::uint32_t number;  // from 0, per origin and thread
    std::uint32_t sum;
  };

  explicit stream_verifier(bool in_order) : in_order_(in_order) {}

  static stamp_t stamp(std::uint32_t origin, std::uint32_t thread, std::uint32_t number) {
    return {origin, thread, number, check_sum(origin, thread, number)};
  }

  void check(const std::byte* data, std::size_t size) {
    std::lock_guard lock(mutex_);
    stamp_t s{};
    if (size < sizeof s) return count("short", "a message of " + std::to_string(size) + " bytes");
    std::memcpy(&s, data, sizeof s);
    const std::string who = "rank " + std::to_string(s.origin) + " thread " +
                            std::to_string(s.thread) + " number " + std::to_string(s.number);
    if (s.sum != check_sum(s.origin, s.thread, s.number)) return count("damaged", who);
    stream& from = streams_[{s.origin, s.thread}];
    if (from.seen.size() <= s.number) from.seen.resize(s.number + 1);
    if (from.seen[s.number]) return count("repeated", who);
    from.seen[s.number] = true;
    ++from.arrived;
    if (in_order_ && s.number < from.next) count("out of order", who);
    if (s.number >= from.next) from.next = s.number + 1;
  }

  // How many good ones there are so far, for waiting.
  std::uint64_t good() const {
    std::lock_guard lock(mutex_);
    std::uint64_t sum = 0;
    for (const auto& entry : streams_) sum += entry.second.arrived;
    return sum;
  }

  // One line per kind of fault, with the first case of it. `per_thread`: messages that each
  // (origin, thread) sent.
  std::vector<std::string> report(std::uint32_t origins, std::uint32_t threads,
                                  std::uint32_t per_thread) const {
    std::lock_guard lock(mutex_);
    std::vector<std::string> lines;
    for (const auto& [kind, f] : faults_) {
      lines.push_back(kind + ": " + std::to_string(f.count) + ", first: " + f.first);
    }
    std::uint64_t lost = 0;
    std::string first;
    for (std::uint32_t o = 0; o < origins; ++o) {
      for (std::uint32_t t = 0; t < threads; ++t) {
        const auto at = streams_.find({o, t});
        const std::uint64_t arrived = at == streams_.end() ? 0 : at->second.arrived;
        lost += per_thread - arrived;
        if (arrived != per_thread && first.empty()) {
          first = "rank " + std::to_string(o) + " thread " + std::to_string(t);
        }
      }
    }
    if (lost != 0) lines.push_back("lost: " + std::to_string(lost) + ", first: " + first);
    return lines;
  }

 private:
  struct stream {
    std::vector<bool> seen;
    std::uint64_t arrived = 0;
    std::uint32_t next = 0;
  };
  struct fault {
    std::uint64_t count = 0;
    std::string first;
  };

  static std::uint32_t check_sum(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
    std::uint32_t h = 2166136261u;
    for (std::uint32_t word : {a, b, c}) h = (h ^ word) * 16777619u + (h >> 15);
    return h;
  }
  void count(const std::string& kind, const std::string& first) {
    fault& f = faults_[kind];
    if (f.count++ == 0) f.first = first;
  }

  const bool in_order_;
  mutable std::mutex mutex_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, stream> streams_;
  std::map<std::string, fault> faults_;
};

}  // namespace lci::test
