// A rank dies while GPU buffers are on their way to and from it: each of the others must be told,
// with the rank, and be able to end. Run under lcrun --keep-going as
//   accelerator_death sendrecv|put|get|am|packets
// packets: active messages that are built and delivered in GPU packets, all of which come home.
// The output says what each rank heard.
#include <csignal>
#include <cstdio>
#include <stdexcept>
#include <string>

#include "tests/accelerator/interface/common.hpp"
#include "tests/support/watchdog.hpp"

namespace accelerator_test {
namespace {

constexpr std::size_t SIZE = std::size_t{3} << 20;
constexpr int DEADLY_ROUND = 10;

// A round: everybody sends to its next and takes from its previous; the last rank dies in the
// middle of one.
class rounds {
 public:
  explicit rounds(std::string operation)
      : operation_(std::move(operation)), from_(place::device, {SIZE}), to_(place::device, {SIZE}) {
    if (operation_ != "sendrecv" && operation_ != "put" && operation_ != "get" &&
        operation_ != "am" && operation_ != "packets")
      throw std::runtime_error("no operation is called " + operation_);
    arrived_ = lci::alloc_handler([](lci::status_t message) {
      std::free(message.buffer);
      ++messages;
    });
    if (operation_ == "packets") {
      arrived_ = lci::alloc_handler_x([](lci::status_t message) {
                   lci::put_upacket(message.buffer);
                   ++messages;
                 }).zero_copy_am(true)();
      pool_ = lci::alloc_packet_pool_x().allocator(&memory_).npackets(PACKETS)();
      lci::register_packet_pool(pool_, world().device);
    }
    rcomp_ = lci::register_rcomp(arrived_);
    told_rcomp_ = lci::register_rcomp(told_);
    lci::barrier();
  }
  // The others may still want something of this rank, until they have heard it as well.
  void wait_for_survivors() {
    for (int rank = 0; rank + 1 < world().n; ++rank) {
      if (rank != world().rank) lci::post_am(rank, nullptr, 0, lci::COMP_NULL, told_rcomp_);
    }
    const auto have_all_said_so = [] { return survivors >= world().n - 2; };
    try {
      wait_until(have_all_said_so);
    } catch (const lci::peer_failure_error&) {
      // One may say so and leave in the same round, while a receive of this rank waits for it.
      if (!have_all_said_so()) throw;
    }
  }
  void run(int round, bool dies) {
    const int next = world().next(), before = world().previous();
    const auto [rmr, disp] = (operation_ == "get" ? from_ : to_).at_peer(next, 0, handle::whole);
    void* const source = from_.at(0).get();
    void* const sink = to_.at(0).get();
    int expected = 1;
    if (operation_ == "sendrecv") {
      post(lci::post_recv_x(before, sink, SIZE, 1, done_).mr(to_.mr(0, handle::whole)));
      post(lci::post_send_x(next, source, SIZE, 1, done_).mr(from_.mr(0, handle::whole)));
      expected = 2;
    } else if (operation_ == "put") {
      post(lci::post_put_x(next, source, SIZE, done_, disp, rmr)
               .mr(lci::MR_DEVICE)
               .remote_comp(rcomp_));
    } else if (operation_ == "get") {
      post(lci::post_get_x(next, sink, SIZE, done_, disp, rmr).mr(lci::MR_DEVICE));
    } else if (operation_ == "packets") {
      expected = 4;
      for (int i = 0; i < expected; ++i) {
        void* const packet = lci::get_upacket_x().packet_pool(pool_)();
        if (packet == nullptr) throw std::runtime_error("a packet has not come home");
        post(lci::post_am_x(next, packet, 4000, done_, rcomp_));
      }
    } else {
      post(lci::post_am_x(next, source, SIZE, done_, rcomp_).mr(lci::MR_DEVICE));
    }
    lci::progress();
    if (dies) std::raise(SIGKILL);
    wait_until([&] { return lci::counter_get(done_) >= (round + 1) * expected; });
    if (operation_ == "put" || operation_ == "am") wait_until([&] { return messages > round; });
    if (operation_ == "packets")
      wait_until([&] { return messages >= (round + 1) * expected && has_all_packets(); });
  }
  // Whatever the dead rank was sending or being sent.
  void wait_for_packets() {
    if (operation_ == "packets") wait_until([&] { return has_all_packets(); });
  }

 private:
  static constexpr std::size_t PACKETS = 16;
  bool has_all_packets() const {
    std::vector<void*> all;
    while (void* const one = lci::get_upacket_x().packet_pool(pool_)()) all.push_back(one);
    for (void* const one : all) lci::put_upacket(one);
    return all.size() == PACKETS;
  }

  static int messages, survivors;
  std::string operation_;
  target from_, to_;
  // Not freed: operations that will never end refer to it.
  lci::comp_t done_ = lci::alloc_counter();
  lci::comp_t arrived_;
  lci::comp_t told_ = lci::alloc_handler([](lci::status_t message) {
    std::free(message.buffer);
    ++survivors;
  });
  lci::rcomp_t rcomp_ = 0, told_rcomp_ = 0;
  lci::device_allocator_t memory_{lci::cuda::real_gpu::get().ordinal()};
  lci::packet_pool_t pool_;
};
int rounds::messages = 0;
int rounds::survivors = 0;

int hear_of_a_death(const std::string& operation) {
  const int me = world().rank, last = world().n - 1;
  // Kept to the end of the process: its end is collective, and one is missing.
  auto* const all = new rounds(operation);
  lci::barrier();
  int heard_of = -1;
  try {
    for (int round = 0;; ++round) all->run(round, me == last && round == DEADLY_ROUND);
  } catch (const lci::peer_failure_error& error) {
    heard_of = error.failed_rank();
    std::printf("rank %d heard that rank %d died\n", me, heard_of);
  }
  all->wait_for_survivors();
  all->wait_for_packets();
  return heard_of == last ? 0 : 1;
}

}  // namespace
}  // namespace accelerator_test

int main(int count, char** arguments) {
  using namespace accelerator_test;
  if (const int skipped = lci::cuda::skip_without_gpu(); skipped != 0) return skipped;
  lci::g_runtime_init_x().failure_notice(lci::attr_failure_notice_t::all)();
  world().rank = lci::get_rank_me();
  world().n = lci::get_rank_n();
  world().device = lci::get_default_device();
  lci::cuda::real_gpu::of_rank(world().rank);
  const std::string operation = count > 1 ? arguments[1] : "sendrecv";
  const lci::test::watchdog dog("death during " + operation + ", rank " +
                                std::to_string(world().rank));
  const int failed = hear_of_a_death(operation);
  lci::g_runtime_fina();
  std::printf("rank %d ended\n", world().rank);
  return failed;
}
