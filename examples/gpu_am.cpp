// Active messages that arrive in GPU memory: lcrun -n 2 gpu_am [messages] [bytes]
//
// A pool with an allocator has its packets on the GPU. A message is built in one of them, usually
// by a kernel, and posted; the receiver gets it in a packet of its own pool, where a kernel can
// work on it. The handler only records what has arrived: it runs inside progress and should be
// short.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

#include "gpu_memory.hpp"
#include "lci.hpp"

namespace {

// The contents of message `number` from process `rank`.
std::vector<uint8_t> contents(int rank, int number, size_t size) {
  std::vector<uint8_t> bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = uint8_t(i * 5 + size_t(rank) * 31 + size_t(number));
  return bytes;
}

std::vector<lci::status_t> arrived;  // filled by the handler, emptied by work()

struct counts_t {
  int in_packets = 0, others = 0, wrong = 0;
};

// Stands for the kernels: checks what has arrived and returns its memory. Messages of at most
// `limit` bytes are in packets, larger ones in memory of the allocator.
void work(gpu_t& gpu, lci::device_allocator_t& memory, size_t limit, counts_t& counts) {
  std::vector<lci::status_t> now;
  now.swap(arrived);
  for (const lci::status_t& message : now) {
    const int number = int(message.tag);
    const bool right = gpu.read<uint8_t>(message.buffer, message.size) ==
                       contents(message.rank, number, message.size);
    if (!right) ++counts.wrong;
    if (message.size <= limit) {
      ++counts.in_packets;
      lci::put_upacket(message.buffer);
    } else {
      ++counts.others;
      memory.deallocate(message.buffer);
    }
  }
}

int exchange(gpu_t& gpu, int messages, size_t size) {
  const int me = lci::get_rank_me(), n = lci::get_rank_n();
  lci::device_allocator_t memory(gpu.number());
  lci::packet_pool_t pool = lci::alloc_packet_pool_x().allocator(&memory).npackets(64)();
  lci::comp_t handler = lci::alloc_handler_x([](lci::status_t message) {
                          arrived.push_back(message);
                        }).zero_copy_am(true)();
  const lci::rcomp_t inbox = lci::register_rcomp(handler);
  lci::device_t device = lci::alloc_device_x().packet_pool(pool)();
  const size_t limit = lci::get_max_bcopy_size_x().packet_pool(pool)();

  counts_t counts;
  lci::comp_t sent = lci::alloc_counter();
  // A message that does not fit into a packet is sent from its own buffer.
  void* large = gpu.allocate(size);
  for (int number = 0; number < messages; ++number) {
    void* buffer = large;
    // Only a few are under way at a time, so that packets are left for those that arrive.
    while (number - lci::counter_get(sent) >= (size <= limit ? 16 : 1)) {
      lci::progress_x().device(device)();
      work(gpu, memory, limit, counts);
    }
    while (size <= limit && (buffer = lci::get_upacket_x().packet_pool(pool)()) == nullptr) {
      lci::progress_x().device(device)();
      work(gpu, memory, limit, counts);
    }
    gpu.write(buffer, contents(me, number, size));
    lci::post_am_x post((me + 1) % n, buffer, size, sent, inbox);
    post.tag(lci::tag_t(number)).device(device).mr(lci::MR_DEVICE).allow_done(false);
    while (post().is_retry()) {
      lci::progress_x().device(device)();
      work(gpu, memory, limit, counts);
    }
  }
  while (counts.in_packets + counts.others < messages || lci::counter_get(sent) < messages) {
    lci::progress_x().device(device)();
    work(gpu, memory, limit, counts);
  }
  lci::barrier_x().device(device)();
  std::printf(
      "rank %d on GPU %d: %d messages of %zu bytes came in packets, %d in other memory, "
      "%d wrong\n",
      me, gpu.number(), counts.in_packets, size, counts.others, counts.wrong);
  gpu.free(large);
  lci::free_device(&device);
  lci::deregister_rcomp(inbox);
  lci::free_comp(&handler);
  lci::free_comp(&sent);
  lci::free_packet_pool(&pool);
  return counts.wrong;
}

}  // namespace

int main(int argc, char** argv) {
  const int messages = argc > 1 ? std::atoi(argv[1]) : 200;
  const size_t size = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 4096;
  if (messages <= 0 || size == 0)
    return std::puts("usage: lcrun -n 2 gpu_am [messages] [bytes]"), 2;
  lci::g_runtime_init();
  int wrong = 0;
  {
    gpu_t gpu(lci::get_rank_me());
    if (gpu.problem().empty())
      wrong = exchange(gpu, messages, size);
    else
      std::printf("no GPU: %s\n", gpu.problem().c_str());
  }
  lci::g_runtime_fina();
  return wrong == 0 ? 0 : 1;
}
