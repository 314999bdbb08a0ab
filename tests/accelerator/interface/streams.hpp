// What the tests of streams share: work ahead in a stream that takes its time, and posts that must
// have waited for it.
#pragma once

#include <cstdlib>

#include "tests/accelerator/gpu_kernels.hpp"
#include "tests/accelerator/interface/common.hpp"
#include "tests/accelerator/user_stream.hpp"

namespace accelerator_test {

using lci::cuda::user_stream;

// A stream, and work for it that takes a millisecond on a GPU and many turns on the mock.
class busy_stream : public user_stream {
 public:
  void keep_busy() const {
    for (int i = 0; i < LINKS; ++i) copy(to_.get(), from_.get(), size());
  }

 private:
  static constexpr int LINKS = 48;
  static std::size_t size() {
    const bool is_mock = std::getenv("LCI_MOCK_CUDA_ENGINE") != nullptr;
    return std::size_t{is_mock ? 4u : 16384u} << 10;
  }
  block from_{place::device, size()}, to_{place::device, size()};
};

// Makes progress until the stream has done all its work.
inline void finish(const user_stream& stream) {
  wait_until([&] { return stream.is_idle(); });
}

// Bytes that a copy in the stream brings to where a post reads them, late.
class late_source {
 public:
  late_source(place where, std::size_t size)
      : fresh_(place::device, size), buffer_(where, size), size_(size) {}
  // The buffer holds other bytes until the stream has come to the copy.
  void prepare(std::uint64_t seed) {
    fill(fresh_.where(), fresh_.get(), {nullptr, size_, seed, 0, size_});
    fill(buffer_.where(), buffer_.get(), {nullptr, size_, seed, 0, 0});
  }
  void bring(const user_stream& stream) const { stream.copy(buffer_.get(), fresh_.get(), size_); }
  void* get() const { return buffer_.get(); }
  lci::mr_t mr() const { return unregistered(buffer_.where(), handle::kind); }

 private:
  block fresh_, buffer_;
  std::size_t size_;
};

// Memory that a message comes to.
class landing {
 public:
  landing(place where, std::size_t size) : memory_(where, size), size_(size) {}
  void* get() const { return memory_.get(); }
  block& memory() { return memory_; }
  lci::mr_t mr() const { return unregistered(memory_.where(), handle::kind); }
  bool has(std::uint64_t seed) const {
    return compare(memory_.where(), memory_.get(), {nullptr, size_, seed, 0, size_}).wrong == 0;
  }

 private:
  block memory_;
  std::size_t size_;
};

}  // namespace accelerator_test
