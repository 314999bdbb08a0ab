// An MPI family as lci_perf measures it: send and receive. BENCH_WHO is the family, set by the
// build. Called by: lci_perf, under the family's mpirun. Threads: one for each seat.
#include <mpi.h>

#include "tools/perf/worker.hpp"

namespace {

using namespace lci_perf;

// The calls of one seat; the pair's number is the tag.
class mpi_port {
 public:
  mpi_port(int peer, int tag, MPI_Comm comm) : peer_(peer), tag_(tag), comm_(comm) {}
  void send(char* data, std::size_t size) {
    MPI_Send(data, static_cast<int>(size), MPI_BYTE, peer_, tag_, comm_);
  }
  void recv(char* data, std::size_t size) {
    MPI_Recv(data, static_cast<int>(size), MPI_BYTE, peer_, tag_, comm_, MPI_STATUS_IGNORE);
  }
  void start(char* data, std::size_t size) {
    sends_.emplace_back();
    MPI_Isend(data, static_cast<int>(size), MPI_BYTE, peer_, tag_, comm_, &sends_.back());
  }
  void finish() { wait_all(sends_); }
  void expect(char* data, std::size_t size) {
    receives_.emplace_back();
    MPI_Irecv(data, static_cast<int>(size), MPI_BYTE, peer_, tag_, comm_, &receives_.back());
  }
  void wait() { wait_all(receives_); }
  void progress() {
    int is_there = 0;
    MPI_Iprobe(peer_, tag_, comm_, &is_there, MPI_STATUS_IGNORE);
  }

 private:
  void wait_all(std::vector<MPI_Request>& requests) {
    MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
    requests.clear();
  }
  int peer_, tag_;
  MPI_Comm comm_;
  std::vector<MPI_Request> sends_, receives_;
};

void serve_all(board& page) {
  int given = 0, rank = 0;
  const bool is_threads = page.is_threads != 0;
  MPI_Init_thread(nullptr, nullptr, is_threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &given);
  if (is_threads && given < MPI_THREAD_MULTIPLE) throw std::runtime_error("it has no threads");
  if (page.is_gpu != 0) throw std::runtime_error("lci_perf measures it between host memory only");
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const int pairs = static_cast<int>(page.pairs);
  char version[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(version, &length);
  version[std::strcspn(version, ",\n")] = 0;
  std::snprintf(page.version, sizeof page.version, "%s", version);
  page.operations.store(bit(operation::sendrecv), std::memory_order_relaxed);
  // A communicator for each thread: as near to a device of its own as MPI has.
  std::vector<MPI_Comm> comms(static_cast<std::size_t>(pairs), MPI_COMM_WORLD);
  if (is_threads && page.is_shared == 0)
    for (MPI_Comm& comm : comms) MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  run_seats(page, rank, [&](int pair, bool is_first) {
    seat mine(page, pair, is_first);
    mine.pin();
    page_buffer out = buffer_of(page), in = buffer_of(page);
    const int peer = is_threads ? 1 - rank : (rank + pairs) % (2 * pairs);
    mpi_port port(peer, pair, comms[static_cast<std::size_t>(pair)]);
    mine.serve([&](const order& o) { execute(mine, port, out.data(), in.data(), o); });
  });
  MPI_Finalize();
}

}  // namespace

int main() { return run_worker("lci_perf_" BENCH_WHO, serve_all); }
