#include "lci/share/owner_link.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "lci/share/server.hpp"

namespace lci::share {
namespace {

// Opening what else a process has open could wait, or have effects: a pipe, a device.
constexpr std::string_view OUR_FILES = "/memfd:lci-buffer";

int open_by_place(int pid, int number) {
  const std::string path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(number);
  std::array<char, 64> target{};
  if (readlink(path.c_str(), target.data(), target.size() - 1) < 0) return -1;
  if (!std::string_view(target.data()).starts_with(OUR_FILES)) {
    errno = EPERM;
    return -1;
  }
  return open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK);
}

std::string system_text(int error) {
  return std::string(std::strerror(error)) + " [" + std::to_string(error) + "]";
}

constexpr const char* OF_ANOTHER =
    "belongs to another user than the handle says, or hides itself in /proc and does not serve";

// The administrator's, as it seems, is also a process that lets no other look at it.
uid_t user_of(int pid) {
  struct stat about {};
  const std::string place = "/proc/" + std::to_string(pid);
  return stat(place.c_str(), &about) == 0 ? about.st_uid : 0;
}

// The kernel's name of an open file.
std::pair<dev_t, ino_t> file_of(int fd) {
  struct stat about {};
  fstat(fd, &about);
  return {about.st_dev, about.st_ino};
}

[[noreturn]] void refuse(buffer_fault fault, const handle& h, const std::string& why) {
  throw buffer_error(fault, "the owner of the shared buffer (" + owner_text(h) + ") " + why);
}

[[noreturn]] void refuse_for_room(const handle& h, int error) {
  refuse(buffer_fault::no_room, h, "was not reached: " + system_text(error));
}

[[noreturn]] void refuse_by(verdict found, const handle& h) {
  if (found == verdict::stale)
    refuse(buffer_fault::stale, h, "has withdrawn the handle, or freed the memory");
  refuse(buffer_fault::forged, h, "has never published that handle");
}

}  // namespace

const owner_calls& system_owner_calls() noexcept {
  // Without wrappers in older C libraries.
  static const owner_calls calls{
      [](int pid) { return static_cast<int>(syscall(SYS_pidfd_open, pid, 0)); },
      [](int process, int number) {
        return static_cast<int>(syscall(SYS_pidfd_getfd, process, number, 0));
      },
      &open_by_place};
  return calls;
}

std::shared_ptr<owner_link> owner_link::open(const handle& h, const owner_calls& calls) {
  // No make_shared: the constructor is private.
  std::shared_ptr<owner_link> made(new owner_link(calls));
  made->pid_ = static_cast<int>(h.pid);
  made->start_time_ = h.start_time;
  made->process_.reset(calls.open_process(made->pid_));
  const int error = made->process_ ? 0 : errno;
  if (is_no_room(error)) refuse_for_room(h, error);
  // Asked after the process is held: from now on the number cannot become another's.
  if (error == ESRCH || start_time_of(made->pid_) != h.start_time)
    refuse(buffer_fault::owner_gone, h, "has ended");
  if (const uid_t user = user_of(made->pid_); user != h.user && user != 0)
    refuse(buffer_fault::other_user, h, OF_ANOTHER);
  const base::descriptor page = made->fetch(h, h.page_fd, false, made->how_);
  made->page_ = open_page(page.get());
  made->page_file_ = file_of(page.get());
  return made;
}

bool owner_link::is_alive() const {
  if (!process_) return start_time_of(pid_) == start_time_;
  pollfd one{process_.get(), POLLIN, 0};
  return poll(&one, 1, 0) == 0;
}

void owner_link::check(const handle& h) const {
  if (!is_alive()) refuse(buffer_fault::owner_gone, h, "has ended");
  if (const verdict found = compare(h); found != verdict::same) refuse_by(found, h);
}

base::descriptor owner_link::take_memory(const handle& h) const {
  std::string how;
  base::descriptor fd = fetch(h, h.memory_fd, true, how);
  // The number may have become another's before it was fetched; then the handle was withdrawn.
  if (const verdict found = compare(h); found != verdict::same) refuse_by(found, h);
  check_program(h);
  return fd;
}

// The page outlives the program that wrote it, so its words do not tell. A holder of the page's
// descriptor has not started another program, which closes it; its number may be another's then.
void owner_link::check_program(const handle& h) const {
  std::string how;
  const base::descriptor page = fetch(h, h.page_fd, false, how);
  if (file_of(page.get()) != page_file_)
    refuse(buffer_fault::forged, h, "has started another program since");
}

// pidfd_getfd; for memory files also /proc, which asks for less; then the owner's server.
base::descriptor owner_link::fetch(const handle& h, int number, bool is_memory,
                                   std::string& how) const {
  int error = ENOSYS;
  if (process_) {
    base::descriptor fd(calls_.fetch(process_.get(), number));
    if (fd) {
      how = "pidfd_getfd";
      return fd;
    }
    error = errno;
  }
  // One that is ending has no descriptors any more, which is no answer of its own.
  if (error == ESRCH || !is_alive()) refuse(buffer_fault::owner_gone, h, "has ended");
  if (error == EBADF) {
    // What it published is there no longer: it has closed it, or has started another program.
    refuse(is_memory ? buffer_fault::stale : buffer_fault::forged, h,
           "has no descriptor of the number that the handle names");
  }
  if (is_no_room(error)) refuse_for_room(h, error);
  if (h.way == handle_way::host_file || !is_memory) {
    base::descriptor fd(calls_.open_file(pid_, number));
    if (fd) {
      how = "/proc";
      return fd;
    }
    if (const int no_file = errno; is_no_room(no_file)) refuse_for_room(h, no_file);
  }
  std::string why_not;
  server_answer answer = ask_server(h, why_not);
  if (answer.found != verdict::same) refuse_by(answer.found, h);
  base::descriptor& wanted = is_memory ? answer.memory : answer.page;
  if (!wanted && !is_alive()) refuse(buffer_fault::owner_gone, h, "has ended");
  if (!wanted && user_of(pid_) != h.user) refuse(buffer_fault::other_user, h, OF_ANOTHER);
  if (!wanted) {
    refuse(buffer_fault::unreachable, h,
           "lets no process take a descriptor: pidfd_getfd: " + system_text(error) +
               (error == EPERM ? " (kernel.yama.ptrace_scope, or a container)" : "") + ", and " +
               why_not);
  }
  how = "its socket";
  return std::move(wanted);
}

}  // namespace lci::share
