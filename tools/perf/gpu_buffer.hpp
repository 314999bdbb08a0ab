// Memory of a measured process: of the host, or of a GPU through its driver, which is loaded when
// one asks for it, so that the program runs everywhere.
// Threads: single, the thread that made it; the driver's context stays current in that thread.
#pragma once

#include <cstddef>
#include <string>

namespace lci_perf {

class buffer {
 public:
  // Throws std::runtime_error if there is no GPU; uses GPU `number` modulo how many there are.
  buffer(bool is_gpu, std::size_t bytes, int number);
  ~buffer();
  buffer(const buffer&) = delete;
  buffer& operator=(const buffer&) = delete;

  char* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  bool is_gpu_;
  std::size_t size_;
  char* data_ = nullptr;
};

// The GPU of a seat that is a process of its own: both ends of a pair on one only where there is
// one alone.
constexpr int gpu_of(int pair, int side) { return 2 * pair + side; }

// Why no process here can have GPU memory; empty: it can.
std::string why_no_gpu();

}  // namespace lci_perf
