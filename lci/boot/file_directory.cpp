#include "lci/boot/file_directory.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/random.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <thread>

#include "lci/errors.hpp"

namespace lci::boot {

namespace {

[[noreturn]] void fail(const std::string& call, const std::string& path) {
  const int why = errno;
  throw backend_error("file: " + call + " " + path + " failed: " + errno_text(why));
}

std::string path_in(const std::string& folder, const std::string& name) {
  std::string path = folder;
  return path.append("/").append(name);
}

// Creates only the last component and its parent: a wrong HOME must not grow a tree somewhere.
void create_directory(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return;
  const std::size_t slash = path.find_last_of('/');
  if (errno == ENOENT && slash != std::string::npos && slash > 0 &&
      (::mkdir(path.substr(0, slash).c_str(), 0700) == 0 || errno == EEXIST) &&
      (::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST))
    return;
  fail("creating directory", path);
}

// The owner of the directory controls what is in the files.
void make_directory(const std::string& path) {
  create_directory(path);
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0) fail("looking at", path);
  if (!S_ISDIR(facts.st_mode) || facts.st_uid != ::geteuid()) {
    throw backend_error("file: " + path + " is not a directory of user " +
                        std::to_string(::geteuid()));
  }
}

std::optional<std::string> read_file(const std::string& path) {
  base::descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) {
    // A file server may say "stale" where a local disk says "no entry".
    if (errno == ENOENT || errno == ESTALE) return std::nullopt;
    fail("opening", path);
  }
  std::string out;
  char bytes[16 * 1024];
  for (;;) {
    const ssize_t n = ::read(fd.get(), bytes, sizeof bytes);
    if (n > 0)
      out.append(bytes, static_cast<std::size_t>(n));
    else if (n == 0)
      return out;
    else if (errno != EINTR)
      fail("reading", path);
  }
}

// Written beside and renamed, so that readers see nothing or everything.
void write_file(const std::string& path, const std::string& bytes) {
  const std::string beside = path + ".tmp." + std::to_string(::getpid());
  base::descriptor fd(::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!fd) fail("creating", beside);
  std::size_t written = 0;
  while (written < bytes.size()) {
    const ssize_t n = ::write(fd.get(), bytes.data() + written, bytes.size() - written);
    if (n >= 0)
      written += static_cast<std::size_t>(n);
    else if (errno != EINTR)
      fail("writing", beside);
  }
  if (::rename(beside.c_str(), path.c_str()) != 0) fail("renaming " + beside + " to", path);
}

// Names only; empty when the folder does not exist any more.
std::vector<std::string> entries_of(const std::string& folder) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(folder.c_str()), &::closedir);
  if (!dir) return names;
  while (const dirent* entry = ::readdir(dir.get())) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  return names;
}

// Job folders hold plain files only.
void remove_folder(const std::string& folder) {
  for (const std::string& name : entries_of(folder)) ::unlink(path_in(folder, name).c_str());
  ::rmdir(folder.c_str());
}

base::descriptor take_lock(const std::string& path, const deadline& until) {
  base::descriptor fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!fd) fail("opening", path);
  // Living processes hold it for microseconds, and after a crash no process holds it. The only
  // reason to give up is a process that was stopped while it held the lock.
  while (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) fail("locking", path);
    if (until.is_over())
      throw backend_error("file: " + path + " stayed locked by another process; is one stopped?");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return fd;
}

std::string member_file(const std::string& folder, int rank) {
  return folder + "/m" + std::to_string(rank);
}

// True if `path` is the file of a rank that has joined and no process holds its lock any more.
// Trying the lock works across containers with separate process numbers, and after a process was
// replaced by another of the same number; checking the number would not.
bool lock_is_free(const std::string& path) {
  const base::descriptor fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd) return false;  // not joined yet, so not ended either
  return ::flock(fd.get(), LOCK_EX | LOCK_NB) == 0;
}

bool exists(const std::string& path) noexcept { return ::access(path.c_str(), F_OK) == 0; }

// Under the lock: removes jobs that have no living process.
void clean_up(const std::string& directory) {
  for (const std::string& name : entries_of(directory)) {
    if (name.rfind("job-", 0) != 0) continue;
    const std::string folder = path_in(directory, name);
    const auto files = entries_of(folder);
    const bool alive = std::any_of(files.begin(), files.end(), [&](const std::string& file) {
      return file[0] == 'm' && !lock_is_free(path_in(folder, file));
    });
    if (!alive) remove_folder(folder);
  }
}

// A unique name for each job, so that a late reader never takes the files of the next job for those
// of its own.
std::string new_job(const std::string& directory) {
  std::uint64_t random = 0;
  if (::getrandom(&random, sizeof random, 0) != static_cast<ssize_t>(sizeof random))
    fail("getrandom for", directory);
  char name[32];
  std::snprintf(name, sizeof name, "/job-%016llx", static_cast<unsigned long long>(random));
  std::string folder = directory + name;
  if (::mkdir(folder.c_str(), 0700) != 0) fail("creating directory", folder);
  return folder;
}

// Under the lock: whether a process may still join this job. Not if it is full, and not if a member
// died while it waited, for then it never will be full.
bool is_open(const std::string& folder, int size) {
  if (!exists(folder) || exists(folder + "/full")) return false;
  int joined = 0;
  for (int r = 0; r < size; ++r) {
    const std::string member = member_file(folder, r);
    if (!exists(member)) continue;
    ++joined;
    if (lock_is_free(member)) return false;
  }
  return joined < size;
}

// Returns `size` when there is none.
int first_free_rank(const std::string& folder, int size) {
  int rank = 0;
  while (rank < size && exists(member_file(folder, rank))) ++rank;
  return rank;
}

}  // namespace

file_job::file_job(std::string directory, std::string folder, int rank, int size,
                   base::descriptor mine)
    : directory_(std::move(directory)),
      folder_(std::move(folder)),
      rank_(rank),
      size_(size),
      mine_(std::move(mine)),
      is_ours_(mine_.get()) {}

file_job file_job::join(const std::string& directory, int size, int wanted_rank,
                        const std::string& step, const deadline& until) {
  make_directory(directory);
  // One process at a time looks and changes; being killed at any step inside is harmless, too.
  const base::descriptor lock = take_lock(directory + "/lock", until);
  clean_up(directory);
  const std::string pointer = directory + "/open-" + std::to_string(size) + step;
  std::string folder = directory + "/" + read_file(pointer).value_or("none");
  if (!is_open(folder, size)) {
    folder = new_job(directory);
    write_file(pointer, folder.substr(directory.size() + 1));
  }
  const int rank = wanted_rank >= 0 ? wanted_rank : first_free_rank(folder, size);
  const std::string member = member_file(folder, rank);
  if (exists(member)) {
    throw backend_error("file: rank " + std::to_string(rank) + " has already joined the job in " +
                        directory + "; two processes were given this rank");
  }
  // Locked before it gets its name: processes that wait in this job check locks at any time.
  const std::string beside = folder + "/new." + std::to_string(::getpid());
  base::descriptor mine(::open(beside.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!mine) fail("creating", beside);
  if (::flock(mine.get(), LOCK_EX | LOCK_NB) != 0) fail("locking", beside);
  if (::rename(beside.c_str(), member.c_str()) != 0) fail("renaming " + beside + " to", member);
  // The last one to join opens the job for all.
  if (first_free_rank(folder, size) == size) write_file(folder + "/full", "");
  return file_job(directory, folder, rank, size, std::move(mine));
}

file_job::~file_job() {
  if (!mine_) return;  // moved from
  try {
    // Release our lock first: then the last process to leave finds none alive.
    is_ours_.reset();
    mine_.reset();
    const base::descriptor lock =
        take_lock(directory_ + "/lock", deadline::in(std::chrono::milliseconds(2000)));
    clean_up(directory_);
  } catch (const std::exception&) {
    // The next process to join cleans up.
  }
}

bool file_job::is_full() const { return exists(folder_ + "/full"); }

std::vector<int> file_job::missing() const {
  std::vector<int> ranks;
  for (int r = 0; r < size_; ++r) {
    if (!exists(member_file(folder_, r))) ranks.push_back(r);
  }
  return ranks;
}

bool file_job::has_ended(int rank) const {
  return rank != rank_ && lock_is_free(member_file(folder_, rank));
}

void file_job::write(const std::string& file, const std::string& bytes) const {
  write_file(folder_ + "/" + file, bytes);
}

std::optional<std::string> file_job::read(const std::string& file) const {
  return read_file(folder_ + "/" + file);
}

bool file_job::has(const std::string& file) const { return exists(folder_ + "/" + file); }

void file_job::remove(const std::string& file) const noexcept {
  try {
    ::unlink((folder_ + "/" + file).c_str());
  } catch (const std::bad_alloc&) {
    // It is removed with the folder.
  }
}

// By default a user may have 128 inotify instances, fewer than two jobs of 64 ranks need; without
// one, a short sleep replaces it.
folder_watch::folder_watch(const std::string& folder)
    : inotify_(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {
  if (inotify_ &&
      ::inotify_add_watch(inotify_.get(), folder.c_str(), IN_MOVED_TO | IN_DELETE_SELF) < 0)
    inotify_.reset();
}

bool folder_watch::wait(const deadline& until) {
  const int left = until.remaining_ms();
  const int most = inotify_ ? 100 : pause_ms_;
  const int time = left < 0 ? most : std::min(left, most);
  if (!inotify_) {
    std::this_thread::sleep_for(std::chrono::milliseconds(time));
    pause_ms_ = std::min(pause_ms_ * 2, 20);
    return false;
  }
  pollfd entry{inotify_.get(), POLLIN, 0};
  if (::poll(&entry, 1, time) <= 0) return false;
  // It does not matter what has changed: the caller looks for what it needs.
  alignas(inotify_event) char events[4096];
  while (::read(inotify_.get(), events, sizeof events) > 0) {
  }
  return true;
}

}  // namespace lci::boot
