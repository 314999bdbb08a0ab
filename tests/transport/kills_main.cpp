// Either side is killed at each step of a transfer, the one that has called or the one that
// listens: the other side's operations end with a typed error, and nothing is left behind, however
// often that happens.
//
//   transport_kills [rounds]      each round kills a process at every step, on either side
//   transport_kills STEP URL BUFFER       the process that is killed; with the URL "-" it listens
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "lci/errors.hpp"
#include "lci/transport.hpp"
#include "tests/transport/usual_options.hpp"

extern char** environ;

namespace {

constexpr std::size_t SIZE = 12 << 20;  // three pieces over TCP
const char* const STEPS[] = {"connecting",       "connected",          "a write is posted",
                             "a write is done",  "a key is asked for", "a read is under way",
                             "being written to", "being read",         "all is done"};
constexpr int STEP_COUNT = sizeof STEPS / sizeof STEPS[0];

using transport_test::usual;
using clock = std::chrono::steady_clock;

// Descriptors that the victim has: of the first the other end hears when it dies, by the clock of
// the machine, of the second the URL of one that listens.
constexpr int DEATHS = 3, URLS = 4;

void die_at(int step, int now) {
  if (step != now) return;
  const clock::rep when = clock::now().time_since_epoch().count();
  if (::write(DEATHS, &when, sizeof when) != sizeof when) ::_exit(1);
  ::kill(::getpid(), SIGKILL);
}

// Calls the one that survives, or listens and is called.
void meet(lci::transport& one, int step, const char* url) {
  if (std::strcmp(url, "-") != 0) {
    one.connect(url);
    one.process();
  } else {
    const std::string line = one.bind() + "\n";
    if (::write(URLS, line.data(), line.size()) != static_cast<ssize_t>(line.size())) ::_exit(1);
    ::close(URLS);
    while (!one.process()) usleep(50);  // until somebody calls
  }
  die_at(step, 0);
  one.wait_connected();
}

// Writes the name of its own memory into the mailbox of the one that survives, which then writes
// and reads there.
int victim(int step, const char* url, const char* text) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // one that listens would wait for others for ever
  std::vector<char> bytes(SIZE, 'v');
  lci::memory memory(bytes.data(), SIZE);
  const lci::remote_buffer there = lci::remote_buffer::parse(text);
  lci::transport one(usual());
  meet(one, step, url);
  die_at(step, 1);
  const std::string name = memory.remote().to_string();
  std::memcpy(bytes.data(), name.c_str(), name.size() + 1);
  const lci::transfer mailbox = one.write(memory.view(0, 1024), there.slice(0, 1024), true, 1);
  die_at(step, 2);
  mailbox.get();
  die_at(step, 3);
  const lci::transfer large = one.write(memory.view(), there);
  one.process();
  die_at(step, 4);
  const lci::transfer back = one.read(memory.view(), there);
  one.process();
  die_at(step, 5);
  one.wait_for_write();
  die_at(step, 6);
  one.process();
  die_at(step, 7);
  large.get();
  back.get();
  for (int i = 0; i < 100; ++i) one.process();
  die_at(step, 8);
  return 1;
}

// Where victims say when they die: read, write.
int deaths[2];

// urls: where one that listens says its URL; -1: it does not.
pid_t start(const char* self, int step, const std::string& url, const std::string& text, int urls) {
  const std::string number = std::to_string(step);
  const char* const args[] = {self, number.c_str(), url.c_str(), text.c_str(), nullptr};
  pid_t child = -1;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  // Above both numbers first: else the first copy may cover what the second one copies.
  constexpr int SPARE = 100;
  if (urls >= 0) posix_spawn_file_actions_adddup2(&actions, urls, SPARE);
  posix_spawn_file_actions_adddup2(&actions, deaths[1], DEATHS);
  if (urls >= 0) {
    posix_spawn_file_actions_adddup2(&actions, SPARE, URLS);
    posix_spawn_file_actions_addclose(&actions, SPARE);
  }
  if (posix_spawn(&child, "/proc/self/exe", &actions, nullptr, const_cast<char**>(args), environ) !=
      0)
    std::abort();
  posix_spawn_file_actions_destroy(&actions);
  return child;
}

// Starts one that listens, and hears where.
pid_t start_listener(const char* self, int step, const std::string& text, std::string& url) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) std::abort();
  const pid_t child = start(self, step, "-", text, ends[1]);
  ::close(ends[1]);
  for (char c = 0; ::read(ends[0], &c, 1) == 1 && c != '\n';) url += c;
  ::close(ends[0]);
  return child;
}

enum class side { caller, listener };
constexpr const char* SIDES[] = {"the caller", "the listener"};

// From the death to the moment when the survivor knew and every transfer had ended, by the side of
// the victim and its step.
std::vector<double> times_ms[2][STEP_COUNT];

void note_time(side of, int step, clock::time_point known) {
  clock::rep when = 0;
  if (::read(deaths[0], &when, sizeof when) != sizeof when) return;
  const clock::duration took = known.time_since_epoch() - clock::duration(when);
  times_ms[static_cast<int>(of)][step].push_back(
      std::chrono::duration<double, std::milli>(took).count());
}

void print_times() {
  std::printf("milliseconds from a death to the last typed error: median, 99 of 100, most\n");
  for (int of = 0; of < 2; ++of) {
    for (int step = 0; step < STEP_COUNT; ++step) {
      std::vector<double>& all = times_ms[of][step];
      if (all.empty()) continue;
      std::sort(all.begin(), all.end());
      std::printf("  %-12s %-22s %8.2f %8.2f %8.2f\n", SIDES[of], STEPS[step], all[all.size() / 2],
                  all[all.size() * 99 / 100], all.back());
    }
  }
}

int count_of(const char* folder) {
  int n = 0;
  for ([[maybe_unused]] const auto& one : std::filesystem::directory_iterator(folder)) ++n;
  return n;
}
// Of files and shared memory; what has no name is of malloc, or of a sanitizer. A library may be
// loaded at any time, and stays.
int mappings_now() {
  std::ifstream in("/proc/self/maps");
  int n = 0;
  for (std::string line; std::getline(in, line);) {
    const bool is_library = line.ends_with(".so") || line.find(".so.") != std::string::npos;
    n += line.find('/') != std::string::npos && !is_library;
  }
  return n;
}

// Empty, or what is wrong.
std::string outcome_of(const lci::transfer& one) {
  try {
    one.get();
  } catch (const lci::peer_failure_error&) {
  } catch (const std::exception& e) {
    return std::string("not a typed error of a peer: ") + e.what();
  }
  return one.is_in_use() ? "its buffer is still in use" : "";
}

// Of one that has called: a listener waits for others.
std::string outcome_of_waits(lci::transport& one) {
  constexpr double HANG_S = 120;
  try {
    while (one.wait_for_write(HANG_S, nullptr)) {
    }
  } catch (const lci::peer_failure_error&) {
    return "";
  }
  return "wait_for_write() does not say that the peer is lost";
}

// Whether the victim has said where its memory is.
bool has_mail(lci::transport& one) {
  lci::notification note;
  try {
    return one.wait_for_write(0, &note) && note.tag == 1;
  } catch (const lci::peer_failure_error&) {  // the one that it has called is lost
    return false;
  }
}

// Makes progress until the victim is dead and known to be, and every transfer has ended.
std::string survive(pid_t child, lci::transport& one, side of, int step, std::vector<char>& bytes,
                    lci::memory& memory, bool& was_killed) {
  std::vector<lci::transfer> all;
  bool is_dead = false, was_there = false;
  clock::time_point known{};  // since when nothing is left to hear
  const auto limit = clock::now() + std::chrono::minutes(2);
  for (int quiet = 0; clock::now() < limit;) {
    if (has_mail(one)) {
      const auto there = lci::remote_buffer::parse(bytes.data());
      // It may be dead by now: then a post says so.
      try {
        for (int i = 0; i < 8 && !one.peers().empty(); ++i) {
          lci::transport::peer victim = one.peers().front();
          all.push_back(victim.write(memory.view(), there, true, 2));
          all.push_back(victim.read(memory.view(), there));
        }
      } catch (const lci::peer_failure_error&) {
      }
    }
    const bool did = one.process();
    was_there = was_there || !one.peers().empty();
    int status = 0;
    if (!is_dead && waitpid(child, &status, WNOHANG) == child) {
      is_dead = true;
      was_killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    }
    bool are_done = true;
    for (const lci::transfer& each : all) are_done = are_done && each.is_done();
    const bool is_known = are_done && was_there && one.peers().empty();
    if (!is_known)
      known = {};
    else if (known == clock::time_point{})
      known = clock::now();
    if (is_dead && are_done && one.peers().empty() && !did && (was_there || quiet > 10)) break;
    quiet = did ? 0 : quiet + 1;
    if (!did) usleep(is_dead ? 500 : 50);
  }
  if (was_killed) note_time(of, step, was_there ? known : clock::now());
  while (one.accept().is_valid()) {
  }
  if (!one.peers().empty()) return "the death was not noticed";
  for (const lci::transfer& each : all)
    if (!each.is_done()) return "a transfer has not ended";
  for (const lci::transfer& each : all)
    if (std::string wrong = outcome_of(each); !wrong.empty()) return wrong;
  return of == side::listener ? outcome_of_waits(one) : "";
}

// One kill after the other, of both sides.
class kills {
 public:
  explicit kills(const char* self) : self_(self), url_(listener_.bind()) {}
  void kill(side of, int step) {
    const std::string text = memory_.remote().to_string();
    bool was_killed = false;
    std::string problem;
    if (of == side::caller) {
      const pid_t child = start(self_, step, url_, text, -1);
      problem = survive(child, listener_, of, step, bytes_, memory_, was_killed);
    } else {
      lci::transport caller(usual());
      std::string url;
      const pid_t child = start_listener(self_, step, text, url);
      caller.connect(url);
      problem = survive(child, caller, of, step, bytes_, memory_, was_killed);
    }
    if (problem.empty() && was_killed) return;
    if (problem.empty()) problem = "it has ended by itself";
    std::printf("%s killed when %s: %s\n", SIDES[static_cast<int>(of)], STEPS[step],
                problem.c_str());
    ++wrong_;
  }
  int wrong() const { return wrong_; }

 private:
  const char* const self_;
  std::vector<char> bytes_ = std::vector<char>(SIZE);
  lci::memory memory_{bytes_.data(), SIZE};
  lci::transport listener_{usual()};
  const std::string url_;
  int wrong_ = 0;
};

}  // namespace

int main(int argc, char** argv) try {
  if (argc == 4) return victim(std::atoi(argv[1]), argv[2], argv[3]);
  std::string why_not;
  if (!lci::transport::supported(&why_not)) {
    std::printf("skipped: %s\n", why_not.c_str());
    return 77;
  }
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 3;
  if (::pipe2(deaths, O_CLOEXEC) != 0) std::abort();
  kills all(argv[0]);
  int descriptors = 0, mappings = 0;
  for (int round = 0; round <= rounds; ++round) {
    for (const side of : {side::caller, side::listener})
      for (int step = 0; step < STEP_COUNT; ++step) all.kill(of, step);
    // The first round opens what is kept.
    if (round != 0) continue;
    descriptors = count_of("/proc/self/fd");
    mappings = mappings_now();
  }
  const int more = count_of("/proc/self/fd") - descriptors;
  const int more_mappings = mappings_now() - mappings;
  std::printf(
      "%d kills, %d wrong, %d descriptors and %d mappings more than after the first round\n",
      2 * (rounds + 1) * STEP_COUNT, all.wrong(), more, more_mappings);
  print_times();
  return all.wrong() == 0 && more == 0 && more_mappings == 0 ? 0 : 1;
} catch (const std::exception& e) {
  std::printf("transport_kills: %s\n", e.what());
  return 1;
}
