#include "tools/perf/contestant.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <cctype>
#include <sstream>

namespace lci_perf {

namespace {

constexpr std::uint64_t PATIENCE_NS = 120'000'000'000;  // without anything that arrives
constexpr std::uint64_t FAREWELL_NS = 5'000'000'000;
constexpr unsigned ORPHANS_US = 500'000;  // for processes whose launcher has failed

// Whether a child has ended, which it stays until it is reaped: until then its number, and that of
// its group, belong to no other process.
bool has_ended(int child, int& status) {
  siginfo_t about{};
  if (waitid(P_PID, static_cast<id_t>(child), &about, WEXITED | WNOHANG | WNOWAIT) != 0)
    return true;
  if (about.si_pid == 0) return false;
  status = about.si_code == CLD_EXITED ? about.si_status << 8 : about.si_status;
  return true;
}

std::vector<char*> words_of(std::vector<std::string>& line) {
  std::vector<char*> words;
  for (std::string& word : line) words.push_back(word.data());
  words.push_back(nullptr);
  return words;
}

std::vector<std::string> environment_with(const std::vector<std::string>& variables) {
  std::vector<std::string> all = variables;
  for (char** at = environ; *at != nullptr; ++at) {
    const std::string inherited = *at;
    const auto is_same = [&](const std::string& own) {
      const std::size_t name = own.find('=') + 1;
      return inherited.compare(0, name, own, 0, name) == 0;
    };
    if (std::none_of(variables.begin(), variables.end(), is_same)) all.push_back(inherited);
  }
  return all;
}

}  // namespace

std::string last_sentence(const std::string& text) {
  std::string found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (std::any_of(line.begin(), line.end(), [](unsigned char c) { return std::isalpha(c) != 0; }))
      found = line.substr(line.find_first_not_of(" \t\r"));
  return found.substr(0, found.find_last_not_of(" \t\r") + 1);
}

contestant::contestant(const contender& who, const shape& all, std::function<void()> idle)
    : name_(who.name), idle_(std::move(idle)) {
  if (!who.why_not.empty()) throw std::runtime_error(who.why_not);
  fd_ = memfd_create("lci_perf-board", MFD_CLOEXEC);
  output_ = memfd_create("lci_perf-output", MFD_CLOEXEC);
  fcntl(output_, F_SETFL, O_APPEND);  // its processes write at the same time
  void* at = MAP_FAILED;
  if (fd_ >= 0 && output_ >= 0 && ftruncate(fd_, sizeof(board)) == 0)
    at = mmap(nullptr, sizeof(board), PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (at == MAP_FAILED) throw std::runtime_error("no memory for the board");
  board_ = static_cast<board*>(at);
  board_->pairs = static_cast<std::uint32_t>(all.pairs);
  board_->seats = 2 * board_->pairs;
  board_->is_threads = all.is_threads ? 1 : 0;
  board_->is_shared = all.is_shared ? 1 : 0;
  board_->is_gpu = all.is_gpu ? 1 : 0;
  board_->largest = all.largest;
  for (std::size_t seat = 0; seat < board_->seats; ++seat)
    board_->cpus[seat] = seat < all.cpus.size() ? all.cpus[seat] : -1;
  try {
    start(who, all.is_threads ? 2 : static_cast<int>(board_->seats));
    await();
  } catch (...) {
    end();
    throw;
  }
}

contestant::~contestant() { end(); }

void contestant::start(const contender& who, int processes) {
  if (who.launcher.empty()) {
    for (int rank = 0; rank < processes; ++rank) children_.push_back(spawn(who.command, who, rank));
    return;
  }
  std::vector<std::string> line = who.launcher;
  line.insert(line.end(), {"-n", std::to_string(processes)});
  line.insert(line.end(), who.command.begin(), who.command.end());
  children_.push_back(spawn(line, who, -1));
}

int contestant::spawn(const std::vector<std::string>& line, const contender& who, int rank) {
  std::vector<std::string> command = line, variables = who.variables;
  variables.push_back(std::string(BOARD_VARIABLE) + "=/proc/" + std::to_string(getpid()) + "/fd/" +
                      std::to_string(fd_));
  if (rank >= 0) variables.push_back(std::string(RANK_VARIABLE) + "=" + std::to_string(rank));
  std::vector<std::string> environment = environment_with(variables);
  // Made before the fork: after it only plain system calls are safe.
  const std::vector<char*> arguments = words_of(command), all = words_of(environment);
  const int parent = getpid();
  const int child = fork();
  if (child < 0) throw std::runtime_error("fork failed");
  if (child == 0) {
    setpgid(0, 0);  // so that Ctrl-C ends this program, which ends them
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(1);  // it ended before that was set
    const int nothing = open("/dev/null", O_RDONLY);
    dup2(nothing, 0);
    dup2(output_, 1);
    dup2(output_, 2);
    execve(arguments[0], arguments.data(), all.data());
    dprintf(2, "cannot start %s\n", arguments[0]);
    _exit(127);
  }
  setpgid(child, child);  // here too: whichever comes first; the group is there when it is ended
  return child;
}

std::vector<result> contestant::give(const order& o) {
  board_->now = o;
  // edge perf.order, writer: partner is seat::serve().
  board_->number.store(++orders_, std::memory_order_release);
  wake_all(board_->number);
  await();
  return {board_->results, board_->results + board_->seats};
}

std::uint64_t contestant::arrived() const {
  std::uint64_t all = 0;
  for (std::size_t seat = 0; seat < board_->seats; ++seat)
    // A number alone: only whether it grows.
    all += std::atomic_ref<std::uint64_t>(board_->results[seat].messages)
               .load(std::memory_order_relaxed);
  return all;
}

void contestant::await() {
  const std::uint32_t wanted = (orders_ + 1) * board_->seats;
  std::uint64_t begin = now_ns(), before = 0;
  for (;;) {
    // edge perf.ready, reader: partner is seat::report_ready().
    const std::uint32_t ready = board_->ready.load(std::memory_order_acquire);
    if (ready == wanted) return;
    if (board_->error[0] != 0) throw std::runtime_error(board_->error);
    for (const int child : children_)
      if (int status = 0; has_ended(child, status)) throw std::runtime_error(last_words(status));
    // A long order is no failure as long as seats go on.
    if (const std::uint64_t now = arrived() + ready; now != before) {
      before = now;
      begin = now_ns();
    }
    if (now_ns() - begin > PATIENCE_NS)
      throw std::runtime_error("nothing arrived for 120 s, " + std::to_string(arrived()) +
                               " messages of this measurement did");
    sleep_on(board_->ready, ready);
    if (idle_) idle_();
  }
}

std::string contestant::last_words(int status) const {
  if (board_->error[0] != 0) return board_->error;
  struct stat about {};
  fstat(output_, &about);
  std::string text(static_cast<std::size_t>(std::min<off_t>(about.st_size, 4000)), 0);
  const ssize_t got =
      pread(output_, text.data(), text.size(), about.st_size - static_cast<off_t>(text.size()));
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  const std::string line = last_sentence(text);
  const std::string how = WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status))
                                              : "status " + std::to_string(WEXITSTATUS(status));
  return "its process ended with " + how + (line.empty() ? "" : ": " + line);
}

void contestant::end() {
  if (board_ != nullptr) {
    board_->now.is_last = 1;
    // edge perf.order, writer
    board_->number.store(++orders_, std::memory_order_release);
    wake_all(board_->number);
  }
  const std::uint64_t begin = now_ns();
  const bool has_failed = board_ == nullptr || board_->error[0] != 0;
  std::vector<int> failed;
  for (const int child : children_) {
    int sent = 0, status = 0;
    while (!has_ended(child, status)) {
      const std::uint64_t waited = now_ns() - begin;
      // First politely: a launcher passes this on to processes that it started elsewhere.
      if (sent == 0 && (has_failed || waited > FAREWELL_NS)) kill(-child, sent = SIGTERM);
      if (sent == SIGTERM && waited > 2 * FAREWELL_NS) kill(-child, sent = SIGKILL);
      usleep(2000);
    }
    if (status != 0) failed.push_back(child);
  }
  // A launcher that failed may leave processes of its group behind. The number is still that of its
  // group: it was not reaped.
  for (const int child : failed) kill(-child, SIGTERM);
  if (!failed.empty()) usleep(ORPHANS_US);
  for (const int child : failed) kill(-child, SIGKILL);
  for (const int child : children_) waitpid(child, nullptr, 0);
  children_.clear();
  if (board_ != nullptr) munmap(board_, sizeof(board));
  board_ = nullptr;
  for (int* fd : {&fd_, &output_}) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
  }
}

}  // namespace lci_perf
