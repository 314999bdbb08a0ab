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

// A receive over the network that rank 0 has left ends; the others then leave too.
void be_left(const lci::device_t& beside) {
  if (lci::get_rank_me() == 0) return;
  try {
    int got = 0;
    lci::post_recv_x(0, &got, sizeof got, 1, lci::COMP_NULL).device(beside)();
  } catch (const lci::peer_failure_error&) {
    return;
  }
  throw std::runtime_error("a receive from a rank that has left the network came to its end");
}

// met: the ranks have met over the first device before. needed: who is left still needs the others.
void run(const lci::device_t& first, bool met, bool needed) {
  lci::net_context_t context = lci::alloc_net_context();
  lci::device_t beside = lci::alloc_device_x().net_context(context)();
  barriers_on(beside, "on the second context");
  if (met) barriers_on(first, "before the second context is left");
  if (needed) be_left(beside);
  lci::free_device(&beside);
  lci::free_net_context(&context);
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
