// Does a message between host buffers stay out of the protocols of GPU memory, in the build that
// has them?
//   lcrun -n 2 host_path
// Every kind of message goes from rank 0 to the last one, small and large, and each rank steps
// itself through its part: no instruction may be one of lci::proto::gpu. A call into it is planted,
// to show that one is found. Exit status 77: nothing could be counted here.
#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "lci.hpp"
#include "tests/support/step_counter.hpp"

namespace {

using lci::test::step_begin;
using lci::test::step_end;

constexpr std::size_t SMALL = 8, IN_PACKET = 2000,
                      LARGE = 20'000;  // injected, copied, by rendezvous
constexpr std::size_t SIZES[] = {SMALL, IN_PACKET, LARGE};
// Section PLANTED is the one that must be seen in the protocols of GPU memory.
enum section_id { SEND, AM, PUT, GET, PLANTED, SECTIONS };
constexpr const char* NAMES[] = {"send and receive", "active message", "put", "get", "planted"};
// As the linker spells lci::proto::gpu.
constexpr const char* GPU_ROOM = "3lci5proto3gpu";

int arrived = 0;

void on_message(lci::status_t status) {
  ++arrived;
  lci::get_allocator()->deallocate(status.get_buffer());
}

struct rank_t {
  rank_t() : here(LARGE), target(LARGE) {
    lci::g_runtime_init();
    me = lci::get_rank_me();
    last = lci::get_rank_n() - 1;
    handler = lci::alloc_handler(on_message);
    rcomp = lci::register_rcomp(handler);
    told = lci::alloc_counter();
    region = lci::register_memory(target.data(), target.size());
    std::vector<lci::rmr_t> all(static_cast<std::size_t>(last + 1));
    const lci::rmr_t mine = lci::get_rmr(region);
    lci::allgather(&mine, all.data(), sizeof mine);
    there = all.back();
  }
  ~rank_t() {
    lci::barrier();
    lci::deregister_memory(&region);
    lci::deregister_rcomp(rcomp);
    lci::free_comp(&handler);
    lci::free_comp(&told);
    lci::g_runtime_fina();
  }
  // Until `count` operations of this rank have told their object.
  void wait_told(int count) const {
    while (lci::counter_get(told) < count) lci::progress();
  }
  // Posts until it is more than refused; answers how many the object is going to hear of.
  int post(const std::function<lci::status_t()>& what) const {
    for (;;) {
      const lci::status_t answer = what();
      if (answer.is_done()) return 0;
      if (answer.is_posted()) return 1;
      lci::progress();
    }
  }
  // One of each size.
  void exchange(section_id what) {
    int expected = static_cast<int>(lci::counter_get(told));
    for (const std::size_t size : SIZES) {
      if (what == SEND && me == last)
        expected += post([&] { return lci::post_recv(0, target.data(), size, 1, told); });
      if (me == 0 && what == SEND)
        expected += post([&] { return lci::post_send(last, here.data(), size, 1, told); });
      if (me == 0 && what == AM)
        expected += post([&] { return lci::post_am(last, here.data(), size, told, rcomp); });
      if (me == 0 && what == PUT)
        expected += post([&] { return lci::post_put(last, here.data(), size, told, 0, there); });
      if (me == 0 && what == GET)
        expected += post([&] { return lci::post_get(last, here.data(), size, told, 0, there); });
      wait_told(expected);
    }
    // Some may have arrived already, in the barrier before.
    if (what == AM) to_arrive += static_cast<int>(std::size(SIZES));
    while (what == AM && me == last && arrived < to_arrive) lci::progress();
  }

  int me = -1, last = 0;
  int to_arrive = 0;  // active messages, in all
  std::vector<char> here, target;
  lci::comp_t handler, told;
  lci::rcomp_t rcomp = 0;
  lci::mr_t region;
  lci::rmr_t there;  // of the last rank
};

void run_rank() {
  rank_t rank;
  for (const section_id what : {SEND, AM, PUT, GET}) {
    rank.exchange(what);  // contact, and what is made at the first use
    lci::barrier();
    step_begin(what);
    rank.exchange(what);
    step_end();
    lci::barrier();
  }
  // Whether a stream waits for it is asked of the GPU's protocols.
  lci::comp_t one = lci::alloc_sync();
  step_begin(PLANTED);
  lci::free_comp(&one);
  step_end();
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const std::string missing = lci::test::step_counter_missing();
  if (!missing.empty()) {
    std::printf("skipped: %s\n", missing.c_str());
    return 77;
  }
  const std::vector<lci::test::code_range> watched =
      lci::test::functions_around(reinterpret_cast<void*>(&lci::detail::post_am), GPU_ROOM);
  if (watched.size() < 50) {
    std::printf("only %zu functions of the protocols of GPU memory were found\n", watched.size());
    return 1;
  }
  const lci::test::step_report report = lci::test::count_steps([] { run_rank(); }, {}, watched);
  if (!report.failure.empty()) {
    std::printf("%s\n", report.failure.c_str());
    return 1;
  }
  bool good = report.sections.size() == SECTIONS;
  for (const lci::test::step_section& one : report.sections) {
    std::printf("%s: %llu instructions, of these %llu in %zu functions for GPU memory%s%s\n",
                NAMES[one.id], static_cast<unsigned long long>(one.instructions),
                static_cast<unsigned long long>(one.watched), watched.size(),
                one.watched != 0 ? "; the first " : "", one.first_watched.c_str());
    good &= (one.watched != 0) == (one.id == PLANTED);
  }
  return good ? 0 : 1;
}
