// NCCL's send and receive, if its library is found: libnccl.so.2, or the file that BENCH_NCCL
// names. Its few types are declared here, so that no build needs it. Called by: nccl_worker,
// bench/gpu/nccl.cpp. Threads: immutable after load().
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <cstdlib>
#include <string>
#include <type_traits>

namespace lci_perf {

struct nccl_id {
  char bytes[128];
};
constexpr int NCCL_UINT8 = 1;

struct nccl_library {
  int (*get_unique_id)(nccl_id*) = nullptr;
  int (*get_version)(int*) = nullptr;
  int (*comm_init_rank)(void**, int, nccl_id, int) = nullptr;
  int (*comm_destroy)(void*) = nullptr;
  int (*send)(const void*, std::size_t, int, int, void*, void*) = nullptr;
  int (*recv)(void*, std::size_t, int, int, void*, void*) = nullptr;
  int (*group_start)() = nullptr;
  int (*group_end)() = nullptr;
  const char* (*get_error_string)(int) = nullptr;

  // Returns "", or what is missing.
  std::string load() {
    const char* const name = std::getenv("BENCH_NCCL");
    void* const library = dlopen(name != nullptr ? name : "libnccl.so.2", RTLD_NOW);
    if (library == nullptr) return dlerror();
    std::string missing;
    const auto find = [&](auto& function, const char* symbol) {
      function =
          reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, symbol));
      if (function == nullptr) missing = std::string(symbol) + " is missing";
    };
    find(get_unique_id, "ncclGetUniqueId");
    find(get_version, "ncclGetVersion");
    find(comm_init_rank, "ncclCommInitRank");
    find(comm_destroy, "ncclCommDestroy");
    find(send, "ncclSend");
    find(recv, "ncclRecv");
    find(group_start, "ncclGroupStart");
    find(group_end, "ncclGroupEnd");
    find(get_error_string, "ncclGetErrorString");
    return missing;
  }
};

}  // namespace lci_perf
