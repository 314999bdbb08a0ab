// Memory that two programs share, on the real driver and on the mock: an owner, which is this
// program once more, and an importer. Each kind of memory: bytes both ways, what an import costs,
// many rounds with descriptors and GPU memory counted, an owner that is killed.
//
//   gpu_sharing [--host] [--rounds N]     status 77 where there is no GPU
#include <dirent.h>
#include <dlfcn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "lci/buffer.hpp"
#include "lci/memory.hpp"

namespace {

constexpr std::size_t SIZE = std::size_t{8} << 20;
constexpr std::size_t PART_AT = 4096 + 64, PART = 100000;

void require(bool is_true, const char* what) {
  if (!is_true) throw std::runtime_error(what);
}

void say(int fd, const std::string& text) {
  const std::size_t size = text.size();
  require(send(fd, &size, sizeof(size), MSG_NOSIGNAL) == sizeof(size) &&
              send(fd, text.data(), size, MSG_NOSIGNAL) == static_cast<ssize_t>(size),
          "the other program has ended");
}
std::string hear(int fd) {
  std::size_t size = 0;
  if (recv(fd, &size, sizeof(size), MSG_WAITALL) != sizeof(size)) return "";
  std::string text(size, '\0');
  return recv(fd, text.data(), size, MSG_WAITALL) == static_cast<ssize_t>(size) ? text : "";
}

std::vector<char> pattern(char seed) {
  std::vector<char> bytes(PART);
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<char>(i * 7 + i / 251 + static_cast<unsigned char>(seed));
  return bytes;
}
void fill(const lci::buffer& to, char seed) {
  lci::buffer_copier copier(to.device());
  const std::vector<char> bytes = pattern(seed);
  copier.wait(copier.start(to.data(), bytes.data(), bytes.size()));
}
void expect(const lci::buffer& in, char seed) {
  lci::buffer_copier copier(in.device());
  std::vector<char> bytes(PART);
  in.sync(lci::buffer_sync::after);
  copier.wait(copier.start(bytes.data(), in.data(), bytes.size()));
  require(bytes == pattern(seed), "the bytes are not those that were written");
}

// kind: "vmm", "wrapped" or "host".
int own(int fd, const std::string& kind) {
  lci::device_allocator_t allocator(0);
  void* const given = kind == "wrapped" ? allocator.allocate(SIZE) : nullptr;
  lci::buffer whole = given != nullptr
                          ? lci::buffer::wrap(given, SIZE)
                          : lci::buffer::create(SIZE, kind == "host" ? lci::buffer::HOST : 0);
  lci::buffer part = whole.slice(PART_AT, PART);
  fill(part, 1);
  if (kind != "host")
    lci::buffer::serve();  // needed where the system lets no process reach into another
  say(fd, part.export_handle());
  say(fd, part.describe());
  for (std::string heard = hear(fd); !heard.empty(); heard = hear(fd)) {
    if (heard == "look") expect(part, 2);
    if (heard == "anew") part.revoke();
    say(fd, heard == "anew" ? part.export_handle() : "seen");
  }
  lci::buffer::stop_serving();
  part = lci::buffer();
  whole = lci::buffer();
  allocator.deallocate(given);
  return 0;
}

class owner {
 public:
  explicit owner(const char* kind) {
    int ends[2];
    require(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair");
    fd_ = ends[0];
    child_ = fork();
    if (child_ == 0) {
      close(ends[0]);
      const std::string number = std::to_string(ends[1]);
      execl("/proc/self/exe", "gpu_sharing", "--own", number.c_str(), kind, nullptr);
      _exit(1);
    }
    close(ends[1]);
  }
  ~owner() {
    close(fd_);
    if (child_ > 0) waitpid(child_, nullptr, 0);
  }
  void kill() {
    ::kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
    child_ = -1;
  }
  // With its status, which must be that of success.
  void end() {
    shutdown(fd_, SHUT_RDWR);
    int status = 1;
    waitpid(child_, &status, 0);
    child_ = -1;
    require(status == 0, "the owner found something wrong");
  }
  int fd() const { return fd_; }

 private:
  int fd_ = -1;
  pid_t child_ = -1;
};

double microseconds(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
      .count();
}

std::size_t descriptors() {
  std::size_t count = 0;
  DIR* const folder = opendir("/proc/self/fd");
  while (readdir(folder) != nullptr) ++count;
  closedir(folder);
  return count;
}
// Of GPU 0; 0 where the driver does not tell.
std::size_t free_gpu_memory() {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (driver == nullptr || dlsym(driver, "cuMemGetInfo_v2") == nullptr) return 0;
  const auto call = [driver](const char* name, auto... arguments) {
    reinterpret_cast<int (*)(decltype(arguments)...)>(dlsym(driver, name))(arguments...);
  };
  void* context = nullptr;
  std::size_t free = 0, all = 0;
  call("cuDevicePrimaryCtxRetain", &context, 0);
  call("cuCtxPushCurrent_v2", context);
  call("cuMemGetInfo_v2", &free, &all);
  call("cuCtxPopCurrent_v2", &context);
  call("cuDevicePrimaryCtxRelease_v2", 0);
  return free;
}

void expect_gone(const lci::buffer& b) {
  try {
    b.check();
  } catch (const lci::buffer_error& error) {
    require(error.fault() == lci::buffer_fault::owner_gone, "the wrong fault");
    return;
  }
  throw std::runtime_error("a killed owner was not noticed");
}

void run(const char* kind, int rounds) {
  owner other(kind);
  std::string handle = hear(other.fd());
  const std::string what = hear(other.fd());
  require(!handle.empty(), "the owner has ended");
  auto start = std::chrono::steady_clock::now();
  lci::buffer b = lci::buffer::import(handle);
  const double first = microseconds(start);
  start = std::chrono::steady_clock::now();
  for (int i = 0; i < 1000; ++i) lci::buffer::import(handle);
  const double again = microseconds(start) / 1000;
  expect(b, 1);
  fill(b, 2);
  b.sync(lci::buffer_sync::before);
  say(other.fd(), "look");
  require(hear(other.fd()) == "seen", "the owner found other bytes");
  const std::string here = b.describe();
  b = lci::buffer();
  const std::size_t open_before = descriptors(), free_before = free_gpu_memory();
  std::vector<double> each;
  for (int i = 0; i < rounds; ++i) {
    say(other.fd(), "anew");
    handle = hear(other.fd());
    start = std::chrono::steady_clock::now();
    lci::buffer::import(handle).check();
    each.push_back(microseconds(start));
  }
  require(descriptors() == open_before, "descriptors are left");
  // Other programs may use the same GPU; a leak of each round takes at least a granule of 2 MiB
  // each time.
  require(free_gpu_memory() + (static_cast<std::size_t>(rounds) << 20) >= free_before,
          "GPU memory is left");
  std::sort(each.begin(), each.end());
  std::printf(
      "%s: first import %.1f us, again %.3f us, each of %d rounds %.1f us\n  owner: %s\n  "
      "importer: %s\n",
      kind, first, again, rounds, each.empty() ? 0.0 : each[each.size() / 2], what.c_str(),
      here.c_str());
  other.end();
  owner killed(kind);
  b = lci::buffer::import(hear(killed.fd()));
  killed.kill();
  expect_gone(b);
}

}  // namespace

int main(int count, char** values) {
  try {
    const std::string first = count > 1 ? values[1] : "";
    if (first == "--own" && count == 4) return own(std::atoi(values[2]), values[3]);
    const bool on_host = first == "--host";
    const int rounds = count > 2 && std::string(values[count - 2]) == "--rounds"
                           ? std::atoi(values[count - 1])
                           : 100;
    std::string why_not;
    if (!on_host && !lci::gpu_available(why_not)) {
      std::printf("skipped: %s\n", why_not.c_str());
      return 77;
    }
    // The page of descriptors that stays open is made now.
    lci::buffer::create(1).export_handle();
    if (on_host) {
      run("host", rounds);
    } else {
      run("vmm", rounds);
      run("wrapped", rounds);
    }
    return 0;
  } catch (const std::exception& error) {
    std::printf("failed: %s\n", error.what());
    return 1;
  }
}
