// Two real processes: one owns GPU memory, the other maps it. They start CUDA after the fork, as
// programs have to.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <functional>

#include "backends/cuda/copier.hpp"
#include "backends/cuda/import_cache.hpp"
#include "tests/support/descriptor_passing.hpp"
#include "tests/support/sizes.hpp"
#include "tests/unit/cuda/two_processes.hpp"

// Apart from peer_fixture.hpp, which has a side of its own.
namespace lci::cuda::importing {

using lci::test::MIB;
inline constexpr int PEER = 3;

// What one process sends to the other: a ticket and perhaps a descriptor, or one character.
class wire {
 public:
  explicit wire(int fd) : fd_(fd) {}
  void send(const exported& what) const {
    ASSERT_TRUE(test::send_with_descriptor(fd_, what.ticket.encode(), what.fd.get()));
  }
  share_ticket receive(descriptor& fd) const {
    std::array<std::byte, share_ticket::BYTES> bytes{};
    int got = -1;
    EXPECT_TRUE(test::receive_with_descriptor(fd_, bytes, got));
    fd.reset(got);
    return share_ticket::decode(bytes).value_or(share_ticket{});
  }
  void tell() const { ASSERT_EQ(write(fd_, "x", 1), 1); }
  void wait() const {
    char c = 0;
    ASSERT_EQ(read(fd_, &c, 1), 1);
  }

 private:
  int fd_;
};

// One process's use of CUDA.
struct side {
  side() { mock().start(); }
  exported share(void* memory) {
    return export_range(gpus, classify(d.in_process(), memory).what, as_device(memory), 8);
  }
  driver d{mock_options()};
  gpu_list gpus{d};
};

class import_test : public two_processes {
 protected:
  // `owner` runs in a child; the mapping side is the test itself, with the leaks looked for.
  void run(const std::function<void(wire)>& owner, const std::function<void(wire)>& user) {
    run_both([&](int fd) { owner(wire(fd)); }, [&](int fd) { user(wire(fd)); });
  }
};

// Pushes bytes into the peer's memory with a copier, as the protocol will.
inline void push(side& here, const imported& to, const std::vector<std::byte>& bytes) {
  copier copies(here.gpus.at(0));
  const copy one{to.at(0, bytes.size()), as_device(bytes.data()), bytes.size()};
  ASSERT_NE(one.to, 0u);
  ASSERT_EQ(copies.post(direction::to_gpu, std::span(&one, 1), {}, nullptr).code,
            errorcode_t::posted);
  while (!copies.is_idle()) {
    mock().run_all();
    copies.poll();
  }
}

inline void expect_contents(void* memory, const std::vector<std::byte>& bytes) {
  EXPECT_EQ(std::memcmp(mock().contents(memory), bytes.data(), bytes.size()), 0);
}

// An owner that offers memory until it is told to end.
inline void offer(wire w, int count, std::size_t size = MIB) {
  side here;
  for (int i = 0; i < count; ++i)
    w.send(here.share(mock().allocate(test::mock_memory::device, size)));
  w.wait();
}

}  // namespace lci::cuda::importing
