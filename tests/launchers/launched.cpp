// launched BOOTSTRAP SIZE [--mpi LIBRARY]: a rank of a job that some launcher has started. It
// checks that lci found the others over that bootstrap, exchanges long values by put, fence and
// get, sends a message round the ring, and does both a second time after the library was finalized.
// Prints "rank R of N: ok". With --mpi, this is an MPI program: it initializes MPI before lci and
// finalizes it afterwards.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>

#include "lci.hpp"
#include "lci/runtime/global.hpp"

namespace {

int received = -1;  // what the left neighbour sent

// Every byte value, and lengths around the limits of process managers and of ours.
std::string value_of(int rank, std::size_t length) {
  std::string value(length, '\0');
  for (std::size_t i = 0; i < length; ++i)
    value[i] = static_cast<char>(i * 7 + static_cast<std::size_t>(rank) * 31 + i / 251);
  return value;
}

void exchange(lci::boot::bootstrap& boot, int turn) {
  const std::size_t lengths[] = {0, 1, 766, 1023, 1024, 4096, lci::boot::MAX_VALUE};
  const std::string prefix = "turn " + std::to_string(turn) + ";=\n, length ";
  for (const std::size_t length : lengths)
    boot.put(prefix + std::to_string(length), value_of(boot.rank(), length));
  boot.fence();
  for (int r = boot.size() - 1; r >= 0; --r) {
    for (const std::size_t length : lengths) {
      if (boot.get(r, prefix + std::to_string(length)) != value_of(r, length))
        throw std::runtime_error("wrong value of rank " + std::to_string(r));
    }
  }
  boot.fence();
}

void pass_round(int turn) {
  received = -1;
  lci::comp_t handler = lci::alloc_handler([](lci::status_t message) {
    std::memcpy(&received, message.get_buffer(), sizeof received);
    std::free(message.get_buffer());
  });
  const lci::rcomp_t remote = lci::register_rcomp(handler);
  lci::barrier();
  const int n = lci::get_rank_n(), me = lci::get_rank_me();
  int token = 1000 * turn + me;
  while (lci::post_am((me + 1) % n, &token, sizeof token, lci::COMP_NULL, remote).is_retry())
    lci::progress();
  while (received < 0) lci::progress();
  if (received != 1000 * turn + (me + n - 1) % n) throw std::runtime_error("wrong message");
  lci::barrier();
  lci::free_comp(&handler);
}

void live(const std::string& bootstrap, int size, int turn) {
  lci::g_runtime_init();
  lci::boot::bootstrap& boot = *lci::runtime::global().bootstrap;
  if (boot.name() != bootstrap)
    throw std::runtime_error("over " + std::string(boot.name()) + " instead of " + bootstrap);
  if (boot.size() != size || lci::get_rank_n() != size)
    throw std::runtime_error("a job of " + std::to_string(boot.size()));
  exchange(boot, turn);
  pass_round(turn);
  if (turn == 1) {
    std::printf("rank %d of %d: ok\n", lci::get_rank_me(), lci::get_rank_n());
    std::fflush(stdout);
  }
  lci::g_runtime_fina();
}

// The program is an MPI program: the library is in it as if it were linked.
struct mpi_program {
  explicit mpi_program(const char* name) {
    if (name == nullptr) return;
    library = ::dlopen(name, RTLD_NOW | RTLD_GLOBAL);
    if (library == nullptr) throw std::runtime_error(::dlerror());
    if (call<int (*)(int*, char***)>("MPI_Init")(nullptr, nullptr) != 0)
      throw std::runtime_error("MPI_Init failed");
  }
  void end() {
    if (library == nullptr) return;
    int over = 1;
    call<int (*)(int*)>("MPI_Finalized")(&over);
    if (over != 0) throw std::runtime_error("lci has finalized an MPI that was not its own");
    if (call<int (*)()>("MPI_Finalize")() != 0) throw std::runtime_error("MPI_Finalize failed");
  }
  template <class Function>
  Function call(const char* name) {
    return reinterpret_cast<Function>(::dlsym(library, name));
  }
  void* library = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3 && argc != 5) {
    std::fprintf(stderr, "usage: launched BOOTSTRAP SIZE [--mpi LIBRARY]\n");
    return 2;
  }
  try {
    mpi_program mpi(argc == 5 ? argv[4] : nullptr);
    for (int turn = 0; turn < 2; ++turn) live(argv[1], std::atoi(argv[2]), turn);
    mpi.end();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "launched: %s\n", error.what());
    std::fflush(stderr);
    ::_exit(5);
  }
  return 0;
}
