// A daemon that reads files straight into another process's memory, in a GPU if there is one: the
// client makes a buffer and sends its handle with the name of a file; the daemon maps the buffer
// and fills it. There is no launcher and no rank: the two share only a socket.
//
//   file_to_gpu [FILE] [--engine E] [--depth N] [--threads N] [--piece BYTES] [--host]
//       both sides, the daemon as a child; without FILE a file of 64 MiB is made
//   file_to_gpu --daemon SOCKET [...]      the daemon alone, serving one client after the other
//   file_to_gpu --client SOCKET FILE [--host]
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "file_checksum.hpp"
#include "file_ring.hpp"
#include "gpu_memory.hpp"

namespace {

struct settings {
  std::string file, socket;
  bool is_daemon = false, is_client = false, on_host = false;
  file_ring_options ring;
};

struct fd_t {
  explicit fd_t(int number) : fd(number) {}
  ~fd_t() {
    if (fd >= 0) close(fd);
  }
  fd_t(const fd_t&) = delete;
  fd_t& operator=(const fd_t&) = delete;
  const int fd;
};

[[noreturn]] void fail(const std::string& what) { throw std::runtime_error(what); }
[[noreturn]] void fail_errno(const std::string& what) { fail(what + ": " + std::strerror(errno)); }

// Strings over the socket; empty: the other end has closed it.
void say(int fd, const std::string& text) {
  const uint64_t size = text.size();
  if (send(fd, &size, sizeof(size), MSG_NOSIGNAL) != sizeof(size) ||
      send(fd, text.data(), text.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(text.size()))
    fail_errno("the other side");
}
std::string hear(int fd) {
  uint64_t size = 0;
  if (recv(fd, &size, sizeof(size), MSG_WAITALL) != sizeof(size) || size > 4096) return "";
  std::string text(size, '\0');
  return recv(fd, &text[0], size, MSG_WAITALL) == static_cast<ssize_t>(size) ? text : "";
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Makes the context of the GPU current in a thread of cuFile.
void enter_gpu(int device) {
  static thread_local std::unique_ptr<gpu_t> mine;
  mine.reset(new gpu_t(device));
}

// One request of a client: the file's name, then the handle of the memory.
std::string fill(const std::string& name, const std::string& handle, file_ring_options options) {
  lci::buffer to = lci::buffer::import(handle);
  const fd_t file(open(name.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.fd < 0) fail_errno(name);
  options.device = to.device();
  const int device = to.device();
  if (device != lci::buffer::HOST) options.gpu_thread = [device] { enter_gpu(device); };
  file_ring ring(file.fd, options);
  const auto start = std::chrono::steady_clock::now();
  const uint64_t got =
      read_by_ring(ring, static_cast<char*>(to.data()), to.size(), 0, options.piece);
  const double seconds = seconds_since(start);
  char rate[64];
  std::snprintf(rate, sizeof(rate), "%.2f GB/s", static_cast<double>(got) / seconds / 1e9);
  return std::to_string(got) + " bytes, " + rate + ", " + ring.describe() + ", into " +
         to.describe();
}

void serve(int peer, const settings& s) {
  for (;;) {
    const std::string name = hear(peer), handle = hear(peer);
    if (name.empty()) return;
    try {
      say(peer, "ok " + fill(name, handle, s.ring));
    } catch (const std::exception& error) {
      say(peer, std::string("failed ") + error.what());
    }
  }
}

// The client's side: makes memory, sends the request, checks the bytes that arrive.
int use(int daemon, const settings& s) {
  struct stat about {};
  if (stat(s.file.c_str(), &about) != 0) fail_errno(s.file);
  if (about.st_size == 0) fail(s.file + " is empty");
  const auto size = static_cast<size_t>(about.st_size);
  std::string why_not;
  const bool is_gpu = !s.on_host && lci::gpu_available(why_not);
  if (!is_gpu) std::printf("host memory%s%s\n", why_not.empty() ? "" : ": ", why_not.c_str());
  // Some systems let no process fetch the descriptor of GPU memory from another one. There, a
  // thread of this process sends it.
  if (is_gpu) lci::buffer::serve();
  lci::buffer memory = lci::buffer::create(size, is_gpu ? 0 : lci::buffer::HOST);
  // The daemon may run in another working directory.
  say(daemon, std::filesystem::absolute(s.file).string());
  say(daemon, memory.export_handle());
  const std::string answer = hear(daemon);
  lci::buffer::stop_serving();
  std::printf("%s\n", answer.empty() ? "the daemon has ended" : answer.c_str());
  if (answer.compare(0, 3, "ok ") != 0) return 1;
  memory.sync(lci::buffer_sync::after);
  std::string how;
  const bool is_same = checksum_of_memory(memory, how) == checksum_of_file(s.file);
  std::printf("%s\nchecksum by %s: %s\n", memory.describe().c_str(), how.c_str(),
              is_same ? "identical" : "DIFFERENT");
  return is_same ? 0 : 1;
}

// A temporary file that is removed at the end of the program.
std::string make_file() {
  const int fd = memfd_create("file_to_gpu", 0);
  if (fd < 0) fail_errno("memfd_create");
  std::vector<uint64_t> words(1 << 17);
  for (uint64_t block = 0; block < 64; ++block) {
    for (size_t i = 0; i < words.size(); ++i) words[i] = (block << 32) + i * 0x9e3779b97f4a7c15;
    if (write(fd, words.data(), words.size() * 8) != static_cast<ssize_t>(words.size() * 8))
      fail_errno("write");
  }
  return "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(fd);
}

// Both sides. The fork comes first, because CUDA does not work in the child of a process that uses
// it.
int both(settings s) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) fail_errno("socketpair");
  const pid_t child = fork();
  if (child < 0) fail_errno("fork");
  if (child == 0) {
    close(ends[0]);
    serve(ends[1], s);
    std::exit(0);
  }
  close(ends[1]);
  if (s.file.empty()) s.file = make_file();
  const int status = use(ends[0], s);
  close(ends[0]);
  int childs = 0;
  waitpid(child, &childs, 0);
  if (status != 0) return status;
  return WIFEXITED(childs) ? WEXITSTATUS(childs) : 1;
}

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) fail(path + " is too long for a socket");
  path.copy(address.sun_path, path.size());
  return address;
}

int run_daemon(const settings& s) {
  const fd_t listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_un address = address_of(s.socket);
  unlink(s.socket.c_str());
  if (bind(listener.fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      listen(listener.fd, 16) != 0)
    fail_errno(s.socket);
  std::printf("daemon at %s\n", s.socket.c_str());
  std::fflush(stdout);
  for (;;) {
    const fd_t peer(accept4(listener.fd, nullptr, nullptr, SOCK_CLOEXEC));
    if (peer.fd < 0) continue;
    try {
      serve(peer.fd, s);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "a client: %s\n", error.what());
    }
  }
}

int run_client(const settings& s) {
  const fd_t daemon(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_un address = address_of(s.socket);
  if (connect(daemon.fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
    fail_errno(s.socket);
  return use(daemon.fd, s);
}

settings read_arguments(int count, char** values) {
  settings s;
  for (int i = 1; i < count; ++i) {
    const std::string name = values[i];
    const auto value = [&]() -> std::string {
      if (++i >= count) fail(name + " wants a value");
      return values[i];
    };
    if (name == "--host") {
      s.on_host = true;
    } else if (name == "--engine") {
      s.ring.engine = value();
    } else if (name == "--depth") {
      s.ring.depth = static_cast<unsigned>(std::stoul(value()));
    } else if (name == "--threads") {
      s.ring.threads = static_cast<unsigned>(std::stoul(value()));
    } else if (name == "--piece") {
      s.ring.piece = std::stoul(value());
    } else if (name == "--daemon" || name == "--client") {
      (name == "--daemon" ? s.is_daemon : s.is_client) = true;
      s.socket = value();
    } else if (name[0] != '-' && s.file.empty()) {
      s.file = name;
    } else {
      fail("unknown: " + name);
    }
  }
  if (s.is_client && s.file.empty()) fail("--client SOCKET FILE");
  if (s.ring.depth == 0 || s.ring.piece == 0) fail("--depth and --piece are at least 1");
  return s;
}

}  // namespace

int main(int count, char** values) {
  try {
    const settings s = read_arguments(count, values);
    return s.is_daemon ? run_daemon(s) : s.is_client ? run_client(s) : both(s);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "file_to_gpu: %s\n", error.what());
    return 1;
  }
}
