// One number over the bytes of a file or of a buffer: each 8 bytes are mixed with their place and
// added up, so any thread may take any part. In GPU memory by a kernel if the program was built
// with nvcc, else by the processor. Threads: any; no state.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "lci/buffer.hpp"

#ifdef __CUDACC__
#define FILE_CHECKSUM_ANYWHERE __host__ __device__
#else
#define FILE_CHECKSUM_ANYWHERE
#endif

// Of 8 bytes at that place, counted in words; bytes behind the end are 0.
FILE_CHECKSUM_ANYWHERE inline uint64_t mixed(uint64_t word, uint64_t place) {
  uint64_t x = (word ^ (place * 0x9e3779b97f4a7c15)) + place;
  x = (x ^ (x >> 31)) * 0xbf58476d1ce4e5b9;
  return x ^ (x >> 29);
}

FILE_CHECKSUM_ANYWHERE inline uint64_t word_at(const unsigned char* bytes, size_t size,
                                               size_t place) {
  uint64_t word = 0;
  for (size_t i = 0; i < 8 && place * 8 + i < size; ++i)
    word |= static_cast<uint64_t>(bytes[place * 8 + i]) << (8 * i);
  return word;
}

inline uint64_t checksum_of_bytes(const void* bytes, size_t size, uint64_t first_place = 0) {
  const auto* const at = static_cast<const unsigned char*>(bytes);
  uint64_t sum = 0, word = 0;
  size_t place = 0;
  for (; (place + 1) * 8 <= size; ++place) {
    std::memcpy(&word, at + place * 8, 8);
    sum += mixed(word, first_place + place);
  }
  if (place * 8 < size) sum += mixed(word_at(at, size, place), first_place + place);
  return sum;
}

inline uint64_t checksum_of_file(const std::string& name) {
  const int fd = open(name.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw std::runtime_error(name + ": " + std::strerror(errno));
  std::vector<char> part(1 << 20);
  uint64_t sum = 0, at = 0;
  for (;;) {
    size_t got = 0;
    while (got < part.size()) {
      const ssize_t more =
          pread(fd, part.data() + got, part.size() - got, static_cast<off_t>(at + got));
      if (more <= 0) break;
      got += static_cast<size_t>(more);
    }
    sum += checksum_of_bytes(part.data(), got, at / 8);
    at += got;
    if (got < part.size()) break;
  }
  close(fd);
  return sum;
}

#ifdef FILE_CHECKSUM_HAS_KERNEL
uint64_t checksum_by_kernel(const lci::buffer& memory);  // file_checksum.cu
#endif

// how: set to the name of what computed it.
inline uint64_t checksum_of_memory(const lci::buffer& memory, std::string& how) {
  if (!memory.is_gpu()) {
    how = "the processor";
    return checksum_of_bytes(memory.data(), memory.size());
  }
#ifdef FILE_CHECKSUM_HAS_KERNEL
  how = "a kernel";
  return checksum_by_kernel(memory);
#else
  how = "the processor, over a copy (built without nvcc)";
  std::vector<char> copy(memory.size());
  lci::buffer_copier copies(memory.device());
  copies.wait(copies.start(copy.data(), memory.data(), copy.size()));
  return checksum_of_bytes(copy.data(), copy.size());
#endif
}
