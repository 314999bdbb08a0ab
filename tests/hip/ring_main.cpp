// GPU memory of HIP round a ring of processes, through the whole library: each rank sends what it
// got to the next one, from its GPU to that of the neighbour, and to the host and back.
//   lcrun -n 2 hip_ring [gpus]    gpus: from GPU to GPU only
// Exit status 0 only if every byte was right; the last line says how many messages were. Threads:
// single.
#define __HIP_PLATFORM_AMD__ 1
#include <dlfcn.h>
#include <hip/hip_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "backends/hip/driver.hpp"
#include "lci.hpp"

namespace {

template <class... Arguments>
void must(const char* name, Arguments... arguments) {
  void* const function = dlsym(dlopen(lci::hip::HIP.library, RTLD_NOW), name);
  if (function == nullptr) throw std::runtime_error(std::string("no ") + name);
  if (reinterpret_cast<hipError_t (*)(Arguments...)>(function)(arguments...) != hipSuccess)
    throw std::runtime_error(std::string(name) + " failed");
}

using bytes = std::vector<unsigned char>;

class gpu_buffer {
 public:
  explicit gpu_buffer(std::size_t size) {
    must("hipMalloc", &at_, size);
    must("hipStreamCreateWithFlags", &stream_, unsigned{hipStreamNonBlocking});
  }
  ~gpu_buffer() {
    must("hipStreamDestroy", stream_);
    must("hipFree", at_);
  }
  void* get() const { return at_; }
  void write(const bytes& from) { copy(at_, from.data(), from.size()); }
  bytes read(std::size_t size) {
    bytes to(size);
    copy(to.data(), at_, size);
    return to;
  }

 private:
  void copy(void* to, const void* from, std::size_t size) {
    must("hipMemcpyAsync", to, from, size, hipMemcpyDefault, stream_);
    void* const query = dlsym(dlopen(lci::hip::HIP.library, RTLD_NOW), "hipStreamQuery");
    while (reinterpret_cast<hipError_t (*)(hipStream_t)>(query)(stream_) == hipErrorNotReady) {
    }
  }
  void* at_ = nullptr;
  hipStream_t stream_ = nullptr;
};

bytes contents(int rank, int round, std::size_t size) {
  bytes made(size);
  for (std::size_t i = 0; i < size; ++i)
    made[i] =
        static_cast<unsigned char>(i * 31 + i / 251 + static_cast<unsigned>(rank + 97 * round));
  return made;
}

// Both ways to say what the memory is; `host`: at this end it is the host's.
void step(void* from, void* to, std::size_t size, bool host) {
  const int me = lci::get_rank_me(), n = lci::get_rank_n();
  lci::comp_t arrived = lci::alloc_sync(), sent = lci::alloc_sync();
  const auto post = [](auto&& op) {
    for (lci::status_t s = op(); s.is_retry(); s = op()) lci::progress();
  };
  post(lci::post_recv_x((me + n - 1) % n, to, size, 0, arrived)
           .mr(lci::MR_UNKNOWN)
           .allow_done(false));
  post(lci::post_send_x((me + 1) % n, from, size, 0, sent)
           .mr(host ? lci::MR_HOST : lci::MR_DEVICE)
           .allow_done(false));
  lci::sync_wait(arrived, nullptr);
  lci::sync_wait(sent, nullptr);
  lci::free_comp(&arrived);
  lci::free_comp(&sent);
}

int pass_round(std::size_t size, int round, bool only_gpus) {
  const int me = lci::get_rank_me(), n = lci::get_rank_n();
  gpu_buffer mine(size), other(size);
  bytes host(size);
  mine.write(contents(me, round, size));
  other.write(bytes(size));
  int right = 0;
  step(mine.get(), other.get(), size, false);  // GPU to GPU
  right += other.read(size) == contents((me + n - 1) % n, round, size);
  lci::barrier();
  if (only_gpus) return right;
  step(other.get(), host.data(), size, false);  // GPU to host
  right += host == contents((me + 2 * n - 2) % n, round, size);
  step(host.data(), mine.get(), size, true);  // host to GPU
  right += mine.read(size) == contents((me + 3 * n - 3) % n, round, size);
  lci::barrier();
  return right;
}

}  // namespace

int main(int count, char** arguments) {
  const bool only_gpus = count > 1 && std::string(arguments[1]) == "gpus";
  lci::g_runtime_init();
  int all = 0, right = 0, gpus = 0;
  must("hipInit", 0u);
  must("hipGetDeviceCount", &gpus);
  must("hipSetDevice", lci::get_rank_me() % gpus);
  for (const std::size_t size : {8, 100, 8192, 20001, 3000007}) {
    for (int round = 0; round < 4; ++round) {
      right += pass_round(size, round, only_gpus);
      all += only_gpus ? 1 : 3;
    }
  }
  std::printf("rank %d: %d of %d messages were right\n", lci::get_rank_me(), right, all);
  lci::g_runtime_fina();
  return right == all ? 0 : 1;
}
