#include "tools/perf/nccl_worker.hpp"

#include "tools/perf/gpu_buffer.hpp"
#include "tools/perf/gpu_driver.hpp"
#include "tools/perf/nccl_library.hpp"
#include "tools/perf/worker.hpp"

namespace lci_perf {

namespace {

constexpr unsigned NO_WAIT_FOR_DEFAULT_STREAM = 1;
constexpr int NOT_READY = 600;  // CUDA_ERROR_NOT_READY

// One end of a pair. Operations that begin together are one group, as NCCL wants it, and have ended
// when the stream is empty: the processor looks, as lci's does.
class nccl_port {
 public:
  nccl_port(const nccl_library& calls, void* comm, int peer)
      : calls_(calls),
        comm_(comm),
        peer_(peer),
        query_(find_gpu_call<int(void*)>("cuStreamQuery")) {
    gpu_call("cuStreamCreate", &stream_, NO_WAIT_FOR_DEFAULT_STREAM);
    if (query_ == nullptr) throw std::runtime_error("the driver has no cuStreamQuery");
  }
  void start(char* data, std::size_t size) {
    join_group();
    must(calls_.send(data, size, NCCL_UINT8, peer_, comm_, stream_));
  }
  void expect(char* data, std::size_t size) {
    join_group();
    must(calls_.recv(data, size, NCCL_UINT8, peer_, comm_, stream_));
  }
  // The end of a group hands it to the stream.
  void launch() {
    if (is_group_) must(calls_.group_end());
    is_group_ = false;
  }
  void finish() {
    launch();
    int answer = query_(stream_);
    while (answer == NOT_READY) answer = query_(stream_);
    if (answer != 0) throw std::runtime_error("cuStreamQuery: error " + std::to_string(answer));
  }
  void wait() { finish(); }
  void send(char* data, std::size_t size) { start(data, size), finish(); }
  void recv(char* data, std::size_t size) { expect(data, size), wait(); }
  void progress() {}

 private:
  void must(int answer) const {
    if (answer != 0)
      throw std::runtime_error(std::string("NCCL: ") + calls_.get_error_string(answer));
  }
  void join_group() {
    if (!is_group_) must(calls_.group_start());
    is_group_ = true;
  }

  const nccl_library& calls_;
  void* comm_;
  int peer_;
  int (*query_)(void*);
  void* stream_ = nullptr;
  bool is_group_ = false;
};

// The name of the pair's communicator, which its first end makes.
nccl_id id_of(board& page, const nccl_library& calls, const seat& mine) {
  card& from = page.cards[2 * mine.pair()];
  nccl_id id{};
  if (mine.is_first()) {
    if (calls.get_unique_id(&id) != 0) throw std::runtime_error("NCCL makes no communicator");
    std::memcpy(from.bytes, &id, sizeof id);
    // edge perf.card, writer: partner is the other end, below.
    from.size.store(sizeof id, std::memory_order_release);
  }
  // edge perf.card, reader
  for (patience step; from.size.load(std::memory_order_acquire) == 0;) step();
  std::memcpy(&id, from.bytes, sizeof id);
  return id;
}

void serve_all(board& page) {
  if (page.is_gpu == 0) throw std::runtime_error("it moves GPU memory only: --memory gpu");
  if (page.is_threads != 0) throw std::runtime_error("lci_perf measures it between processes only");
  nccl_library calls;
  if (const std::string why = calls.load(); !why.empty()) throw std::runtime_error(why);
  const int rank = std::atoi(std::getenv(RANK_VARIABLE)), pairs = static_cast<int>(page.pairs);
  seat mine(page, rank % pairs, rank < pairs);
  mine.pin();
  int version = 0;
  calls.get_version(&version);
  std::snprintf(page.version, sizeof page.version, "NCCL %d", version);
  page.operations.store(bit(operation::sendrecv), std::memory_order_relaxed);
  // Each end on a GPU of its own, as those of lci: NCCL wants that.
  const int which = mine.is_first() ? 0 : 1, gpu = gpu_of(mine.pair(), which);
  buffer out(true, page.largest, gpu), in(true, page.largest, gpu);
  void* comm = nullptr;
  if (const int error = calls.comm_init_rank(&comm, 2, id_of(page, calls, mine), which); error != 0)
    throw std::runtime_error(std::string("no communicator: ") + calls.get_error_string(error));
  nccl_port port(calls, comm, 1 - which);
  mine.serve([&](const order& o) { execute(mine, port, out.data(), in.data(), o); });
}

}  // namespace

int run_nccl_worker() { return run_worker("lci_perf", serve_all); }

std::string why_no_nccl() {
  nccl_library calls;
  return calls.load();
}

}  // namespace lci_perf
