// Every process sends a greeting to the next one. Run it with: lcrun -n 4 hello
#include <cstdio>
#include <cstdlib>

#include "lci.hpp"

static bool greeted = false;

int main() {
  lci::g_runtime_init();
  lci::comp_t on_greeting = lci::alloc_handler([](lci::status_t message) {
    std::printf("rank %d got \"%s\" from rank %d\n", lci::get_rank_me(),
                static_cast<char*>(message.get_buffer()), message.get_rank());
    std::free(message.get_buffer());  // the receiver owns an active message
    greeted = true;
  });
  lci::rcomp_t remote = lci::register_rcomp(on_greeting);  // the same number on every rank
  lci::barrier();                                          // all have registered

  char text[] = "hello";
  const int next = (lci::get_rank_me() + 1) % lci::get_rank_n();
  lci::post_am(next, text, sizeof(text), lci::COMP_NULL, remote);
  while (!greeted) lci::progress();  // handlers run in here, never in another thread

  lci::barrier();
  lci::free_comp(&on_greeting);
  lci::g_runtime_fina();
}
