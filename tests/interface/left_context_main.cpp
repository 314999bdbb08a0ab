// A rank that frees a net context leaves that network, not the job: what the ranks do over other
// devices goes on. Several ranks, and a scene:
//   lcrun -n 2 interface_left_context default
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>

#include "lci.hpp"
#include "tests/support/watchdog.hpp"

namespace {

void barriers_on(const lci::device_t& device, const char* when) {
  try {
    for (int i = 0; i < 3; ++i) lci::barrier_x().device(device)();
  } catch (const std::exception& error) {
    throw std::runtime_error(std::string("barrier ") + when + ": " + error.what());
  }
}

// A receive over the network that rank 0 has left ends, and a get is refused, also where nothing is
// known of the memory yet; the others then leave too.
void be_left(const lci::device_t& beside, const lci::rmr_t& there) {
  if (lci::get_rank_me() == 0) return;
  bool is_ended = false;
  try {
    int got = 0;
    lci::post_recv_x(0, &got, sizeof got, 1, lci::COMP_NULL).device(beside)();
  } catch (const lci::peer_failure_error&) {
    is_ended = true;
  }
  if (!is_ended)
    throw std::runtime_error("a receive from a rank that has left the network came to its end");
  char byte = 0;
  try {
    lci::post_get_x(0, &byte, 1, lci::COMP_NULL_RETRY, 0, there).device(beside)();
  } catch (const lci::peer_failure_error&) {
    return;
  }
  throw std::runtime_error("a get from a rank that has left the network was not refused");
}

// A long message over the first device, whose request is there when the other network is left.
class unexpected {
 public:
  explicit unexpected(const lci::device_t& first) : first_(first) {
    lci::post_send_x((me_ + 1) % n_, out_.data(), SIZE, 2, sent_)
        .device(first)
        .allow_done(false)
        .allow_retry(false)();
    barriers_on(first, "behind a long send");
  }
  ~unexpected() { lci::free_comp(&sent_); }
  unexpected(const unexpected&) = delete;
  unexpected& operator=(const unexpected&) = delete;
  void receive() {
    const int left = (me_ + n_ - 1) % n_;
    lci::comp_t got = lci::alloc_sync();
    lci::post_recv_x(left, in_.data(), SIZE, 2, got).device(first_).allow_done(false)();
    for (const lci::comp_t& each : {got, sent_})
      while (!lci::sync_test(each, nullptr)) lci::progress_x().device(first_)();
    lci::free_comp(&got);
    if (in_ != std::string(SIZE, static_cast<char>('a' + left)))
      throw std::runtime_error("a long message has other bytes");
  }

 private:
  static constexpr std::size_t SIZE = std::size_t{1} << 20;
  const lci::device_t first_;
  const int me_ = lci::get_rank_me(), n_ = lci::get_rank_n();
  lci::comp_t sent_ = lci::alloc_sync();
  std::string out_ = std::string(SIZE, static_cast<char>('a' + me_)), in_ = std::string(SIZE, '.');
};

// met: the ranks have met over the first device before. needed: who is left still needs the others.
void run(const lci::device_t& first, bool met, bool needed) {
  lci::net_context_t context = lci::alloc_net_context();
  lci::device_t beside = lci::alloc_device_x().net_context(context)();
  barriers_on(beside, "on the second context");
  unexpected long_one(first);
  if (met) barriers_on(first, "before the second context is left");
  char byte = 'x';
  lci::mr_t mine = lci::register_memory_x(&byte, 1).device(beside)();
  lci::rmr_t there = lci::get_rmr(mine);
  lci::broadcast_x(&there, sizeof there, 0).device(beside)();
  if (needed) be_left(beside, there);
  lci::deregister_memory(&mine);
  lci::free_device(&beside);
  lci::free_net_context(&context);
  long_one.receive();
  barriers_on(first, "after the second context was left");
  // Another runtime of the job has networks of its own.
  lci::runtime_t other = lci::alloc_runtime();
  lci::barrier_x().runtime(other)();
  barriers_on(first, "beside another runtime");
  lci::free_runtime(&other);
  barriers_on(first, "after another runtime was freed");
}

}  // namespace

int main(int argc, char** argv) {
  const std::string scene = argc > 1 ? argv[1] : "default";
  const lci::test::watchdog watchdog("left context, " + scene);
  int failed = 0;
  const bool is_default = scene != "own";
  lci::g_runtime_init_x().alloc_default_device(is_default)();
  lci::device_t first = is_default ? lci::get_default_device() : lci::alloc_device();
  try {
    run(first, scene == "met" || scene == "needed", scene == "needed");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d, scene %s: %s\n", lci::get_rank_me(), scene.c_str(),
                 error.what());
    failed = 1;
  }
  if (failed != 0) std::_Exit(1);
  if (!is_default) lci::free_device(&first);
  lci::g_runtime_fina();
  return failed;
}
