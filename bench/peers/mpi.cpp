// The patterns over MPI send and receive: mpirun -n 2 bench_patterns_<family> NAME
// BENCH_WHO is the family, set by the build. Threads: one per process.
#include <mpi.h>

#include "bench/support/patterns.hpp"

namespace {

class mpi_port {
 public:
  explicit mpi_port(int peer) : peer_(peer) {}
  void send(void* data, std::size_t size) const {
    MPI_Send(data, static_cast<int>(size), MPI_BYTE, peer_, 0, MPI_COMM_WORLD);
  }
  void recv(void* data, std::size_t size) const {
    MPI_Recv(data, static_cast<int>(size), MPI_BYTE, peer_, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  void send_window(void* data, std::size_t size, int count) {
    for (int i = 0; i < count; ++i) {
      MPI_Isend(data, static_cast<int>(size), MPI_BYTE, peer_, 0, MPI_COMM_WORLD, &requests_[i]);
    }
    MPI_Waitall(count, requests_, MPI_STATUSES_IGNORE);
  }
  void recv_window(void* data, std::size_t size, int count) {
    for (int i = 0; i < count; ++i) {
      MPI_Irecv(data, static_cast<int>(size), MPI_BYTE, peer_, 0, MPI_COMM_WORLD, &requests_[i]);
    }
    MPI_Waitall(count, requests_, MPI_STATUSES_IGNORE);
  }

 private:
  int peer_;
  MPI_Request requests_[bench::PATTERN_WINDOW];
};

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  bench::pin(rank);
  bench::pair both(rank, [](void* data, std::size_t size) {
    MPI_Bcast(data, static_cast<int>(size), MPI_BYTE, 0, MPI_COMM_WORLD);
  });
  mpi_port port(1 - rank);
  const std::string name = argc > 1 ? argv[1] : "";
  if (name == "sendrecv_latency") bench::latency_pattern(both, port, name.c_str(), BENCH_WHO);
  if (name == "sendrecv_rate") bench::rate_pattern(both, port, name.c_str(), BENCH_WHO);
  if (name == "bandwidth") bench::bandwidth_pattern(both, port, "sendrecv", BENCH_WHO);
  MPI_Finalize();
  return 0;
}
