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

// Anyone who can write in the directory controls what is in the files, and where we create and
// remove some.
void make_directory(const std::string& path) {
  create_directory(path);
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0) fail("looking at", path);
  if (!S_ISDIR(facts.st_mode) || facts.st_uid != ::geteuid()) {
    throw backend_error("file: " + path + " is not a directory of user " +
                        std::to_string(::geteuid()));
  }
  if ((facts.st_mode & 022) != 0)
    throw backend_error("file: other users may write in " + path + " (chmod go-w)");
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
  const auto give_up = [&](const std::string& call) {
    const int why = errno;
    ::unlink(beside.c_str());
    errno = why;
    fail(call, beside);
  };
  std::size_t written = 0;
  while (written < bytes.size()) {
    const ssize_t n = ::write(fd.get(), bytes.data() + written, bytes.size() - written);
    if (n >= 0)
      written += static_cast<std::size_t>(n);
    else if (errno != EINTR)
      give_up("writing");
  }
  // A file server may say only here that it has no room for the bytes.
  if (::close(fd.release()) != 0) give_up("closing");
  if (::rename(beside.c_str(), path.c_str()) != 0) give_up("renaming to " + path + " of");
}

// Empty when there is none any more.
base::descriptor open_folder(const std::string& path, int flags = 0) {
  return base::descriptor(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | flags));
}

// Names only; none of a folder that could not be opened. To be called once for a descriptor.
std::vector<std::string> entries_of(const base::descriptor& folder) {
  std::vector<std::string> names;
  base::descriptor copy(::fcntl(folder.get(), F_DUPFD_CLOEXEC, 0));
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(::fdopendir(copy.get()), &::closedir);
  if (!dir) return names;
  copy.release();  // closed with `dir`
  while (const dirent* entry = ::readdir(dir.get())) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  return names;
}

bool are_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

bool is_numbered(std::string_view name, std::string_view start) {
  return name.starts_with(start) && are_digits(name.substr(start.size()));
}

// A file that lci writes into its job folders, or was writing when it was killed. The user may keep
// others in the directory, and they are not ours to remove.
bool is_job_file(std::string_view name) {
  if (const std::size_t tail = name.find(".tmp."); tail != std::string_view::npos) {
    if (!is_numbered(name.substr(tail), ".tmp.")) return false;
    name = name.substr(0, tail);
  }
  if (name == "full") return true;
  for (const char* start : {"m", "new.", "left"})
    if (is_numbered(name, start)) return true;
  const std::size_t dot = name.find('.');
  return dot != std::string_view::npos && is_numbered(name.substr(0, dot), "r") &&
         are_digits(name.substr(dot + 1));
}

// As new_job() makes them.
bool is_job_name(std::string_view name) {
  return name.size() == 20 && name.starts_with("job-") &&
         name.find_first_not_of("0123456789abcdef", 4) == std::string_view::npos;
}

// Empty unless it is a folder that lci has made: one of this user, for this user alone, no link.
base::descriptor open_job(const std::string& directory, const std::string& name) {
  base::descriptor fd;
  if (is_job_name(name)) fd = open_folder(path_in(directory, name), O_NOFOLLOW);
  struct stat facts {};
  if (fd && (::fstat(fd.get(), &facts) != 0 || facts.st_uid != ::geteuid() ||
             (facts.st_mode & 0777) != 0700))
    fd.reset();
  return fd;
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
  for (const std::string& name : entries_of(open_folder(directory))) {
    const base::descriptor folder = open_job(directory, name);
    if (!folder) continue;
    const std::string path = path_in(directory, name);
    const auto files = entries_of(folder);
    const bool alive = std::any_of(files.begin(), files.end(), [&](const std::string& file) {
      return is_numbered(file, "m") && !lock_is_free(path_in(path, file));
    });
    if (alive) continue;
    for (const std::string& file : files)
      if (is_job_file(file)) ::unlinkat(folder.get(), file.c_str(), 0);
    ::rmdir(path.c_str());  // refused if there is anything else in it
  }
}

// A unique name for each job, so that a late reader never takes the files of the next job for those
// of its own.
std::string new_job(const std::string& directory) {
  std::uint64_t random = 0;
  if (::getrandom(&random, sizeof random, 0) != static_cast<ssize_t>(sizeof random))
    fail("getrandom for", directory);
  char name[32];
  std::snprintf(name, sizeof name, "job-%016llx", static_cast<unsigned long long>(random));
  const std::string folder = path_in(directory, name);
  // The access control lists of some file systems give it more permissions than mkdir() is told.
  if (::mkdir(folder.c_str(), 0700) != 0 || ::chmod(folder.c_str(), 0700) != 0)
    fail("creating directory", folder);
  if (!open_job(directory, name)) {
    ::rmdir(folder.c_str());
    throw backend_error("file: " + directory + " is on a file system that keeps no permissions");
  }
  return name;
}

// Under the lock: whether a process may still join this job. Not if it is full, and not if a member
// died while it waited, for then it never will be full.
bool is_open(const std::string& folder, int size) {
  if (exists(folder + "/full")) return false;
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
  std::string name = read_file(pointer).value_or("none");
  if (!open_job(directory, name) || !is_open(path_in(directory, name), size)) {
    name = new_job(directory);
    write_file(pointer, name);
  }
  const std::string folder = path_in(directory, name);
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
