// Transports with GPU memory: both ends in one process, then two processes that were started
// without a launcher. On the real driver, or on the mock. Writes, reads and notifications of sizes
// from one word to many pieces, between two GPUs' memory (or two places of one GPU) and between GPU
// and host.
//   transport_gpu [must]
// Exit status 77, with the reason, where there is no GPU; with "must" that is a failure.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "lci/buffer.hpp"
#include "lci/errors.hpp"
#include "lci/memory.hpp"
#include "lci/transport.hpp"
#include "tests/transport/pattern.hpp"
#include "tests/transport/usual_options.hpp"

namespace {

using transport_test::pattern;
using bytes = std::vector<std::uint8_t>;

constexpr std::size_t SIZES[] = {8, 1000, 65536, (1 << 20) + 24, 4 << 20};
constexpr std::size_t LARGEST = 4 << 20;
constexpr std::uint64_t OVER = 1000;

void demand(bool is_so, const std::string& what) {
  if (!is_so) throw std::runtime_error(what);
}

enum class made_by { buffer, cuda_malloc };

// Memory of the host or a GPU, with what it takes to look at it. Made as a buffer, or, of a GPU, as
// programs do that know nothing of lci.
class place {
 public:
  explicit place(int device, made_by how = made_by::buffer)
      : plain_(device < 0 ? 0 : device),
        allocated_(how == made_by::cuda_malloc && device >= 0 ? plain_.allocate(LARGEST) : nullptr),
        buffer_(allocated_ != nullptr ? lci::buffer::wrap(allocated_, LARGEST)
                                      : lci::buffer::create(LARGEST, device)),
        copier_(device),
        memory_(buffer_.data(), LARGEST) {
    fill(bytes(LARGEST, 0));
  }
  ~place() {
    memory_ = {};
    buffer_ = {};
    if (allocated_ != nullptr) plain_.deallocate(allocated_);
  }
  place(const place&) = delete;
  place& operator=(const place&) = delete;
  void fill(const bytes& with) {
    copier_.wait(copier_.start(buffer_.data(), with.data(), with.size()));
  }
  bytes content(std::size_t size) {
    bytes out(size);
    copier_.wait(copier_.start(out.data(), buffer_.data(), size));
    return out;
  }
  lci::memory& memory() { return memory_; }

 private:
  lci::device_allocator_t plain_;
  void* allocated_;
  lci::buffer buffer_;
  lci::buffer_copier copier_;
  lci::memory memory_;
};

int gpu_of(int side) { return side % lci::gpu_count(); }

std::string sides(bool here_is_gpu, bool there_is_gpu, std::size_t size) {
  return std::string(here_is_gpu ? "GPU" : "host") + " to " + (there_is_gpu ? "GPU" : "host") +
         ", " + std::to_string(size) + " bytes";
}

// Writes to the other side, which compares and says so, and reads back what it wrote.
void use(lci::transport& link, place& mine, const lci::remote_buffer& there, std::size_t size,
         std::uint64_t tag, const std::string& what) {
  const bytes sent = pattern(size, static_cast<unsigned>(tag));
  mine.fill(sent);
  link.write(mine.memory().view(0, size), there.slice(0, size), true, tag).get();
  demand(link.wait_for_write().tag == tag, what + ": another answer");
  mine.fill(bytes(size, 0));
  link.read(mine.memory().view(0, size), there.slice(0, size)).get();
  demand(mine.content(size) == sent, what + ": what was read is not what was written");
}

// The side that only answers, in a thread or process of its own: each notification says that a
// pattern is there, of the size that its tag names. It is answered once that was compared.
void listen(lci::transport& link, place* const (&places)[2], const lci::remote_buffer& answers) {
  for (;;) {
    const lci::notification note = link.wait_for_write();
    if (note.tag == OVER) return;
    const std::size_t size = SIZES[note.tag / 4];
    const bool is_gpu = note.tag % 2 != 0;
    demand(places[is_gpu ? 1 : 0]->content(size) == pattern(size, static_cast<unsigned>(note.tag)),
           "at wait_for_write(): the bytes of tag " + std::to_string(note.tag) + " are not there");
    link.write(places[0]->memory().view(0, 8), answers.slice(0, 8), true, note.tag).get();
  }
}

void all_ways(lci::transport& link, const lci::remote_buffer (&there)[2],
              made_by how = made_by::buffer) {
  place host(lci::buffer::HOST), gpu(gpu_of(0), how);
  for (std::size_t i = 0; i < std::size(SIZES); ++i) {
    for (int from = 0; from < 2; ++from)
      for (int to = 0; to < 2; ++to)
        use(link, from == 0 ? host : gpu, there[to], SIZES[i],
            4 * i + 2 * static_cast<unsigned>(from) + static_cast<unsigned>(to),
            sides(from != 0, to != 0, SIZES[i]));
  }
  link.write(host.memory().view(0, 8), there[0].slice(0, 8), true, OVER).get();
  std::printf("%s\n", link.describe().c_str());
}

// Where the answers go; nobody reads them.
struct answer_place {
  std::uint64_t word = 0;
  lci::memory memory{&word, sizeof word};
};

// Runs `first` here and `second` in a thread. Who fails closes its end, so that the other one fails
// too instead of waiting, and the first error is thrown.
void both(lci::transport& a, lci::transport& b, const std::function<void()>& first,
          const std::function<void()>& second) {
  std::exception_ptr errors[2];
  const auto run = [](lci::transport& own, const std::function<void()>& what,
                      std::exception_ptr& error) {
    try {
      what();
    } catch (...) {
      error = std::current_exception();
      own.close();
    }
  };
  std::thread other([&] { run(b, second, errors[1]); });
  run(a, first, errors[0]);
  other.join();
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

void in_one_process(made_by how) {
  lci::transport a(transport_test::usual()), b(transport_test::usual());
  place host(lci::buffer::HOST), gpu(gpu_of(1), how);
  place* const places[2] = {&host, &gpu};
  answer_place answers;
  const lci::remote_buffer there[2] = {host.memory().remote(), gpu.memory().remote()};
  const std::string url = a.bind();
  both(
      a, b,
      [&] {
        a.wait_connected();
        all_ways(a, there, how);
      },
      [&] {
        b.connect(url);
        b.wait_connected();
        listen(b, places, answers.memory.remote());
      });
}

// A line through a pipe.
void tell(int to, const std::string& line) {
  demand(
      ::write(to, (line + "\n").data(), line.size() + 1) == static_cast<ssize_t>(line.size() + 1),
      "write to a pipe");
}
std::string hear(int from) {
  std::string line;
  for (char c = 0; ::read(from, &c, 1) == 1 && c != '\n';) line += c;
  return line;
}

int other_process(int from, int to) {
  lci::transport link(transport_test::usual());
  place host(lci::buffer::HOST), gpu(gpu_of(1));
  place* const places[2] = {&host, &gpu};
  link.connect(hear(from));
  const lci::remote_buffer answers = lci::remote_buffer::parse(hear(from));
  tell(to, host.memory().remote().to_string());
  tell(to, gpu.memory().remote().to_string());
  link.wait_connected();
  listen(link, places, answers);
  tell(to, "over");
  hear(from);  // until then the memory is the peer's
  return 0;
}

// fork() before anything of the driver: a child of a process that has used it may not.
void in_two_processes() {
  int down[2], up[2];
  demand(::pipe(down) == 0 && ::pipe(up) == 0, "pipe");
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(down[1]);
    ::close(up[0]);
    try {
      ::_exit(other_process(down[0], up[1]));
    } catch (const std::exception& error) {
      std::fprintf(stderr, "the other process: %s\n", error.what());
      ::_exit(1);
    }
  }
  ::close(down[0]);
  ::close(up[1]);
  int status = 0;
  try {
    lci::transport link(transport_test::usual());
    answer_place answers;
    tell(down[1], link.bind());
    tell(down[1], answers.memory.remote().to_string());
    const std::string host = hear(up[0]), gpu = hear(up[0]);
    demand(!gpu.empty(), "the other process has ended");
    link.wait_connected();
    all_ways(link, {lci::remote_buffer::parse(host), lci::remote_buffer::parse(gpu)});
    demand(hear(up[0]) == "over", "the other process has not compared everything");
    link.close();
  } catch (...) {
    ::kill(child, SIGKILL);
    ::waitpid(child, &status, 0);
    throw;
  }
  ::close(down[1]);
  ::waitpid(child, &status, 0);
  demand(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the other process failed");
}

// A transport that is to use no GPU memory refuses it by name.
void refused() {
  lci::transport_options without = transport_test::usual();
  without.use_gpu = false;
  lci::transport a(without), b(transport_test::usual());
  const std::string url = a.bind();
  both(
      a, b, [&] { a.wait_connected(); },
      [&] {
        b.connect(url);
        b.wait_connected();
      });
  place host(lci::buffer::HOST), gpu(gpu_of(0));
  try {
    a.write(gpu.memory().view(0, 8), host.memory().remote().slice(0, 8)).get();
  } catch (const std::exception& error) {
    demand(std::strstr(error.what(), "GPU") != nullptr, error.what());
    return;
  }
  demand(false, "GPU memory was used although use_gpu is false");
}

// In a process of its own: who forks must not have used the driver.
bool has_gpu() {
  const pid_t child = ::fork();
  if (child == 0) {
    std::string why_not;
    const bool is_there = lci::gpu_available(why_not);
    if (!is_there) std::printf("skipped: %s\n", why_not.c_str());
    std::fflush(stdout);
    ::_exit(is_there ? 0 : 77);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  demand(WIFEXITED(status), "the look for a GPU crashed");
  return WEXITSTATUS(status) == 0;
}

}  // namespace

int main(int argc, char**) {
  try {
    if (!has_gpu()) {
      demand(argc < 2, "there is no GPU");
      return 77;
    }
    std::string why_not;
    if (!lci::transport::supported(&why_not)) {
      std::printf("skipped: %s\n", why_not.c_str());
      return 77;
    }
    in_two_processes();
    in_one_process(made_by::buffer);
    in_one_process(made_by::cuda_malloc);
    refused();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "transport_gpu: %s\n", error.what());
    return 1;
  }
  std::printf("transport_gpu: ok\n");
  return 0;
}
