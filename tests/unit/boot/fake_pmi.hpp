// A process manager for tests: speaks PMI-1 and PMI-2 to its ranks over socket pairs, in a thread
// of its own, and can be made to refuse, to cut its answers short, and to lie. Threads: the spoiler
// runs in the manager's thread. Always true: it ends when all ranks have hung up.
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lci/boot/pmi_wire.hpp"

namespace lci::boot {

class fake_pmi {
 public:
  // What is sent instead of an answer to a command ("get", "kvs-put"); empty = the manager hangs
  // up.
  using spoiler = std::function<std::string(const std::string& command, std::string answer)>;

  fake_pmi(int size, bool speaks_1, bool speaks_2, spoiler spoil = {})
      : speaks_{speaks_1, speaks_2}, spoil_(std::move(spoil)) {
    for (int r = 0; r < size; ++r) {
      int ends[2];
      if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
      ranks_.push_back(rank{ends[0], ends[1], {}, 1, false});
    }
    thread_ = std::thread([this] { serve(); });
  }
  ~fake_pmi() {
    for (rank& r : ranks_) {
      if (r.theirs >= 0) ::close(r.theirs);
    }
    if (thread_.joinable()) thread_.join();
  }
  // Returns when all ranks have hung up.
  void wait() { thread_.join(); }
  // The rank's end, which is the caller's from now on.
  int take(int r) { return std::exchange(ranks_[static_cast<std::size_t>(r)].theirs, -1); }
  int finalized() const { return finalized_; }
  // Answers to "finalize" that were cut short, because the rank had closed its end.
  int cut() const { return cut_; }
  // From now on it answers a byte at a time.
  void answer_slowly() { slow_ = true; }

 private:
  struct rank {
    int ours, theirs;
    std::string in;
    int version;  // of what it says
    bool waits;   // in a barrier
  };

  void serve() {
    for (;;) {
      std::vector<pollfd> set;
      for (const rank& r : ranks_) {
        if (r.ours >= 0) set.push_back(pollfd{r.ours, POLLIN, 0});
      }
      if (set.empty()) return;
      ::poll(set.data(), set.size(), -1);
      for (std::size_t i = 0; i < ranks_.size(); ++i) read_from(ranks_[i], static_cast<int>(i));
    }
  }
  void hang_up(rank& r) {
    if (r.ours >= 0) ::close(r.ours);
    r.ours = -1;
  }
  void read_from(rank& r, int number) {
    char bytes[4096];
    if (r.ours < 0) return;
    const ssize_t n = ::recv(r.ours, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n < 0) return;
    if (n == 0) return hang_up(r);
    r.in.append(bytes, static_cast<std::size_t>(n));
    for (;;) {
      std::string text;
      if (r.ours < 0 || !take_command(r, text)) return;
      const auto command = r.version == 1 ? pmi::parse_line(text) : pmi::parse_message(text);
      if (!command) return hang_up(r);
      handle(r, number, *command);
    }
  }
  static bool take_command(rank& r, std::string& text) {
    if (r.version == 1) {
      const std::size_t end = r.in.find('\n');
      if (end == std::string::npos) return false;
      text = r.in.substr(0, end);
      r.in.erase(0, end + 1);
      return true;
    }
    const auto length = r.in.size() < 6 ? std::nullopt : pmi::parse_length(r.in.substr(0, 6));
    if (!length || r.in.size() < 6 + *length) return false;
    text = r.in.substr(6, *length);
    r.in.erase(0, 6 + *length);
    return true;
  }
  void handle(rank& r, int number, const pmi::fields& command) {
    const std::string word(command.find("cmd").value_or("?"));
    const auto value = [&](const char* name) {
      return std::string(command.find(name).value_or(""));
    };
    if (word == "init") return greet(r, value("pmi_version"));
    if (word == "barrier_in" || word == "kvs-fence") return arrive(r);
    if (word == "finalize") ++finalized_;
    pmi::fields answer;
    answer.add("cmd", word == "finalize" && r.version == 1 ? "finalize_ack" : answer_to(word));
    if (word == "get_maxes") answer.add("kvsname_max", "256");
    if (word == "get_maxes") answer.add("vallen_max", "1024");
    if (word == "get_my_kvsname") answer.add("kvsname", "kvs_fake");
    if (word == "job-getid") answer.add("jobid", "fake.job");
    if (word == "fullinit") {
      answer.add("rank", std::to_string(number));
      answer.add("size", std::to_string(ranks_.size()));
    }
    bool good = true;
    if (word == "put" || word == "kvs-put") values_[value("key")] = value("value");
    if (word == "get" || word == "kvs-get") {
      const auto found = values_.find(value("key"));
      good = found != values_.end();
      if (word == "kvs-get") answer.add("flag", good ? "TRUE" : "FALSE");
      if (good) answer.add("value", found->second);
    }
    answer.add("rc", good ? "0" : "-1");
    if (!good) answer.add("msg", "no such key");
    send(r, word, answer);
  }
  static std::string answer_to(const std::string& word) {
    if (word == "get_maxes") return "maxes";
    if (word == "get_my_kvsname") return "my_kvsname";
    if (word == "put" || word == "get") return word + "_result";
    if (word == "barrier_in") return "barrier_out";
    return word + "-response";
  }
  void greet(rank& r, const std::string& wanted) {
    const int version = wanted == "2" ? 2 : 1;
    const bool good = speaks_[version - 1];
    pmi::fields answer;
    answer.add("cmd", "response_to_init");
    answer.add("pmi_version", good ? wanted : std::to_string(3 - version));
    answer.add("rc", good ? "0" : "-1");
    send(r, "init", answer);  // a line in any case
    if (good) r.version = version;
  }
  void arrive(rank& r) {
    r.waits = true;
    for (const rank& other : ranks_) {
      if (!other.waits) return;
    }
    for (rank& other : ranks_) {
      other.waits = false;
      pmi::fields answer;
      const std::string word = other.version == 1 ? "barrier_in" : "kvs-fence";
      answer.add("cmd", answer_to(word));
      answer.add("rc", "0");
      send(other, word, answer);
    }
  }
  void send(rank& r, const std::string& word, const pmi::fields& answer) {
    std::string bytes = r.version == 1 ? pmi::to_line(answer) : pmi::to_message(answer);
    if (spoil_) bytes = spoil_(word, std::move(bytes));
    if (bytes.empty()) return hang_up(r);
    const std::size_t piece = slow_ ? 1 : bytes.size();
    for (std::size_t at = 0; at < bytes.size() && r.ours >= 0; at += piece) {
      if (at > 0) ::usleep(500);
      if (::send(r.ours, bytes.data() + at, piece, MSG_NOSIGNAL) >= 0) continue;
      if (word == "finalize") ++cut_;
      hang_up(r);
    }
  }

  const bool speaks_[2];
  const spoiler spoil_;
  std::vector<rank> ranks_;
  std::map<std::string, std::string> values_;
  std::atomic<int> finalized_{0}, cut_{0};
  std::atomic<bool> slow_{false};
  std::thread thread_;
};

}  // namespace lci::boot
