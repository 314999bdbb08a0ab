#include "lci/gpu/mapped_puts.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "tests/unit/gpu/job.hpp"

namespace lci::gpu {
namespace {

using test::gpu_job;

// A put of 8 bytes at 128 of rank 0 to 64 of rank 1, and a signal at 256 there; all of it mapped.
struct asked {
  endpoint_t ep;
  record_words record;
  int rank = 1;
  place_t to, from;
  std::uint64_t size = 8;
  detail::signal_request signal;

  bool is_found(detail::mapped_put* out) const {
    return detail::find_mapped_put(ep, record, rank, to, {&from, 0}, size, signal, out);
  }
};
asked plain(gpu_job& job) {
  const endpoint_t ep = job.endpoint(0);
  return {ep,
          words_of(ep),
          1,
          job.at(1, 64, true),
          job.at(0, 128, true),
          8,
          {job.at(1, 256, true), 9, signal_op::set, true}};
}

TEST(mapped_puts, find_mapped_put__tells_where_and_reads_a_word) {
  gpu_job job;
  asked a = plain(job);
  *job.word(0, 128) = 0x1122334455667788;
  detail::mapped_put found;
  ASSERT_TRUE(a.is_found(&found));
  EXPECT_EQ(found.to, reinterpret_cast<std::uintptr_t>(job.bytes(1, 64)));
  EXPECT_EQ(found.word, reinterpret_cast<std::uintptr_t>(job.bytes(1, 256)));
  EXPECT_TRUE(found.is_word);
  EXPECT_EQ(found.bits, 0x1122334455667788u);
  EXPECT_FALSE(found.is_near);
  a.to.key.is_near = a.signal.at.key.is_near = 1;
  a.size = 4;
  ASSERT_TRUE(a.is_found(&found));
  EXPECT_EQ(found.bits, 0x55667788u);
  EXPECT_TRUE(found.is_near);
  for (const std::uint64_t size : {12u, 64u, 3000u}) {
    a.size = size;
    ASSERT_TRUE(a.is_found(&found));
    EXPECT_FALSE(found.is_word) << "more than one store";
  }
  a.size = 8;
  a.from.offset = 129;
  ASSERT_TRUE(a.is_found(&found));
  EXPECT_FALSE(found.is_word) << "not aligned";
  a.size = 0;
  a.from = a.to = {};
  EXPECT_TRUE(a.is_found(&found)) << "the signal alone";
}

TEST(mapped_puts, find_mapped_put__says_no_to_each_thing_that_is_not_right) {
  const std::function<void(asked&)> spoilers[] = {
      [](asked& a) { a.to.key.mapped = 0; },
      [](asked& a) { a.from.key.mapped = 0; },
      [](asked& a) { a.signal.at.key.mapped = 0; },
      [](asked& a) { a.to.offset = a.to.key.length - 7; },
      [](asked& a) { a.from.offset = a.from.key.length - 7; },
      [](asked& a) { a.signal.at.offset = a.signal.at.key.length; },
      [](asked& a) { a.to.offset = ~std::uint64_t{0}; },
      [](asked& a) { a.signal.at.offset = 260; },
      [](asked& a) { a.to.key.rank = 0; },
      [](asked& a) { a.from.key.rank = 1; },
      [](asked& a) { a.signal.at.key.rank = 0; },
      [](asked& a) { a.rank = 2; },
      [](asked& a) { a.rank = -1; },
      [](asked& a) { a.to.key.of_card = 1; },
      [](asked& a) { a.from.key.of_card = 1; },
      [](asked& a) { a.signal.at.key.of_card = 1; },
      [](asked& a) { a.record.over_card = 1; },
      [](asked& a) { a.record.generation = 6; },
      [](asked& a) { a.signal.op = signal_op::add, a.signal.at.key.no_atomics = 1; },
  };
  gpu_job job;
  int count = 0;
  for (const auto& spoil : spoilers) {
    asked a = plain(job);
    detail::mapped_put found;
    ASSERT_TRUE(a.is_found(&found));
    spoil(a);
    EXPECT_FALSE(a.is_found(&found)) << "spoiler " << count;
    ++count;
  }
  // What is not known is not wrong.
  asked a = plain(job);
  a.to.key.rank = a.from.key.rank = a.signal.at.key.rank = ANY_RANK;
  a.to.key.length = a.from.key.length = a.signal.at.key.length = UNKNOWN_LENGTH;
  detail::mapped_put found;
  EXPECT_TRUE(a.is_found(&found));
}

TEST(mapped_puts, store_mapped__a_word_and_its_signal_and_nothing_else) {
  for (const std::uint64_t size : {8u, 4u, 0u}) {
    gpu_job job;
    std::memset(job.bytes(0, 128), 0x77, 8);
    asked a = plain(job);
    a.size = size;
    detail::mapped_put found;
    ASSERT_TRUE(a.is_found(&found));
    detail::store_mapped(found, size, a.signal);
    std::vector<std::byte> wanted(4096, std::byte{0x11});
    std::memset(wanted.data() + 64, 0x77, size);
    std::memset(wanted.data() + 256, 0, 8);
    wanted[256] = std::byte{9};
    EXPECT_EQ(std::memcmp(job.bytes(1), wanted.data(), wanted.size()), 0) << size;
  }
}

// A thread cannot read the memory of a GPU: of an endpoint for kernels it may not try.
TEST(mapped_puts, put__a_source_that_a_refused_endpoint_names_is_not_read) {
  gpu_job job;
  asked a = plain(job);
  a.ep.generation |= OF_GPU;
  a.from.key.mapped = 8;  // nobody's memory
  EXPECT_EQ(put_signal(a.ep, 1, a.to, a.from, 8, a.signal.at, 1), status::wrong_gpu);
}

}  // namespace
}  // namespace lci::gpu
