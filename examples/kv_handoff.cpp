// Two programs of a disaggregated inference service, without a job: prefill computes the pages of a
// key/value cache and writes them to decode, which checks each one as soon as a notification names
// it. Halfway prefill is killed; a new one reads which pages have arrived and sends the rest.
//
//   kv_handoff [pages] [largest page in KiB] [gpu]
//
// With "gpu" the cache and prefill's pages are in GPU memory, of two GPUs if there are two.
//
// What it shows: bind and connect; memory, its key as text; writes with notification and batches of
// them; reading a peer's memory; a peer that dies and one that takes its place.
#include <lci/buffer.hpp>
#include <lci/transport.hpp>

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

const std::size_t SMALLEST_PAGE = 16 * 1024, GROUP = 8;
const std::uint64_t OF_GROUP = std::uint64_t{1} << 32;  // bit of a tag that names a group of pages

// What both sides know: the size and place of each page, and the order in which they are computed.
struct plan {
  plan(std::size_t pages, std::size_t largest) : offset(1, 0), order(pages) {
    std::mt19937_64 random(42);
    for (std::size_t i = 0; i < pages; ++i) {
      std::size_t size = SMALLEST_PAGE;
      while (size < largest && random() % 4 != 0) size *= 2;
      offset.push_back(offset.back() + std::min(size, largest));
    }
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::shuffle(order.begin(), order.end(), random);
  }
  std::size_t pages() const { return order.size(); }
  std::size_t bytes() const { return offset.back(); }
  std::size_t size_of(std::size_t page) const { return offset[page + 1] - offset[page]; }
  std::vector<std::size_t> offset, order;
};

// Memory for all pages, of the host or a GPU. The processor, which stands for the model here, works
// on one page at a time in host memory.
class page_memory {
 public:
  // gpu: its number, or lci::buffer::HOST.
  page_memory(const plan& all, int gpu)
      : all_(all),
        bytes_(lci::buffer::create(all.bytes(), gpu)),
        copier_(gpu),
        memory_(bytes_.data(), all.bytes()) {}
  lci::memory& memory() { return memory_; }
  std::string describe() const { return bytes_.describe(); }

  void put(std::size_t page, const std::vector<std::uint64_t>& words) {
    copier_.wait(copier_.start(at(page), words.data(), all_.size_of(page)));
  }
  std::vector<std::uint64_t> take(std::size_t page) {
    std::vector<std::uint64_t> words(all_.size_of(page) / sizeof(std::uint64_t));
    copier_.wait(copier_.start(words.data(), at(page), all_.size_of(page)));
    return words;
  }

 private:
  char* at(std::size_t page) const { return static_cast<char*>(bytes_.data()) + all_.offset[page]; }
  const plan& all_;
  lci::buffer bytes_;
  lci::buffer_copier copier_;
  lci::memory memory_;
};

// Stands for the work of a model: words that depend on the page.
std::vector<std::uint64_t> compute(const plan& all, std::size_t page) {
  std::vector<std::uint64_t> words(all.size_of(page) / sizeof(std::uint64_t));
  std::uint64_t value = page * 0x9e3779b97f4a7c15u + 1;
  for (std::uint64_t& word : words)
    word = value = value * 6364136223846793005u + 1442695040888963407u;
  return words;
}

// Pages in groups of eight, in random order. Every other group is a batch with one notification,
// the pages of the others have one each.
int prefill(const plan& all, bool on_gpu) {
  std::string url, cache_text, done_text;
  if (!(std::cin >> url >> cache_text >> done_text))
    throw std::runtime_error("prefill is started by decode");
  const lci::remote_buffer cache = lci::remote_buffer::parse(cache_text);
  std::vector<std::uint8_t> is_done(all.pages());
  page_memory pages(all, on_gpu ? (lci::gpu_count() > 1 ? 1 : 0) : lci::buffer::HOST);
  lci::memory done_map(is_done.data(), is_done.size());
  lci::transport to_decode;
  to_decode.connect(url);
  to_decode.read(done_map.view(), lci::remote_buffer::parse(done_text)).get();

  std::vector<lci::transfer> sent;
  for (std::size_t first = 0; first < all.pages(); first += GROUP) {
    const std::size_t end = std::min(first + GROUP, all.pages());
    const bool is_batch = first / GROUP % 2 == 1;
    lci::transport::batch group;
    for (std::size_t i = first; i < end; ++i) {
      const std::size_t page = all.order[i], at = all.offset[page], size = all.size_of(page);
      if (is_done[page] != 0) continue;
      pages.put(page, compute(all, page));
      const lci::memory_view view = pages.memory().view(at, size);
      if (is_batch)
        group.write(view, cache.slice(at, size));
      else
        sent.push_back(to_decode.write(view, cache.slice(at, size), true, page));
    }
    if (!group.entries().empty()) {
      lci::transfer_options with_note;
      with_note.notify = true;
      with_note.tag = OF_GROUP | first / GROUP;
      sent.push_back(to_decode.submit(group, with_note));
    }
    to_decode.process();
  }
  for (const lci::transfer& one : sent) one.get();
  // Decode ends this process's connection when it has everything.
  try {
    to_decode.wait_for_write();
  } catch (const lci::peer_failure_error&) {
  }
  return 0;
}

// Every user of the machine can read a command line, and the URL contains the secret. So the texts
// go through a pipe, which holds them until they are read.
pid_t start_prefill(const plan& all, std::size_t largest, bool on_gpu, const std::string& texts) {
  const std::string pages = std::to_string(all.pages()), kib = std::to_string(largest / 1024);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0 ||
      write(ends[1], texts.data(), texts.size()) != static_cast<ssize_t>(texts.size()))
    throw std::runtime_error("no pipe to prefill");
  close(ends[1]);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[0], STDIN_FILENO);
    execl("/proc/self/exe", "kv_handoff", pages.c_str(), kib.c_str(), on_gpu ? "gpu" : "host",
          "prefill", static_cast<char*>(nullptr));
    std::perror("kv_handoff: exec");
    _exit(1);
  }
  close(ends[0]);
  // kill() would take -1 for all processes.
  if (child < 0) throw std::runtime_error("no process for prefill");
  return child;
}

int decode(const plan& all, std::size_t largest, bool on_gpu) {
  page_memory cache(all, on_gpu ? 0 : lci::buffer::HOST);
  std::vector<std::uint8_t> is_done(all.pages());
  lci::memory done_map(is_done.data(), is_done.size());
  lci::key_options write_only, read_only;
  write_only.can_read = false;
  read_only.can_write = false;
  lci::transport from_prefill;
  const std::string texts = from_prefill.bind() + " " +
                            cache.memory().remote(write_only).to_string() + " " +
                            done_map.remote(read_only).to_string() + "\n";
  pid_t child = start_prefill(all, largest, on_gpu, texts);

  std::size_t right = 0, wrong = 0, notes = 0;
  bool was_killed = false;
  const auto check = [&](std::size_t page) {
    if (page >= all.pages() || is_done[page] != 0) return;
    const bool good = cache.take(page) == compute(all, page);
    is_done[page] = good ? 1 : 0;
    ++(good ? right : wrong);
  };
  while (right < all.pages() && wrong == 0) {
    lci::notification note;
    if (!from_prefill.wait_for_write(1.0, &note)) {
      if (waitpid(child, nullptr, WNOHANG) == child) break;
      continue;
    }
    ++notes;
    if ((note.tag & OF_GROUP) == 0) {
      check(note.tag);
    } else {
      const std::size_t first = (note.tag & ~OF_GROUP) * GROUP;
      for (std::size_t i = first; i < std::min(first + GROUP, all.pages()); ++i)
        check(all.order[i]);
    }
    if (!was_killed && right >= all.pages() / 2) {
      was_killed = true;
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
      std::printf("prefill was killed after %zu pages; a new one sends the rest\n", right);
      child = start_prefill(all, largest, on_gpu, texts);
    }
  }
  from_prefill.close();
  waitpid(child, nullptr, 0);
  std::printf("the cache: %s\n", cache.describe().c_str());
  std::printf("%zu of %zu pages right, %zu wrong, %zu notifications, %.1f MiB\n", right,
              all.pages(), wrong, notes, static_cast<double>(all.bytes()) / (1 << 20));
  return right == all.pages() && wrong == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) try {
  const std::size_t pages = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 400;
  const std::size_t kib = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 64;
  const std::string where = argc > 3 ? argv[3] : "host";
  if (pages == 0 || kib * 1024 < SMALLEST_PAGE || (where != "host" && where != "gpu")) {
    std::fprintf(stderr, "usage: kv_handoff [pages] [largest page in KiB, at least 16] [gpu]\n");
    return 2;
  }
  const bool on_gpu = where == "gpu";
  std::string why;
  if (!lci::transport::supported(&why)) {
    std::printf("no transports here: %s\n", why.c_str());
    return 77;
  }
  if (on_gpu && !lci::gpu_available(why)) {
    std::printf("no GPU here: %s\n", why.c_str());
    return 77;
  }
  const plan all(pages, kib * 1024);
  return argc > 4 ? prefill(all, on_gpu) : decode(all, kib * 1024, on_gpu);
} catch (const std::exception& e) {
  std::fprintf(stderr, "kv_handoff: %s\n", e.what());
  return 1;
}
