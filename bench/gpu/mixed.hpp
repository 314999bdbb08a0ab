// What only lci can do here: host memory at one end, host messages beside GPU bulk transfers, and
// the copies of which staging through the host consists.
#pragma once

#include "bench/gpu/contender.hpp"

namespace bench {

// One-way times in us of a put with signal of 8 bytes, from host memory to a GPU or back; the
// return trip is a put of host memory, whose one-way time is subtracted.
double host_to_gpu_us(session& run, gpu& here, int rounds);
double gpu_to_host_us(session& run, gpu& here, int rounds);

struct beside_result {
  double alone_us, alone_p99_us, beside_us, beside_p99_us, bulk_gbs;
};
// One-way times of 8 bytes from host to host, without and with GPU puts of `bulk` bytes under way.
beside_result beside_bulk(session& run, gpu& here, std::size_t bulk, int rounds);

// GB/s of a copy from GPU to pinned host memory, or back; 0 if this driver cannot do that.
double copy_gbs(gpu& here, bool to_host, std::size_t size);

}  // namespace bench
