#include "tests/support/process_harness.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <new>
#include <stdexcept>

#include "tests/support/leak_guard.hpp"

namespace lci::test {

// One writer per row: the child of that rank. Entries are published by their count.
struct process_board {
  static constexpr int MAX_RANKS = 64;
  static constexpr std::uint32_t MAX_POINTS = 64;
  static constexpr std::uint32_t MAX_TEXTS = 8;

  struct text {
    char name[32];
    char value[224];
  };
  struct row {
    std::atomic<std::uint32_t> points{0};
    std::atomic<std::uint32_t> texts{0};
    char names[MAX_POINTS][32];
    text published[MAX_TEXTS];
  };
  int size = 0;
  row rows[MAX_RANKS];
};

namespace {

// For the alarm handler, which can only look at globals. One child, one board.
process_board* board_of_child = nullptr;
int rank_of_child = -1;

void write_text(const char* text) {
  if (write(STDERR_FILENO, text, std::strlen(text)) < 0) _exit(97);
}

// The child's watchdog: a signal and not a thread, since the code under test must not see a thread
// it did not make.
void on_alarm(int) {
  write_text("watchdog: a child process ran out of time, after the points:");
  const process_board::row& mine = board_of_child->rows[rank_of_child];
  // edge board.point: partner is reach().
  for (std::uint32_t i = 0; i < mine.points.load(std::memory_order_acquire); ++i) {
    write_text(" ");
    write_text(mine.names[i]);
  }
  write_text("\n");
  abort();
}

[[noreturn]] void run_child(process_board* board, int rank, unsigned limit_s, pid_t parent,
                            const std::function<int(child_process&)>& body) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(96);  // it died before the line above
  board_of_child = board;
  rank_of_child = rank;
  std::signal(SIGALRM, &on_alarm);
  alarm(limit_s);
  int code = 1;
  try {
    child_process me(board, rank);
    code = body(me);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "child %d threw: %s\n", rank, error.what());
  }
  std::fflush(nullptr);
  _exit(code != 0 ? code : (testing::Test::HasFailure() ? 1 : 0));
}

}  // namespace

int child_process::size() const noexcept { return board_->size; }

void child_process::reach(std::string_view point) {
  process_board::row& mine = board_->rows[rank_];
  const std::uint32_t at = mine.points.load(std::memory_order_relaxed);
  if (at == process_board::MAX_POINTS || point.size() > 31)
    throw std::length_error("reach: too many or too long");
  point.copy(mine.names[at], 31);
  // edge board.point: the name is there when the count says so; partner is has_reached().
  mine.points.store(at + 1, std::memory_order_release);
}

bool child_process::has_reached(int rank, std::string_view point) const {
  const process_board::row& row = board_->rows[rank];
  const std::uint32_t count = row.points.load(std::memory_order_acquire);  // edge board.point
  return std::any_of(row.names, row.names + count, [&](const char* name) { return name == point; });
}

void child_process::publish(std::string_view name, std::string_view text) {
  process_board::row& mine = board_->rows[rank_];
  const std::uint32_t at = mine.texts.load(std::memory_order_relaxed);
  process_board::text& to = mine.published[at];
  if (at == process_board::MAX_TEXTS || name.size() >= sizeof to.name ||
      text.size() >= sizeof to.value) {
    throw std::length_error("publish: too many or too long");
  }
  name.copy(to.name, sizeof to.name - 1);
  text.copy(to.value, sizeof to.value - 1);
  mine.texts.store(at + 1, std::memory_order_release);  // edge board.text: partner is lookup()
}

std::string child_process::lookup(int rank, std::string_view name) const {
  const process_board::row& row = board_->rows[rank];
  const std::uint32_t count = row.texts.load(std::memory_order_acquire);  // edge board.text
  for (std::uint32_t i = 0; i < count; ++i) {
    if (row.published[i].name == name) return row.published[i].value;
  }
  return {};
}

void child_process::barrier(std::string_view point, const std::function<void()>& meanwhile,
                            const std::vector<int>& except) {
  reach(point);
  for (int rank = 0; rank < size(); ++rank) {
    if (std::find(except.begin(), except.end(), rank) != except.end()) continue;
    while (!has_reached(rank, point)) meanwhile();
  }
}

processes::processes(int count, const std::function<int(child_process&)>& body, unsigned limit_s) {
  if (count > process_board::MAX_RANKS) throw std::length_error("processes: too many");
  void* memory = mmap(nullptr, sizeof(process_board), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  board_ = new (memory) process_board;
  board_->size = count;
  const pid_t parent = getpid();
  std::fflush(nullptr);
  for (int rank = 0; rank < count; ++rank) {
    const pid_t pid = fork();
    if (pid == 0) run_child(board_, rank, limit_s, parent, body);
    if (pid < 0) ADD_FAILURE() << "fork: " << std::strerror(errno);
    pids_.push_back(pid);
  }
  ends_.resize(pids_.size());
}

processes::~processes() {
  for (std::size_t i = 0; i < pids_.size(); ++i) {
    if (pids_[i] <= 0) continue;
    ::kill(pids_[i], SIGKILL);
    waitpid(pids_[i], nullptr, 0);
  }
  munmap(board_, sizeof(process_board));
}

bool processes::wait_for(int rank, std::string_view point) {
  const child_process view(board_, rank);
  const auto at = static_cast<std::size_t>(rank);
  // The child's own watchdog bounds this loop: it reaches the point or ends.
  while (!view.has_reached(rank, point)) {
    siginfo_t info{};
    waitid(P_PID, static_cast<id_t>(pids_[at]), &info, WEXITED | WNOHANG | WNOWAIT);
    if (info.si_pid != 0 && !view.has_reached(rank, point)) {
      ADD_FAILURE() << "process " << rank << " ended without reaching " << point;
      return false;
    }
    usleep(200);
  }
  return true;
}

std::string processes::lookup(int rank, std::string_view name) const {
  return child_process(board_, rank).lookup(rank, name);
}

void processes::kill(int rank, int signal) {
  ::kill(pids_[static_cast<std::size_t>(rank)], signal);
}

void processes::stop(int rank) {
  kill(rank, SIGSTOP);
  int status = 0;
  waitpid(pids_[static_cast<std::size_t>(rank)], &status, WUNTRACED);
  EXPECT_TRUE(WIFSTOPPED(status)) << "process " << rank << " has ended";
}

process_end processes::wait(int rank) {
  const auto at = static_cast<std::size_t>(rank);
  if (pids_[at] <= 0) return ends_[at];
  int status = 0;
  waitpid(pids_[at], &status, 0);
  pids_[at] = 0;
  ends_[at] = WIFSIGNALED(status) ? process_end{true, WTERMSIG(status)}
                                  : process_end{false, WEXITSTATUS(status)};
  return ends_[at];
}

void processes::expect_ends(const std::vector<process_end>& expected) {
  for (std::size_t i = 0; i < ends_.size(); ++i) {
    const process_end end = wait(static_cast<int>(i));
    const process_end& wanted = i < expected.size() ? expected[i] : ENDED_WELL;
    EXPECT_TRUE(end == wanted) << "process " << i
                               << (end.by_signal ? " was ended by signal " : " exited with ")
                               << end.code;
  }
}

std::vector<std::string> shared_memory_files() {
  std::vector<std::string> found;
  std::error_code missing;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm", missing)) {
    found.push_back(entry.path().filename().native());
  }
  std::sort(found.begin(), found.end());
  return found;
}

namespace {

// Whether a process has the file mapped or open. Those of other users cannot be seen; their files
// are not ours either.
bool is_in_use(const std::string& path) {
  std::error_code error;
  for (const auto& process : std::filesystem::directory_iterator("/proc", error)) {
    std::ifstream maps(process.path() / "maps");
    for (std::string line; std::getline(maps, line);) {
      if (line.size() >= path.size() &&
          line.compare(line.size() - path.size(), path.size(), path) == 0)
        return true;
    }
    for (auto fd = std::filesystem::directory_iterator(process.path() / "fd", error);
         !error && fd != std::filesystem::directory_iterator(); fd.increment(error)) {
      if (std::filesystem::read_symlink(fd->path(), error) == path) return true;
    }
  }
  return false;
}

}  // namespace

std::vector<std::string> left_shared_memory_files(const std::vector<std::string>& before) {
  std::vector<std::string> left;
  for (const std::string& name : shared_memory_files()) {
    const std::string path = "/dev/shm/" + name;
    struct stat file {};
    if (std::find(before.begin(), before.end(), name) != before.end() || is_in_use(path) ||
        ::stat(path.c_str(), &file) != 0 || file.st_uid != ::geteuid())
      continue;
    left.push_back(name);
  }
  return left;
}

namespace {

// Name and inode of every bound abstract socket of this network namespace.
std::vector<std::pair<std::string, std::string>> abstract_socket_table() {
  std::vector<std::pair<std::string, std::string>> found;
  std::ifstream table("/proc/net/unix");
  for (std::string line; std::getline(table, line);) {
    const std::size_t name = line.find(" @");
    if (name == std::string::npos) continue;
    const std::size_t inode = line.rfind(' ', name - 1);
    found.emplace_back(line.substr(name + 1), line.substr(inode + 1, name - inode - 1));
  }
  return found;
}

}  // namespace

std::vector<std::string> abstract_sockets(std::string_view part) {
  std::vector<std::string> found;
  for (const auto& [name, inode] : abstract_socket_table()) {
    if (name.find(part) != std::string::npos) found.push_back(name);
  }
  return found;
}

std::vector<std::string> own_abstract_sockets() {
  std::vector<std::string> mine = open_descriptors();
  std::vector<std::string> found;
  for (const auto& [name, inode] : abstract_socket_table()) {
    const std::string target = "socket:[" + inode + "]";
    const bool is_mine = std::any_of(
        mine.begin(), mine.end(), [&](const std::string& line) { return line.ends_with(target); });
    if (is_mine) found.push_back(name);
  }
  return found;
}

}  // namespace lci::test
