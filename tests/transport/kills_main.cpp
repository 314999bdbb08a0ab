// Either side is killed at each step of a transfer, the one that has called or the one that
// listens: the other side's operations end with a typed error, and nothing is left behind, however
// often that happens.
//
//   transport_kills [rounds] [gpu] [leak] [busy]      each round kills a process at every step, on
//                                                     either side
//   transport_kills STEP URL MAILBOX BYTES DEVICE       the process that is killed; with the URL
//                                                       "-" it listens
//
// With "gpu" what is written and read lies in GPU memory, the victim's in turn on each of two GPUs
// if there are two; status 77 where there is none. With "leak" something is kept of each kill: the
// test must notice. With "busy" the mock's GPU copies nothing while a victim dies.
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
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "lci/buffer.hpp"
#include "lci/errors.hpp"
#include "lci/transport.hpp"
#include "tests/transport/kills_memory.hpp"
#include "tests/transport/usual_options.hpp"

extern char** environ;

namespace {

constexpr std::size_t SIZE = 12 << 20;  // three pieces over TCP
constexpr std::size_t MAIL_SIZE = 1024;
const char* const STEPS[] = {"connecting",       "connected",          "a write is posted",
                             "a write is done",  "a key is asked for", "a read is under way",
                             "being written to", "being read",         "all is done"};
constexpr int STEP_COUNT = sizeof STEPS / sizeof STEPS[0];

using transport_test::belongings;
using transport_test::busy_gpu;
using transport_test::shared_place;
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

// What the one that survives tells its victims: the place of their names, and of the bytes that
// they write and read.
struct names {
  std::string mailbox, bytes;
};

// Writes the name of its own memory into the mailbox of the one that survives, which then writes
// and reads there.
int victim(int step, const char* url, const names& there, int device) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // one that listens would wait for others for ever
  shared_place mail(MAIL_SIZE, lci::buffer::HOST), bytes(SIZE, device);
  const lci::remote_buffer mailbox = lci::remote_buffer::parse(there.mailbox);
  const lci::remote_buffer target = lci::remote_buffer::parse(there.bytes);
  lci::transport one(usual());
  meet(one, step, url);
  die_at(step, 1);
  const std::string name = bytes.memory().remote().to_string();
  std::memcpy(mail.bytes(), name.c_str(), name.size() + 1);
  const lci::transfer letter = one.write(mail.memory().view(), mailbox, true, 1);
  die_at(step, 2);
  letter.get();
  die_at(step, 3);
  const lci::transfer large = one.write(bytes.memory().view(), target);
  one.process();
  die_at(step, 4);
  const lci::transfer back = one.read(bytes.memory().view(), target);
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
pid_t start(int step, int device, const std::string& url, const names& texts, int urls) {
  const std::string number = std::to_string(step), where = std::to_string(device);
  const char* const args[] = {
      "transport_kills",   number.c_str(), url.c_str(), texts.mailbox.c_str(),
      texts.bytes.c_str(), where.c_str(),  nullptr};
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
pid_t start_listener(int step, int device, const names& texts, std::string& url) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) std::abort();
  const pid_t child = start(step, device, "-", texts, ends[1]);
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

// Whether the survivor's GPU is slower than its patience with one that has died.
bool is_gpu_busy = false;
// These have waited for the survivor's first write, and do not need its GPU any more.
bool has_been_written_to(int step) { return step == 6 || step == 7; }

// Makes progress until the victim is dead and known to be, and every transfer has ended.
std::string survive(pid_t child, lci::transport& one, side of, int step, const shared_place& mail,
                    const lci::memory& memory, bool& was_killed) {
  std::vector<lci::transfer> all;
  bool is_dead = false, was_there = false;
  std::optional<busy_gpu> busy;
  clock::time_point known{};  // since when nothing is left to hear
  const auto limit = clock::now() + std::chrono::minutes(2);
  for (int quiet = 0; clock::now() < limit;) {
    if (has_mail(one)) {
      const auto there = lci::remote_buffer::parse(mail.bytes());
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
    if (is_gpu_busy && has_been_written_to(step) && !busy && !all.empty() && all.front().is_done())
      busy.emplace(child);
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
  // gpus: 0 for host memory.
  kills(int gpus, bool leaks)
      : gpus_(gpus), leaks_(leaks), bytes_(SIZE, device()), url_(listener_.bind()) {}
  void kill(side of, int step, int round) {
    const names texts{mail_.memory().remote().to_string(), bytes_.memory().remote().to_string()};
    // Each GPU has been a victim's, on either side, after the first round.
    const int device_there = device(step + round + static_cast<int>(of));
    bool was_killed = false;
    std::string problem;
    if (of == side::caller) {
      const pid_t child = start(step, device_there, url_, texts, -1);
      problem = survive(child, listener_, of, step, mail_, bytes_.memory(), was_killed);
    } else {
      lci::transport caller(usual());
      std::string url;
      const pid_t child = start_listener(step, device_there, texts, url);
      caller.connect(url);
      problem = survive(child, caller, of, step, mail_, bytes_.memory(), was_killed);
    }
    if (leaks_) kept_.emplace_back(1, device());
    if (problem.empty() && was_killed) return;
    if (problem.empty()) problem = "it has ended by itself";
    std::printf("%s killed when %s: %s\n", SIDES[static_cast<int>(of)], STEPS[step],
                problem.c_str());
    ++wrong_;
  }
  int wrong() const { return wrong_; }

 private:
  int device(int n = 0) const { return gpus_ == 0 ? lci::buffer::HOST : n % gpus_; }

  const int gpus_;
  const bool leaks_;
  shared_place mail_{MAIL_SIZE, lci::buffer::HOST}, bytes_;
  lci::transport listener_{usual()};
  const std::string url_;
  std::deque<shared_place> kept_{};
  int wrong_ = 0;
};

// Bytes of GPU memory, some of which the driver may take for itself while it runs: less than the
// memory of one victim that stays mapped.
constexpr long long ALLOWED = SIZE - 1;

int survivor(int rounds, int gpus, bool leaks) {
  if (::pipe2(deaths, O_CLOEXEC) != 0) std::abort();
  kills all(gpus, leaks);
  const auto one_round = [&all](int round) {
    for (const side of : {side::caller, side::listener})
      for (int step = 0; step < STEP_COUNT; ++step) all.kill(of, step, round);
  };
  one_round(0);  // opens what is kept
  const belongings before(gpus);
  for (int round = 1; round <= rounds; ++round) one_round(round);
  const belongings after(gpus, before.free() - ALLOWED);
  std::printf("%d kills, %d wrong\n", 2 * (rounds + 1) * STEP_COUNT, all.wrong());
  const bool has_leaked = after.has_leaked_since(before, ALLOWED);
  print_times();
  return all.wrong() == 0 && !has_leaked ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc == 6) return victim(std::atoi(argv[1]), argv[2], {argv[3], argv[4]}, std::atoi(argv[5]));
  const auto is_asked = [&](const char* what) {
    return std::any_of(argv + 1, argv + argc,
                       [=](const char* one) { return !std::strcmp(one, what); });
  };
  std::string why_not;
  if (!lci::transport::supported(&why_not) || (is_asked("gpu") && !lci::gpu_available(why_not))) {
    std::printf("skipped: %s\n", why_not.c_str());
    return 77;
  }
  const int gpus = is_asked("gpu") ? std::min(lci::gpu_count(), 2) : 0;
  is_gpu_busy = is_asked("busy");
  return survivor(argc > 1 ? std::atoi(argv[1]) : 3, gpus, is_asked("leak"));
} catch (const std::exception& e) {
  std::printf("transport_kills: %s\n", e.what());
  return 1;
}
