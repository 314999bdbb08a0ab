// What the mock driver remembers. Threads: everything under state::mutex, but for the stack of
// contexts, which each thread has for itself.
#pragma once

#include <sys/types.h>

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/mock_cuda/mock_cuda.hpp"

namespace lci::mock {

using cuda::abi::device_ptr;
using cuda::abi::functions;
using cuda::abi::result;

inline constexpr std::size_t PAGE = 4096;

struct context {
  int gpu = 0;
  int retained = 0;
  bool destroyed = false;
  bool used = false;  // was ever retained
};

inline bool is_vmm(test::mock_memory kind) {
  return kind == test::mock_memory::vmm || kind == test::mock_memory::vmm_fabric ||
         kind == test::mock_memory::vmm_without_export;
}
inline cuda::abi::handle_type handle_types_of(test::mock_memory kind) {
  return kind == test::mock_memory::vmm          ? cuda::abi::handle_type::posix_file_descriptor
         : kind == test::mock_memory::vmm_fabric ? cuda::abi::handle_type::fabric
                                                 : cuda::abi::handle_type::none;
}
inline bool has(cuda::abi::handle_type all, cuda::abi::handle_type one) {
  return (static_cast<int>(all) & static_cast<int>(one)) != 0;
}

// Physical memory: a memory file and our view of it.
struct physical {
  int fd = -1;
  std::size_t size = 0;
  std::byte* view = nullptr;
  std::uint64_t block_id = 0;
  int gpu = 0;
  cuda::abi::handle_type handle_types = cuda::abi::handle_type::none;
  ~physical();
};
std::shared_ptr<physical> make_physical(std::size_t size, int fd = -1);

enum class block_use { user, lci_pinned, lci_registered, ipc_import, reservation, vmm_import };

// An address range known to the driver.
struct block {
  device_ptr base = 0;
  std::size_t size = 0;
  test::mock_memory kind = test::mock_memory::device;
  block_use use = block_use::user;
  int gpu = 0;
  std::uint64_t id = 0;
  std::shared_ptr<physical> memory;  // null: host memory as it is, or nothing mapped
  std::size_t offset = 0;            // of base in the physical memory
  device_ptr reserved = 0;           // start and length of the address range to give back
  std::size_t reserved_size = 0;
  int opens = 0;  // of an IPC import
  std::string handle;
  bool accessible = true;  // VMM: cuMemSetAccess was called
  std::set<int> peers;     // VMM: the other GPUs that may access it
  bool of_user = false;    // a reservation that no call of the driver made
};

// What stands in for a kernel: the mock runs no device code, it knows by name what some kernels do.
struct state;
struct stream;
struct operation;
struct emulated_kernel {
  const char* name;
  std::size_t parameter;  // bytes of the one that it takes
  // Whether it is through with waiting, if it waits for anything.
  bool (*is_ready)(state& s, const std::byte* parameter);
  result (*run)(state& s, const std::byte* parameter);
  // In place of run, for kernels that do not end at once: a little of it; true: it has ended.
  bool (*step)(state& s, stream& on, operation& what, result& code) = nullptr;
};

struct operation {
  enum class what { copy, write32, write64, record, wait, wait_value, launch } kind = what::copy;
  device_ptr to = 0, from = 0;
  std::size_t size = 0;
  std::uint64_t value = 0;
  void* event = nullptr;
  std::uint64_t generation = 0;  // of the event
  const emulated_kernel* kernel = nullptr;
  std::vector<std::byte> parameter;  // as at the launch
  unsigned blocks = 0;
  std::shared_ptr<void> progress;  // of a kernel that runs in steps
};

// What was captured, or an instance of it: operations one behind the other.
struct graph {
  std::vector<operation> all;
};

struct stream {
  context* owner = nullptr;
  std::deque<operation> queue;
  graph* capture = nullptr;  // while work goes there
  bool capture_spoilt = false;
  result error = result::success;
};

struct event {
  std::uint64_t recorded = 0, reached = 0;
  result error = result::success;
};

struct planned_failure {
  int calls_left = 0;
  result code = result::success;
};

struct state {
  std::recursive_mutex mutex;
  test::mock_config config;
  bool started = false;
  pid_t started_in = 0;
  std::uint64_t next_id = 2985;     // of buffers: never used twice
  std::uint64_t next_block_id = 1;  // of physical memory
  std::map<device_ptr, block> blocks;
  std::multimap<std::size_t, device_ptr> free_ranges;  // by length: an address comes back soon
  device_ptr last_freed = 0;                           // start of a range
  std::vector<std::unique_ptr<context>> contexts;      // primary ones, by GPU
  std::set<stream*> streams;
  std::set<stream*> orphans;  // destroyed with work left to run
  std::set<event*> events;
  std::set<graph*> graphs;
  std::set<void*> modules;  // loaded device code
  std::map<unsigned long long, std::shared_ptr<physical>> handles;
  std::map<unsigned long long, int> handle_references;
  std::map<std::string, std::size_t> counts;
  std::map<std::string, planned_failure> failures;
  void (*before)() noexcept = nullptr;  // see call_around()
  void (*after)() noexcept = nullptr;
  std::vector<std::string> blocking;
  bool watching = false;
  bool capturing = false, capture_spoilt = false;
  result break_next = result::success;
  std::minstd_rand random;
  std::thread engine;
  bool engine_on = false;
  long pushed = 0;  // contexts, over all threads

  block* find(device_ptr at, std::size_t size = 0);
  // Where the copy engine finds these bytes; plain host memory is where it is.
  std::byte* resolve(device_ptr at, std::size_t size);
  bool run_one();
  device_ptr take_range(std::size_t size);
  void drop(device_ptr base);
};
state& the();
test::mock_cuda& control_of();

context* current() noexcept;  // of this thread, or null
// Into the stream, or into the graph that is being made of it.
void put(stream& s, const operation& what);
// A stream that exists, in the context that is current: what the driver demands of work.
result check_stream(const state& s, cuda::abi::stream handle, stream*& out);
std::size_t depth_of_this_thread();

// Counts the call, answers a planned failure, else runs `body` under the lock.
enum class needs { nothing, started, context };
result enter(const char* name, needs what);
class surrounded {
 public:
  surrounded() noexcept : after_(the().after) {
    if (the().before != nullptr) the().before();
  }
  ~surrounded() {
    if (after_ != nullptr) after_();
  }
  surrounded(const surrounded&) = delete;
  surrounded& operator=(const surrounded&) = delete;

 private:
  void (*const after_)() noexcept;
};
template <class Body>
result guarded(const char* name, needs what, Body&& body) {
  const std::lock_guard lock(the().mutex);
  const surrounded by_the_test;
  if (const result early = enter(name, what); early != result::success) return early;
  return body(the());
}
// For calls that wait, and for those that a global capture forbids.
void note_blocking(const char* name);
result unsafe_in_capture();

void fill_process(functions& table);
void fill_memory(functions& table);
void fill_sharing(functions& table);
void fill_streams(functions& table);
void fill_graphs(functions& table);
void fill_kernels(functions& table);
// resident.cpp: the resident copy kernel.
bool step_resident_copy(state& s, stream& on, operation& what, result& code);
// atomics.cpp: the kernel for atomic operations.
bool step_atomic_words(state& s, stream& on, operation& what, result& code);

}  // namespace lci::mock
