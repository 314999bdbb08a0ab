// Transports beside what they are made of: half a round trip of a write with notification by size;
// a stream of writes by size; and the making of many transports. With --gpu the memory is that of
// GPUs, one for each end where there are two. Each alone: 8 bytes beside lci's own put with signal;
// host memory over TCP by turns with a plain socket.
//
//   bench_transport [--largest bytes] [--provider shm|ofi] [--two-processes] [--gpu] [--many n]
//   [--quick]
//   bench_transport --against-socket [--largest bytes] [--quick]      1 MiB and up, over TCP
//   lcrun -n 2 bench_transport --job [--provider shm|ofi] [--quick]     8 bytes, a job's put and a
//   transport's write
//
// Prints one JSON object per line. One process and one thread for both ends, unless told otherwise.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "against_socket.hpp"
#include "ends.hpp"
#include "lci.hpp"
#include "lci/buffer.hpp"

namespace {

using namespace transport_bench;

struct settings {
  std::size_t largest = std::size_t{256} << 20;
  std::vector<std::string> providers;
  bool two_processes = false, is_quick = false, is_job = false, of_gpu = false,
       is_against_socket = false;
  int many = 0;
};

void print(const char* what, std::size_t size, double us, double bytes, const std::string& way) {
  std::printf(
      "{\"bench\": \"transport\", \"what\": \"%s\", \"bytes\": %zu, \"us\": %.3f, "
      "\"GiB_per_s\": %.3f, \"way\": \"%s\"}\n",
      what, size, us, bytes / (us * 1e-6) / (1 << 30), way.c_str());
  std::fflush(stdout);
}

double ping_pong(end& at, const lci::remote_buffer& there, int rounds) {
  const double start = now_us();
  for (int i = 0; i < rounds; ++i) {
    const lci::transfer done = at.link.write(at.memory.view(0, there.size()), there, true);
    at.link.wait_for_write();
    done.get();
  }
  return (now_us() - start) / rounds / 2;
}

int rounds_of(std::size_t size, const settings& s) {
  const std::size_t bytes = s.is_quick ? std::size_t{64} << 20 : std::size_t{2} << 30;
  const std::size_t rounds = std::min<std::size_t>(s.is_quick ? 2000 : 20000, bytes / size);
  return static_cast<int>(std::max<std::size_t>(rounds, 4));
}

// With memory of a kind that other processes could map: `gpu` is its number, or that of the host.
struct end_with_buffer {
  end_with_buffer(const lci::transport_options& options, std::size_t bytes,
                  int gpu = lci::buffer::HOST)
      : buffer(lci::buffer::create(bytes, gpu)), at(options, buffer.data(), bytes) {}
  lci::buffer buffer;
  end at;
};
int gpu_of(const settings& s, int side) {
  return s.of_gpu ? side % lci::gpu_count() : lci::buffer::HOST;
}

// In two processes the answering one gets URL and key through pipes.
void row(const settings& s, std::size_t size) {
  lci::transport_options options;
  options.providers = s.providers;
  int to_child[2], to_parent[2];
  pid_t child = -1;
  if (s.two_processes) {
    if (pipe(to_child) != 0 || pipe(to_parent) != 0) std::abort();
    child = fork();
    // Who ends early leaves no open pipe behind, so that the other one does not wait.
    close(child == 0 ? to_child[1] : to_child[0]);
    close(child == 0 ? to_parent[0] : to_parent[1]);
  }
  if (child == 0) {
    char text[4096] = {};
    if (read(to_child[0], text, sizeof text - 1) <= 0) _exit(1);
    const std::string both(text);
    end_with_buffer of_b(options, size, gpu_of(s, 1));
    end& b = of_b.at;
    const std::string key = b.memory.remote().to_string();
    if (write(to_parent[1], key.data(), key.size()) < 0) _exit(1);
    const std::size_t cut = both.find('\n');
    b.link.connect(both.substr(0, cut));
    answer(b, lci::remote_buffer::parse(both.substr(cut + 1)));
    _exit(0);
  }
  end_with_buffer of_a(options, size, gpu_of(s, 0));
  end& a = of_a.at;
  std::thread other;
  std::unique_ptr<end_with_buffer> b;
  lci::remote_buffer there;
  const lci::remote_buffer here = a.memory.remote();
  const std::string url = a.link.bind();
  if (s.two_processes) {
    const std::string both = url + "\n" + here.to_string();
    char text[4096] = {};
    if (write(to_child[1], both.data(), both.size()) < 0) std::abort();
    if (read(to_parent[0], text, sizeof text - 1) <= 0) std::abort();
    there = lci::remote_buffer::parse(text);
    a.link.wait_connected();
  } else {
    b.reset(new end_with_buffer(options, size, gpu_of(s, 1)));
    there = b->at.memory.remote();
    b->at.link.connect(url);
    while (!a.link.connected() || !b->at.link.connected()) a.link.process(), b->at.link.process();
    other = std::thread([&] { answer(b->at, here); });
  }
  const int rounds = rounds_of(size, s);
  ping_pong(a, there, std::max(rounds / 10, 2));
  std::string where = s.two_processes ? "two processes" : "one process";
  if (s.of_gpu) where += lci::gpu_count() > 1 ? ", two GPUs" : ", one GPU";
  const double latency = ping_pong(a, there, rounds);
  print(("latency, " + where).c_str(), size, latency, static_cast<double>(size), way_of(a.link));
  const double per_write = stream(a, there, rounds);
  print(("stream, " + where).c_str(), size, per_write, static_cast<double>(size), way_of(a.link));
  a.link.write(a.memory.view(0, 8), there.slice(0, 8), true, 2).get();
  if (other.joinable()) other.join();
  if (child > 0) {
    a.link.close();
    waitpid(child, nullptr, 0);
    for (const int fd : {to_child[1], to_parent[0]}) close(fd);
  }
}

// Asked in a process of its own, see below.
bool has_gpu() {
  const pid_t one = fork();
  if (one == 0) {
    std::string why_not;
    const bool is_there = lci::gpu_available(why_not);
    if (!is_there) std::fprintf(stderr, "no GPU: %s\n", why_not.c_str());
    _exit(is_there ? 0 : 77);
  }
  int status = 0;
  waitpid(one, &status, 0);
  return status == 0;
}

// Two processes are made by one that has used no GPU: a child of one that has may use none.
void rows(const settings& s) {
  for (std::size_t size = 8; size <= s.largest; size = size == 8 ? 8192 : size * 2) {
    if (!s.two_processes) {
      row(s, size);
      continue;
    }
    const pid_t one = fork();
    if (one == 0) {
      row(s, size);
      _exit(0);
    }
    int status = 0;
    waitpid(one, &status, 0);
    if (status != 0) std::abort();
  }
}

// The same two processes: a put with signal of their job, then a write with notification, by turns.
double job_ping_pong(int rounds) {
  const int me = lci::get_rank_me();
  std::vector<char> bytes(64, 1);
  lci::mr_t region = lci::register_memory(bytes.data(), bytes.size());
  lci::rmr_t mine = lci::get_rmr(region), theirs;
  lci::comp_t came = lci::alloc_counter();
  const lci::rcomp_t number = lci::register_rcomp(came);
  lci::comp_t heard = lci::alloc_sync();
  lci::post_recv_x(1 - me, &theirs, sizeof theirs, 1, heard).allow_done(false)();
  lci::post_send(1 - me, &mine, sizeof mine, 1, lci::COMP_NULL);
  lci::sync_wait(heard, nullptr);
  lci::barrier();
  double start = 0;
  const int warm = rounds / 10;
  for (int i = 0; i < warm + rounds; ++i) {
    if (i == warm) start = now_us();
    for (int half = 0; half < 2; ++half) {
      if (half == me)
        while (lci::post_put_x(1 - me, bytes.data(), 8, lci::COMP_NULL_RETRY, 0, theirs)
                   .remote_comp(number)
                   .mr(region)()
                   .is_retry())
          lci::progress();
      else
        while (lci::counter_get(came) <= i) lci::progress();
    }
  }
  const double us = (now_us() - start) / rounds / 2;
  lci::barrier();
  lci::free_comp(&heard);
  lci::deregister_memory(&region);
  return us;
}

double transport_ping_pong(int rounds, const settings& s) {
  const int me = lci::get_rank_me();
  lci::transport_options options;
  options.providers = s.providers;
  end_with_buffer of_me(options, 64);
  end& at = of_me.at;
  char mine[2048] = {}, theirs[2048] = {};
  std::string text = at.memory.remote().to_string();
  text += '\n';
  if (me == 0) text += at.link.bind();
  std::memcpy(mine, text.data(), text.size());
  lci::comp_t heard = lci::alloc_sync();
  lci::post_recv_x(1 - me, theirs, sizeof theirs, 2, heard).allow_done(false)();
  lci::post_send(1 - me, mine, sizeof mine, 2, lci::COMP_NULL);
  lci::sync_wait(heard, nullptr);
  lci::free_comp(&heard);
  const std::string other(theirs);
  const std::size_t cut = other.find('\n');
  const lci::remote_buffer there = lci::remote_buffer::parse(other.substr(0, cut)).slice(0, 8);
  if (me == 1) at.link.connect(other.substr(cut + 1));
  at.link.wait_connected();
  double start = 0;
  const int warm = rounds / 10;
  for (int i = 0; i < warm + rounds; ++i) {
    if (i == warm) start = now_us();
    for (int half = 0; half < 2; ++half) {
      if (half == me)
        at.link.write(at.memory.view(0, 8), there, true);
      else
        at.link.wait_for_write();
    }
  }
  const double us = (now_us() - start) / rounds / 2;
  lci::barrier();
  return us;
}

void beside_a_job(const settings& s) {
  lci::g_runtime_init();
  const int rounds = s.is_quick ? 2000 : 20000;
  std::vector<double> of_job, of_transport;
  for (int i = 0; i < 5; ++i) {
    of_job.push_back(job_ping_pong(rounds));
    of_transport.push_back(transport_ping_pong(rounds, s));
  }
  std::sort(of_job.begin(), of_job.end());
  std::sort(of_transport.begin(), of_transport.end());
  if (lci::get_rank_me() == 0)
    std::printf(
        "{\"bench\": \"transport\", \"what\": \"8 bytes beside a job\", \"put_us\": %.3f, "
        "\"write_us\": %.3f, \"ratio\": %.2f}\n",
        of_job[2], of_transport[2], of_transport[2] / of_job[2]);
  lci::g_runtime_fina();
}

void many_transports(int count) {
  const double start = now_us();
  std::vector<std::unique_ptr<lci::transport>> all;
  for (int i = 0; i < count; i += 2) {
    all.emplace_back(new lci::transport);
    all.emplace_back(new lci::transport);
    lci::transport &a = *all[all.size() - 2], &b = *all.back();
    b.connect(a.bind());
    while (!a.connected() || !b.connected()) a.process(), b.process();
  }
  const double us = now_us() - start;
  std::printf(
      "{\"bench\": \"transport\", \"what\": \"many transports\", \"count\": %d, "
      "\"us_each\": %.1f}\n",
      count, us / count);
}

}  // namespace

int main(int argc, char** argv) {
  settings s;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--largest" && i + 1 < argc)
      s.largest = std::strtoull(argv[++i], nullptr, 0);
    else if (word == "--provider" && i + 1 < argc)
      s.providers = {argv[++i]};
    else if (word == "--many" && i + 1 < argc)
      s.many = std::atoi(argv[++i]);
    else if (word == "--two-processes")
      s.two_processes = true;
    else if (word == "--gpu")
      s.of_gpu = true;
    else if (word == "--quick")
      s.is_quick = true;
    else if (word == "--job")
      s.is_job = true;
    else if (word == "--against-socket")
      s.is_against_socket = true;
    else
      return std::fprintf(stderr, "bench_transport: what is %s?\n", word.c_str()), 2;
  }
  if (s.is_job) return beside_a_job(s), 0;
  if (s.is_against_socket) return against_socket(s.largest, s.is_quick), 0;
  if (s.of_gpu && !has_gpu()) return 77;
  rows(s);
  if (s.many > 0) many_transports(s.many);
}
