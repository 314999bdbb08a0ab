// The last rank dies while threads in the place of kernels wait for it in every way that there is:
// each wait has to end with the status that says so, and progress throws the typed error. Run under
// lcrun --keep-going, two ranks, as
//   kernels progress|thread
#include <atomic>
#include <csignal>
#include <cstdio>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "lci.hpp"
#include "lci/device.cuh"
#include "lci/gpu.hpp"
#include "tests/support/watchdog.hpp"

namespace {

using lci::gpu::status;

constexpr lci::tag_t SILENCE = 11, GREETING = 12;
constexpr int LAST = 1;

struct waiting_kernel {
  const char* name;
  std::function<status()> wait;
};

// Where the last rank's memory is: it sends that first, and dies when it gets a greeting.
lci::rmr_t meet(lci::mr_t mr) {
  std::vector<lci::rmr_t> all(2);
  const lci::rmr_t mine = lci::get_rmr(mr);
  lci::allgather(&mine, all.data(), sizeof mine);
  return all[LAST];
}

void die() {
  char byte;
  lci::post_recv(0, &byte, 1, GREETING, lci::COMP_NULL);
  std::raise(SIGKILL);
}

int live(lci::attr_gpu_proxy_t how, lci::mr_t mr, const lci::rmr_t& rmr) {
  lci::gpu::endpoint_t ep =
      lci::alloc_gpu_endpoint_x().gpu(lci::gpu::NO_GPU).gpu_proxy(how).depth(64)();
  lci::gpu::queue_t queue = lci::alloc_gpu_queue_x(ep)();
  const lci::gpu::place_t own{lci::get_gpu_key_x(mr).endpoint(ep)(), 0};
  const lci::gpu::place_t there{lci::get_gpu_key_x(rmr).endpoint(ep).rank(LAST)(), 0};
  std::uint64_t word = 0, message = 0;
  const std::vector<waiting_kernel> kernels = {
      {"wait_until", [&] { return wait_until(ep, &word, lci::gpu::comparison::equal, 1, LAST); }},
      {"wait_until_any", [&] { return wait_until(ep, &word, lci::gpu::comparison::equal, 1); }},
      {"queue", [&] { return wait(queue, &message, sizeof message); }},
      {"receive",
       [&] {
         lci::gpu::ticket_t ticket;
         const status s = recv(ep, LAST, own, 8, SILENCE, &ticket);
         return s == status::ok ? wait_receive(ep, ticket) : s;
       }},
      {"receive_any",
       [&] {
         lci::gpu::ticket_t ticket;
         const status s = recv(ep, lci::gpu::ANY_RANK, own, 8, SILENCE, &ticket);
         return s == status::ok ? wait_receive(ep, ticket) : s;
       }},
      {"put",
       [&] {
         status s = status::ok;
         while (s == status::ok) {
           s = put(ep, LAST, there, own, 300);
           if (s == status::ok) s = quiet(ep, LAST);
         }
         return s;
       }},
      {"fetch_add",
       [&] {
         status s = status::ok;
         while (s == status::ok) s = fetch_add(ep, LAST, there, std::uint64_t{1}, &message);
         return s;
       }},
  };
  std::vector<status> said(kernels.size(), status::ok);
  std::atomic<std::size_t> running{kernels.size()};
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kernels.size(); ++i)
    threads.emplace_back([&, i] {
      said[i] = kernels[i].wait();
      running.fetch_sub(1);
    });
  static char byte = 0;
  while (lci::post_send(LAST, &byte, 1, GREETING, lci::COMP_NULL_RETRY).is_retry()) lci::progress();
  unsigned syndrome = 0;
  while (running.load() != 0 || syndrome == 0) {
    try {
      lci::progress();
    } catch (const lci::gpu_request_error& error) {
      std::printf("rank 0 heard: %s\n", error.what());
      if (error.peer() == LAST) syndrome = error.syndrome();
    } catch (const lci::peer_failure_error& error) {
      std::printf("rank 0 heard of rank %d: %s\n", error.failed_rank(), error.what());
    }
  }
  bool is_well = syndrome == 0x15;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    threads[i].join();
    std::printf("%s ended: %s\n", kernels[i].name, lci::gpu::text_of(said[i]));
    is_well = is_well && said[i] == status::peer_lost;
  }
  lci::free_gpu_queue(&queue);
  lci::free_gpu_endpoint(&ep);
  std::printf("%s\n", is_well ? "all kernels were told" : "NOT all were told");
  return is_well ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  lci::test::watchdog dog("kernels that wait for one that dies");
  const bool is_thread = argc > 1 && std::string(argv[1]) == "thread";
  lci::g_runtime_init();
  int result = 0;
  {
    std::vector<char> memory(512);
    lci::mr_t mr = lci::register_memory(memory.data(), memory.size());
    const lci::rmr_t rmr = meet(mr);
    if (lci::get_rank_me() == LAST) die();
    result =
        live(is_thread ? lci::attr_gpu_proxy_t::thread : lci::attr_gpu_proxy_t::progress, mr, rmr);
    lci::deregister_memory(&mr);
  }
  lci::g_runtime_fina();
  std::fflush(stdout);
  return result;
}
