// Messages beyond 4 GiB. Only with --long: the receiver needs that much memory.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "world.hpp"

namespace interface_test {
namespace {

// More than 4 GiB of address space that repeats a few megabytes, so the sender needs no more memory
// than those. The length of the repeated part is no power of two: data that lands at a wrong
// multiple of one is noticed.
class repeated {
 public:
  static constexpr std::size_t PART = 16385 * std::size_t{4096};
  static constexpr std::size_t SIZE = PART * 66;
  static_assert(SIZE > (std::size_t{1} << 32));

  explicit repeated(std::uint64_t seed)
      : file_(::memfd_create("lci-test-repeated", 0)), part_(pattern(PART, seed)) {
    if (::ftruncate(file_, PART) != 0 ||
        ::pwrite(file_, part_.data(), PART, 0) != static_cast<ssize_t>(PART))
      std::abort();
    base_ = static_cast<char*>(
        ::mmap(nullptr, SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    for (std::size_t at = 0; at < SIZE; at += PART)
      if (::mmap(base_ + at, PART, PROT_READ, MAP_SHARED | MAP_FIXED, file_, 0) == MAP_FAILED)
        std::abort();
  }
  ~repeated() {
    ::munmap(base_, SIZE);
    ::close(file_);
  }
  repeated(const repeated&) = delete;
  repeated& operator=(const repeated&) = delete;
  char* data() const { return base_; }
  // First wrong part of a copy, or -1.
  long wrong_part(const char* copy) const {
    for (std::size_t at = 0; at < SIZE; at += PART)
      if (!std::equal(part_.begin(), part_.end(), copy + at)) return static_cast<long>(at / PART);
    return -1;
  }

 private:
  int file_;
  std::vector<char> part_;
  char* base_;
};

class long_messages : public testing::Test {
 protected:
  void SetUp() override {
    if (!world().long_mode) GTEST_SKIP() << "needs --long and 5 GiB of memory";
  }
};

TEST_F(long_messages, send__beyond_4_gib) {
  const repeated content(1);
  owned_comp done(lci::alloc_cq());
  if (world().rank == 0) {
    insist(lci::post_send_x(world().n - 1, content.data(), repeated::SIZE, 1, done)
               .device(world().device)
               .allow_done(false));
  }
  if (world().rank == world().n - 1) {
    std::vector<char> in(repeated::SIZE);
    EXPECT_EQ(
        lci::post_recv_x(0, in.data(), in.size(), 1, lci::COMP_NULL).device(world().device)().size,
        repeated::SIZE);
    EXPECT_EQ(content.wrong_part(in.data()), -1);
  }
  if (world().rank == 0) {
    EXPECT_EQ(pop(done).size, repeated::SIZE);
  }
}

TEST_F(long_messages, put_and_get__beyond_4_gib) {
  const repeated content(2);
  const int target = world().n - 1;
  // Only the target needs the memory; the others take part with one byte.
  window memory(world().rank == target ? repeated::SIZE : 1);
  inbox box;
  if (world().rank == 0) {
    insist(lci::post_put_x(target, content.data(), repeated::SIZE, lci::COMP_NULL_RETRY, 0,
                           memory.rmr(target))
               .device(world().device)
               .remote_comp(box.rcomp()));
  }
  if (world().rank == target) {
    EXPECT_EQ(pop(box.cq()).rank, 0);
    EXPECT_EQ(content.wrong_part(memory.bytes().data()), -1);
  }
  barrier();
  // Back in two halves, the second of which starts beyond 2 GiB.
  if (world().rank == 0) {
    const std::size_t half = repeated::SIZE / 2;
    std::vector<char> in(half);
    lci::post_get_x(target, in.data(), half, lci::COMP_NULL, repeated::SIZE - half,
                    memory.rmr(target))
        .device(world().device)();
    EXPECT_TRUE(std::equal(in.begin(), in.end(), content.data() + repeated::SIZE - half));
  }
}

}  // namespace
}  // namespace interface_test
