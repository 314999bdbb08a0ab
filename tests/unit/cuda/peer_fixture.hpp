// Two processes with an accelerator each: an owner that publishes records in its arena, and a user
// that sees the start of that arena.
#pragma once

#include <sys/mman.h>

#include <functional>
#include <string>

#include "backends/cuda/accelerator.hpp"
#include "tests/support/descriptor_passing.hpp"
#include "tests/support/sizes.hpp"
#include "tests/unit/cuda/two_processes.hpp"

namespace lci::cuda {

using lci::test::MIB;
inline constexpr int PEER = 3;

// One process's use of CUDA.
struct side {
  explicit side(const accelerator_options& options = {}) : acc(d, pointers, arena, options) {
    mock().start();
  }
  driver d{mock_options()};
  pointer_cache pointers{d};
  mem::arena arena{64 * MIB};
  accelerator acc;
};

// What travels: where the record is, and what it is about.
struct offered {
  mem::share_place place;
  std::uint64_t address = 0;
  std::uint64_t size = 0;
};

inline void tell(int fd) { ASSERT_EQ(write(fd, "x", 1), 1); }
inline void wait(int fd) {
  char c = 0;
  ASSERT_EQ(read(fd, &c, 1), 1);
}

class owner_side : public side {
 public:
  owner_side(int socket, const accelerator_options& options = {}) : side(options), fd(socket) {
    const std::byte one{};
    EXPECT_TRUE(test::send_with_descriptor(fd, std::span(&one, 1), arena.fd()));
  }
  void* offer(test::mock_memory kind, std::size_t size = 2 * MIB, int gpu = 0) {
    void* const memory = mock().allocate(kind, size, gpu);
    offer_again(memory, size);
    return memory;
  }
  void offer_again(void* memory, std::size_t size = 2 * MIB) {
    std::string why;
    const offered what{acc.share(memory, size, why), as_device(memory), size};
    EXPECT_NE(what.place.record, 0u) << why;
    EXPECT_EQ(write(fd, &what, sizeof(what)), static_cast<ssize_t>(sizeof(what)));
  }
  const int fd;
};

class user_side : public side {
 public:
  user_side(int socket, int pid, const accelerator_options& options = {})
      : side(options), fd(socket), owner(pid) {
    std::byte one{};
    int file = -1;
    EXPECT_TRUE(test::receive_with_descriptor(fd, std::span(&one, 1), file));
    view =
        static_cast<std::byte*>(mmap(nullptr, SEEN, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    close(file);
  }
  ~user_side() { munmap(view, SEEN); }
  mem::peer_range receive() {
    offered what;
    EXPECT_EQ(read(fd, &what, sizeof(what)), static_cast<ssize_t>(sizeof(what)));
    return {PEER, owner, view + what.place.record, what.place.check, what.address, what.size};
  }
  mem::mapped_memory map(const mem::peer_range& what, int device = 0) {
    return acc.map(what, device, why);
  }
  std::byte* record_of(const mem::peer_range& what) { return const_cast<std::byte*>(what.record); }
  // Rewrites the record as a hostile peer would: with a check that fits.
  mem::peer_range forge(mem::peer_range what, const std::function<void(share_record&)>& change) {
    auto record = share_record::decode(share_record::read(what.record)).value();
    change(record);
    share_record::write(record_of(what), record.encode());
    what.check = share_record::check_of(record.encode());
    return what;
  }
  bool says(const std::string& part) const { return why.find(part) != std::string::npos; }

  static constexpr std::size_t SEEN = MIB;  // of the owner's arena
  const int fd, owner;
  std::byte* view = nullptr;
  std::string why;
};

// An owner that offers memory until it is told to end.
inline void offer_one_of_each(int fd) {
  owner_side here(fd);
  here.offer(test::mock_memory::device);
  here.offer(test::mock_memory::vmm);
  wait(fd);
}

// Waits for a copy of a user's.
struct told final : mem::copy_job {
  void on_copied(std::string_view text) noexcept override {
    error = text;
    has_ended = true;
  }
  std::string error;
  bool has_ended = false;
};

inline void push(user_side& here, std::byte* to, const std::vector<std::byte>& bytes) {
  told job;
  job.to = to;
  job.from = bytes.data();
  job.size = bytes.size();
  here.acc.copy(job);
  while (!job.has_ended) {
    mock().run_all();
    here.acc.poll();
  }
  EXPECT_EQ(job.error, "");
}

}  // namespace lci::cuda
