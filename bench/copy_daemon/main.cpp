// bench_copy_daemon: a file in the page cache into another process's memory, in a GPU if there is
// one, by the ring of examples/file_to_gpu; against pread() into (pinned) memory by as many threads
// and, for a GPU, a stream of copies out of pinned memory. In turn in one run; the ratio is that of
// the daemon to the slower of the others.
//
//   bench_copy_daemon [--size BYTES] [--threads N] [--piece BYTES] [--rounds N] [--engine E]
//   [--host]
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>

#include "examples/file_ring.hpp"
#include "examples/gpu_memory.hpp"

namespace {

struct settings {
  std::size_t size = std::size_t{4} << 30;
  int rounds = 5;
  bool on_host = false;
  file_ring_options ring;
};

double gigabytes_a_second(std::size_t size, const std::function<void()>& what) {
  const auto start = std::chrono::steady_clock::now();
  what();
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  return static_cast<double>(size) / time.count() / 1e9;
}

double median(std::vector<double> all) {
  std::sort(all.begin(), all.end());
  return all[all.size() / 2];
}

// It has no name and ends with the program. Just written, so it is in the page cache.
int make_file(std::size_t size) {
  const char* const folder = std::getenv("TMPDIR");
  const int fd = open(folder != nullptr ? folder : ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd < 0) throw std::runtime_error(std::string("no file in TMPDIR: ") + std::strerror(errno));
  std::vector<uint64_t> words(1 << 17);
  for (std::size_t at = 0; at < size; at += words.size() * 8) {
    for (std::size_t i = 0; i < words.size(); ++i) words[i] = at + i * 0x9e3779b97f4a7c15;
    const std::size_t part = std::min(size - at, words.size() * 8);
    if (write(fd, words.data(), part) != static_cast<ssize_t>(part))
      throw std::runtime_error(std::string("write: ") + std::strerror(errno));
  }
  return fd;
}

// The other process: it has the memory, and nothing to do.
int own_memory(int socket, const settings& s) {
  const bool is_gpu = !s.on_host && lci::gpu_available();
  if (is_gpu) lci::buffer::serve();
  lci::buffer memory = lci::buffer::create(s.size, is_gpu ? 0 : lci::buffer::HOST);
  if (!is_gpu) std::memset(memory.data(), 1, memory.size());
  const std::string handle = memory.export_handle();
  if (send(socket, handle.data(), handle.size(), MSG_NOSIGNAL) < 0) return 1;
  char end = 0;
  return recv(socket, &end, 1, 0) < 0;
}

class bench {
 public:
  bench(const settings& s, int file, lci::buffer to)
      : s_(s), file_(file), to_(std::move(to)), is_gpu_(to_.is_gpu()) {
    options_ = s.ring;
    options_.device = to_.device();
    const int device = to_.device();
    options_.gpu_thread = [device] { static thread_local const gpu_t mine(device); };
    ring_.reset(new file_ring(file, options_));
    // For the others: as much memory on the host, a piece per thread of it pinned for a GPU.
    if (is_gpu_) {
      pinned_.reset(new lci::pinned_allocator_t(device));
      plain_size_ = options_.threads * options_.piece;
      plain_ = static_cast<char*>(pinned_->allocate(plain_size_));
    } else {
      plain_size_ = s.size;
      void* const at =
          mmap(nullptr, plain_size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (at == MAP_FAILED) throw std::runtime_error("no memory");
      plain_ = static_cast<char*>(at);
    }
    std::memset(plain_, 1, plain_size_);
  }
  void run() {
    std::vector<double> daemon, threads, copies;
    for (int round = 0; round <= s_.rounds; ++round) {
      const double by_daemon = gigabytes_a_second(s_.size, [this] { by_ring(); });
      const double by_threads = gigabytes_a_second(s_.size, [this] { by_pread(); });
      const double by_copies =
          is_gpu_ ? gigabytes_a_second(s_.size, [this] { by_copy_engine(); }) : by_threads;
      if (round == 0) continue;  // warms up
      daemon.push_back(by_daemon);
      threads.push_back(by_threads);
      copies.push_back(by_copies);
    }
    std::printf("%s\n%s\n", ring_->describe().c_str(), to_.describe().c_str());
    std::printf("daemon        %7.2f GB/s\npread         %7.2f GB/s, %u threads into %s memory\n",
                median(daemon), median(threads), options_.threads, is_gpu_ ? "pinned" : "private");
    if (is_gpu_) std::printf("copy engine   %7.2f GB/s out of pinned memory\n", median(copies));
    std::printf("ratio         %7.3f\n",
                median(daemon) / std::min(median(threads), median(copies)));
  }

 private:
  void by_ring() {
    const uint64_t got =
        read_by_ring(*ring_, static_cast<char*>(to_.data()), to_.size(), 0, options_.piece);
    if (got != s_.size) throw std::runtime_error("the file is shorter than it should be");
  }
  // Each thread takes the next piece of the file.
  void by_pread() {
    std::atomic<std::size_t> next{0};
    std::vector<std::thread> all;
    for (unsigned number = 0; number < options_.threads; ++number) {
      all.emplace_back([this, &next, number] {
        for (;;) {
          // Relaxed: the pieces have nothing to do with each other.
          const std::size_t at = next.fetch_add(options_.piece, std::memory_order_relaxed);
          if (at >= s_.size) return;
          const std::size_t part = std::min(options_.piece, s_.size - at);
          char* const to = plain_ + (is_gpu_ ? number * options_.piece : at);
          if (pread(file_, to, part, static_cast<off_t>(at)) != static_cast<ssize_t>(part))
            std::abort();
        }
      });
    }
    for (std::thread& each : all) each.join();
  }
  void by_copy_engine() {
    lci::buffer_copier copier(to_.device());
    uint64_t last = 0;
    for (std::size_t at = 0; at < s_.size; at += options_.piece) {
      const std::size_t part = std::min(options_.piece, s_.size - at);
      last = copier.start(static_cast<char*>(to_.data()) + at,
                          plain_ + at / options_.piece % options_.threads * options_.piece, part);
    }
    copier.wait(last);
  }

  const settings& s_;
  const int file_;
  lci::buffer to_;
  const bool is_gpu_;
  file_ring_options options_;
  std::unique_ptr<file_ring> ring_;
  std::unique_ptr<lci::pinned_allocator_t> pinned_;
  char* plain_ = nullptr;
  std::size_t plain_size_ = 0;
};

int run(const settings& s) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return 1;
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("no process for the memory's owner");
  if (child == 0) {
    close(ends[0]);
    _exit(own_memory(ends[1], s));
  }
  close(ends[1]);
  std::string handle(4096, '\0');
  const ssize_t got = recv(ends[0], &handle[0], handle.size(), 0);
  handle.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  const int file = make_file(s.size);
  bench(s, file, lci::buffer::import(handle)).run();
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

settings read_arguments(int count, char** values) {
  settings s;
  s.ring.threads = std::min(8u, std::max(1u, std::thread::hardware_concurrency()));
  s.ring.depth = 2 * s.ring.threads;
  for (int i = 1; i < count; ++i) {
    const std::string name = values[i];
    if (name == "--host") {
      s.on_host = true;
      continue;
    }
    if (++i >= count) throw std::invalid_argument(name + " wants a value");
    const std::string value = values[i];
    if (name == "--size") {
      s.size = std::stoull(value);
    } else if (name == "--threads") {
      s.ring.threads = static_cast<unsigned>(std::stoul(value));
      s.ring.depth = 2 * s.ring.threads;
    } else if (name == "--piece") {
      s.ring.piece = std::stoull(value);
    } else if (name == "--rounds") {
      s.rounds = std::stoi(value);
    } else if (name == "--engine") {
      s.ring.engine = value;
    } else {
      throw std::invalid_argument("unknown: " + name);
    }
  }
  if (s.size == 0 || s.rounds < 1 || s.ring.threads == 0 || s.ring.piece == 0)
    throw std::invalid_argument("sizes and numbers are at least 1");
  return s;
}

}  // namespace

int main(int count, char** values) {
  try {
    return run(read_arguments(count, values));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_copy_daemon: %s\n", error.what());
    return 1;
  }
}
