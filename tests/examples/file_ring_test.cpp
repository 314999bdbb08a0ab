#include "examples/file_ring.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <stdexcept>

#include "examples/file_checksum.hpp"
#include "lci/base/descriptor.hpp"
#include "tests/support/leak_guard.hpp"
#include "tests/support/mock_cuda/mock_cuda.hpp"

#ifdef FILE_RING_HAS_URING
// The linker takes these in place of liburing's own.
extern "C" int __real_io_uring_submit(io_uring* ring);
extern "C" int __wrap_io_uring_submit(io_uring* ring);
static int refusals = 0;  // of the next submissions
int __wrap_io_uring_submit(io_uring* ring) {
  if (refusals == 0) return __real_io_uring_submit(ring);
  --refusals;
  return -EAGAIN;
}
#endif

namespace {

using lci::base::descriptor;

constexpr size_t FILE_SIZE = 100003;

std::vector<char> contents() {
  std::vector<char> bytes(FILE_SIZE);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7 + i / 251);
  return bytes;
}

descriptor make_file() {
  descriptor fd(memfd_create("file_ring_test", MFD_CLOEXEC));
  const std::vector<char> bytes = contents();
  EXPECT_EQ(write(fd.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  return fd;
}

// With each engine that is there.
class file_ring_test : public testing::TestWithParam<const char*> {
 protected:
  file_ring_options options(unsigned depth, unsigned threads = 2) const {
    file_ring_options out;
    out.depth = depth;
    out.threads = threads;
    out.engine = GetParam();
    return out;
  }
  void SetUp() override {
    try {
      file_ring(file_.get(), options(1));
    } catch (const std::runtime_error& error) {
      GTEST_SKIP() << error.what();
    }
  }
  const descriptor file_ = make_file();
  const lci::test::leak_guard guard_;
};

TEST_P(file_ring_test, read_by_ring__every_byte_at_its_place) {
  const std::vector<char> wanted = contents();
  for (const unsigned depth : {1u, 3u, 16u}) {
    for (const unsigned threads : {1u, 4u}) {
      for (const size_t piece : {size_t{4096}, size_t{777}, size_t{200000}}) {
        file_ring ring(file_.get(), options(depth, threads));
        std::vector<char> got(FILE_SIZE);
        EXPECT_EQ(read_by_ring(ring, got.data(), got.size(), 0, piece), FILE_SIZE);
        EXPECT_TRUE(got == wanted) << depth << " " << threads << " " << piece;
      }
    }
  }
}

TEST_P(file_ring_test, prepare__is_refused_when_the_ring_is_full) {
  file_ring ring(file_.get(), options(2));
  char bytes[8] = "";
  EXPECT_TRUE(ring.prepare({bytes, 4, 0, 1}));
  EXPECT_TRUE(ring.prepare({bytes + 4, 4, 4, 2}));
  EXPECT_FALSE(ring.prepare({bytes, 1, 0, 3}));
  ring.submit();
  EXPECT_EQ(ring.under_way(), 2u);
  std::vector<file_result> results;
  ring.wait(results, 100);
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[0].tag + results[1].tag, 3u);
  EXPECT_TRUE(std::equal(bytes, bytes + 8, contents().begin()));
  EXPECT_TRUE(ring.prepare({bytes, 1, 0, 3}));
  ring.submit();
  ring.submit();  // nothing is prepared
}

TEST_P(file_ring_test, wait__tells_the_end_of_the_file_and_errors) {
  std::vector<char> bytes(1000);
  std::vector<file_result> results;
  {
    file_ring ring(file_.get(), options(4));
    ring.prepare({bytes.data(), 1000, FILE_SIZE - 10, 1});
    ring.submit();
    ring.wait(results, 1);
    ASSERT_EQ(results.size(), 1u);
    EXPECT_EQ(results[0].bytes, 10);
    results.clear();
    ring.prepare({bytes.data(), 1000, FILE_SIZE + 10, 1});
    ring.submit();
    ring.wait(results, 1);
    EXPECT_EQ(results.at(0).bytes, 0);
    results.clear();
    ring.wait(results, 1);  // nothing is under way
    EXPECT_TRUE(results.empty());
  }
  const descriptor unreadable(open("/dev/null", O_WRONLY | O_CLOEXEC));
  file_ring ring(unreadable.get(), options(4));
  ring.prepare({bytes.data(), 1000, 0, 1});
  ring.submit();
  ring.wait(results, 1);
  EXPECT_EQ(results.at(0).bytes, -EBADF);
  EXPECT_THROW(read_by_ring(ring, bytes.data(), 1000, 0, 100), std::runtime_error);
}

TEST_P(file_ring_test, end__waits_for_what_is_under_way) {
  std::vector<char> bytes(FILE_SIZE);
  file_ring ring(file_.get(), options(8));
  for (size_t i = 0; i < 8; ++i) ring.prepare({bytes.data() + i * 1000, 1000, i * 1000, i});
  ring.submit();
}

INSTANTIATE_TEST_SUITE_P(engines, file_ring_test,
                         testing::Values("pread", "uring", "cufile", "auto"),
                         [](const auto& one) { return std::string(one.param); });

#ifdef FILE_RING_HAS_URING
// The first refusal meets submit(), the others those who wait for what was not handed over.
TEST(file_ring_uring_test, submit__what_the_kernel_refuses_for_now_is_handed_over_later) {
  const descriptor file = make_file();
  file_ring_options options;
  options.engine = "uring";
  std::unique_ptr<file_ring> ring;
  try {
    ring = std::make_unique<file_ring>(file.get(), options);
  } catch (const std::runtime_error& error) {
    GTEST_SKIP() << error.what();
  }
  std::vector<char> bytes(4000);
  for (size_t i = 0; i < 4; ++i) ring->prepare({bytes.data() + i * 1000, 1000, i * 1000, i});
  refusals = 3;
  ring->submit();
  std::vector<file_result> results;
  ring->wait(results, 4);
  EXPECT_EQ(refusals, 0);
  ASSERT_EQ(results.size(), 4u);
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), contents().begin()));
  // Its end waits for them as well.
  ring->prepare({bytes.data(), 1000, 0, 1});
  refusals = 3;
  ring->submit();
  ring.reset();
  EXPECT_EQ(refusals, 0);
}
#endif

// Copies that fail, into memory of a GPU that the mock driver makes.
class file_ring_mock_test : public testing::Test {
 protected:
  static constexpr size_t REQUESTS = 4, PIECE = 4096;

  void SetUp() override {
    if (std::getenv("LCI_MOCK_CUDA_ENGINE") == nullptr) GTEST_SKIP() << "not on the mock driver";
    mock_ = lci::test::load_mock_cuda("");
    ASSERT_NE(mock_, nullptr);
    memory_ = lci::buffer::create(REQUESTS * PIECE, 0);
    open_ring();
  }
  void open_ring() {
    file_ring_options options;
    options.depth = REQUESTS;
    options.threads = 2;
    options.device = 0;
    options.piece = PIECE;
    options.engine = "pread";
    ring_ = std::make_unique<file_ring>(file_.get(), options);
  }
  void submit_all() {
    for (uint64_t i = 0; i < REQUESTS; ++i)
      ring_->prepare({static_cast<char*>(memory_.data()) + i * PIECE, PIECE, i * PIECE, i});
    ring_->submit();
  }
  // Waits for all: each is reported once. How many have failed.
  size_t failed_of_all() {
    std::vector<file_result> results;
    ring_->wait(results, REQUESTS);
    uint64_t tags = 0;
    size_t failed = 0;
    for (const file_result& one : results) {
      tags |= uint64_t{1} << one.tag;
      failed += one.bytes == -EIO;
      EXPECT_TRUE(one.bytes == -EIO || one.bytes == int64_t{PIECE}) << one.bytes;
    }
    EXPECT_EQ(results.size(), REQUESTS);
    EXPECT_EQ(tags, (uint64_t{1} << REQUESTS) - 1);
    EXPECT_EQ(ring_->under_way(), 0u);
    return failed;
  }
  const descriptor file_ = make_file();
  lci::test::mock_cuda* mock_ = nullptr;
  lci::buffer memory_;
  std::unique_ptr<file_ring> ring_;
};

TEST_F(file_ring_mock_test, wait__a_copy_that_cannot_start_fails_its_request_alone) {
  for (const int which : {1, 2, 4}) {
    mock_->fail_nth("cuMemcpyAsync", which, lci::cuda::abi::result::launch_failed);
    submit_all();
    EXPECT_EQ(failed_of_all(), 1u) << which;
  }
  submit_all();
  EXPECT_EQ(failed_of_all(), 0u);  // all slots are there
}

TEST_F(file_ring_mock_test, wait__a_copy_that_fails_is_reported_with_those_under_way) {
  mock_->fail_nth("cuEventQuery", 1, lci::cuda::abi::result::launch_failed);
  submit_all();
  EXPECT_GE(failed_of_all(), 1u);
  submit_all();
  EXPECT_EQ(failed_of_all(), 0u);
}

TEST_F(file_ring_mock_test, end__returns_when_copies_fail) {
  for (const char* const call : {"cuMemcpyAsync", "cuEventQuery"}) {
    open_ring();
    mock_->fail_nth(call, 1, lci::cuda::abi::result::launch_failed);
    const size_t before = mock_->count(call);
    submit_all();
    ring_.reset();
    EXPECT_GT(mock_->count(call), before);
  }
}

TEST(file_ring_options_test, engine__unknown_is_refused) {
  const descriptor file = make_file();
  file_ring_options options;
  options.engine = "tape";
  EXPECT_THROW(file_ring(file.get(), options), std::invalid_argument);
}

// A thread that cannot use its GPU: who makes the engine is told, or another engine is taken.
TEST(file_engines_test, threads__what_one_throws_at_its_start_reaches_the_maker) {
  const lci::test::leak_guard guard;
  const descriptor file = make_file();
  std::atomic<int> started{0};
  const auto third_fails = [&started] {
    if (++started == 3) throw std::runtime_error("no context");
  };
  const auto nothing = [](char*, size_t, uint64_t) -> int64_t { return 0; };
  try {
    threads_engine_t(4, "nothing", nothing, third_fails);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "no context");
  }
  EXPECT_EQ(started, 4);
}

TEST(file_engines_test, threads__what_a_read_throws_is_an_error_of_that_read) {
  threads_engine_t engine(2, "broken", [](char*, size_t, uint64_t offset) -> int64_t {
    if (offset == 7) throw std::runtime_error("no such function");
    return 0;
  });
  char byte = 0;
  engine.start({{1, &byte, 1, 7}, {2, &byte, 1, 8}});
  std::vector<file_read_done> done;
  while (done.size() < 2) engine.reap(done, true);
  for (const file_read_done& one : done) EXPECT_EQ(one.bytes, one.slot == 1 ? -EIO : 0);
}

TEST(file_checksum_test, same_in_parts_and_sensitive_to_place) {
  const std::vector<char> bytes = contents();
  const uint64_t whole = checksum_of_bytes(bytes.data(), bytes.size());
  EXPECT_EQ(checksum_of_bytes(bytes.data(), 8000) +
                checksum_of_bytes(bytes.data() + 8000, bytes.size() - 8000, 1000),
            whole);
  std::vector<char> swapped = bytes;
  std::swap_ranges(swapped.begin(), swapped.begin() + 8, swapped.begin() + 8);
  EXPECT_NE(checksum_of_bytes(swapped.data(), swapped.size()), whole);
  const descriptor file = make_file();
  EXPECT_EQ(checksum_of_file("/proc/self/fd/" + std::to_string(file.get())), whole);
}

}  // namespace
