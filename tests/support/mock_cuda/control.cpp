// The test's side of the mock driver, and the symbols that the library exports.
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "backends/cuda/driver.hpp"
#include "tests/support/mock_cuda/state.hpp"

namespace lci::mock {
namespace {

using test::mock_memory;

constexpr std::size_t VMM_PAGE = std::size_t{2} << 20;

functions make_table() {
  functions table{};
  fill_process(table);
  fill_memory(table);
  fill_sharing(table);
  fill_streams(table);
  fill_graphs(table);
  fill_kernels(table);
  return table;
}

class control final : public test::mock_cuda {
 public:
  void reset(const test::mock_config& config) override;
  void start() override;
  void* allocate(mock_memory kind, std::size_t size, int gpu) override;
  void free(void* memory) override;
  void remap(void* memory) override;
  void* reserve(std::size_t size) override;
  std::byte* contents(const void* memory) override;
  bool has_access(const void* memory, int gpu) override;
  std::uint64_t buffer_id(const void* memory) override;
  std::uint64_t next_buffer_id() override;
  void begin_capture() override;
  bool end_capture() override;
  void destroy_context(int gpu) override;
  std::size_t advance(std::size_t count) override;
  std::size_t run_all() override { return advance(~std::size_t{0}); }
  void set_seed(std::uint64_t seed) override;
  void set_engine_thread(bool on) override;
  std::size_t queued_operations() override;
  std::size_t queued_bytes() override;
  void fail_nth(const std::string& call, int n, result code) override;
  void break_next_operation(result code) override;
  void call_around(void (*before)() noexcept, void (*after)() noexcept) override;
  std::size_t count(const std::string& call) override;
  void forget_counts() override;
  std::size_t context_depth() override { return depth_of_this_thread(); }
  bool is_started() override { return the().started; }
  void watch_blocking(bool on) override;
  std::vector<std::string> blocking_calls() override;
  std::vector<std::string> leaks() override;
};

control& the_control() {
  static control one;
  return one;
}

void control::reset(const test::mock_config& config) {
  set_engine_thread(false);
  state& s = the();
  const std::lock_guard lock(s.mutex);
  while (!s.blocks.empty()) s.drop(s.blocks.begin()->first);
  // Which address comes next must not hang on what an earlier test has freed.
  for (const auto& [length, start] : s.free_ranges) {
    munmap(reinterpret_cast<void*>(start), length);
  }
  s.free_ranges.clear();
  s.last_freed = 0;
  for (stream* each : s.streams) delete each;
  for (stream* each : s.orphans) delete each;
  s.orphans.clear();
  for (event* each : s.events) delete each;
  for (graph* each : s.graphs) delete each;
  s.graphs.clear();
  for (void* each : s.modules) delete static_cast<char*>(each);
  s.modules.clear();
  s.streams.clear();
  s.events.clear();
  s.handles.clear();
  s.handle_references.clear();
  s.contexts.clear();
  s.counts.clear();
  s.failures.clear();
  s.blocking.clear();
  s.before = s.after = nullptr;
  s.started = s.watching = s.capturing = s.capture_spoilt = false;
  s.started_in = 0;
  s.break_next = result::success;
  s.pushed = static_cast<long>(depth_of_this_thread());
  s.config = config;
}

void control::start() {
  static const functions table = make_table();
  if (table.init(0) != result::success) throw std::runtime_error("mock cuda: no GPU to start");
}

void* control::allocate(mock_memory kind, std::size_t size, int gpu) {
  state& s = the();
  const std::lock_guard lock(s.mutex);
  if (!s.started || gpu < 0 || gpu >= s.config.gpus || size == 0)
    throw std::runtime_error("mock cuda: start() first, then name a GPU that exists");
  block b;
  b.kind = kind;
  b.gpu = gpu;
  b.size = size;
  b.id = s.next_id++;
  const bool vmm = is_vmm(kind);
  const bool on_host = kind == mock_memory::pinned || kind == mock_memory::managed;
  if (vmm && size % VMM_PAGE != 0) throw std::runtime_error("mock cuda: VMM wants 2 MiB pages");
  // Small allocations share a page with others, so they do not start at one.
  if (!vmm && !on_host && size < PAGE) b.offset = 512;
  b.reserved_size = (size + b.offset + PAGE - 1) / PAGE * PAGE;
  b.reserved = s.take_range(b.reserved_size);
  b.base = b.reserved + b.offset;
  if (on_host) {
    mprotect(reinterpret_cast<void*>(b.reserved), b.reserved_size, PROT_READ | PROT_WRITE);
  } else {
    b.memory = make_physical(b.reserved_size);
    b.memory->gpu = gpu;
    b.memory->handle_types = handle_types_of(kind);
  }
  s.blocks[b.base] = b;
  return reinterpret_cast<void*>(b.base);
}

void control::free(void* memory) {
  state& s = the();
  const std::lock_guard lock(s.mutex);
  const auto found = s.blocks.find(reinterpret_cast<std::uintptr_t>(memory));
  if (found == s.blocks.end()) throw std::runtime_error("mock cuda: freed what was not allocated");
  s.drop(found->first);
}

void control::remap(void* memory) {
  state& s = the();
  const std::lock_guard lock(s.mutex);
  block& b = s.blocks.at(reinterpret_cast<std::uintptr_t>(memory));
  b.memory = make_physical(b.size);
  b.memory->gpu = b.gpu;
  b.memory->handle_types = handle_types_of(b.kind);
}

void* control::reserve(std::size_t size) {
  state& s = the();
  const std::lock_guard lock(s.mutex);
  block b;
  b.kind = mock_memory::vmm;
  b.use = block_use::reservation;
  b.size = b.reserved_size = (size + VMM_PAGE - 1) / VMM_PAGE * VMM_PAGE;
  b.base = b.reserved = s.take_range(b.size);
  b.id = s.next_id++;
  b.of_user = true;
  s.blocks[b.base] = b;
  return reinterpret_cast<void*>(b.base);
}

std::byte* control::contents(const void* memory) {
  const std::lock_guard lock(the().mutex);
  return the().resolve(reinterpret_cast<std::uintptr_t>(memory), 1);
}

bool control::has_access(const void* memory, int gpu) {
  const std::lock_guard lock(the().mutex);
  const block* const b = the().find(reinterpret_cast<std::uintptr_t>(memory));
  return b != nullptr && b->accessible && (b->gpu == gpu || b->peers.count(gpu) != 0);
}

std::uint64_t control::buffer_id(const void* memory) {
  const std::lock_guard lock(the().mutex);
  const block* const b = the().find(reinterpret_cast<std::uintptr_t>(memory));
  return b == nullptr ? 0 : b->id;
}

std::uint64_t control::next_buffer_id() {
  const std::lock_guard lock(the().mutex);
  return the().next_id;
}

void control::begin_capture() {
  const std::lock_guard lock(the().mutex);
  the().capturing = true;
  the().capture_spoilt = false;
}

bool control::end_capture() {
  const std::lock_guard lock(the().mutex);
  the().capturing = false;
  return !the().capture_spoilt;
}

void control::destroy_context(int gpu) {
  const std::lock_guard lock(the().mutex);
  context* const lost = the().contexts.at(static_cast<std::size_t>(gpu)).get();
  lost->destroyed = true;
  for (void* each : the().modules) delete static_cast<char*>(each);
  the().modules.clear();
  for (const auto* all : {&the().streams, &the().orphans}) {
    for (stream* each : *all) {
      if (each->owner == lost) each->queue.clear();  // nothing of it runs any more
    }
  }
}

std::size_t control::advance(std::size_t count) {
  const std::lock_guard lock(the().mutex);
  std::size_t ran = 0;
  while (ran < count && the().run_one()) ++ran;
  return ran;
}

void control::set_seed(std::uint64_t seed) {
  const std::lock_guard lock(the().mutex);
  the().random.seed(static_cast<std::minstd_rand::result_type>(seed));
}

void control::set_engine_thread(bool on) {
  state& s = the();
  {
    const std::lock_guard lock(s.mutex);
    if (s.engine_on == on) return;
    s.engine_on = on;
  }
  if (!on) return s.engine.join();
  s.engine = std::thread([&s] {
    for (;;) {
      // A few at a time, so that callers get in between.
      int ran = 0;
      {
        const std::lock_guard lock(s.mutex);
        if (!s.engine_on) return;
        while (ran < 16 && s.run_one()) ++ran;
      }
      if (ran == 0) {
        std::this_thread::sleep_for(std::chrono::microseconds(20));
      } else {
        std::this_thread::yield();
      }
    }
  });
}

std::size_t control::queued_operations() {
  const std::lock_guard lock(the().mutex);
  std::size_t sum = 0;
  for (const stream* each : the().streams) sum += each->queue.size();
  return sum;
}

std::size_t control::queued_bytes() {
  const std::lock_guard lock(the().mutex);
  std::size_t sum = 0;
  for (const stream* each : the().streams) {
    for (const operation& op : each->queue) {
      if (op.kind == operation::what::copy) sum += op.size;
    }
  }
  return sum;
}

void control::fail_nth(const std::string& call, int n, result code) {
  const std::lock_guard lock(the().mutex);
  the().failures[call] = {n, code};
}

void control::break_next_operation(result code) {
  const std::lock_guard lock(the().mutex);
  the().break_next = code;
}

void control::call_around(void (*before)() noexcept, void (*after)() noexcept) {
  const std::lock_guard lock(the().mutex);
  the().before = before;
  the().after = after;
}

std::size_t control::count(const std::string& call) {
  const std::lock_guard lock(the().mutex);
  return the().counts[call];
}

void control::forget_counts() {
  const std::lock_guard lock(the().mutex);
  the().counts.clear();
}

void control::watch_blocking(bool on) {
  const std::lock_guard lock(the().mutex);
  the().watching = on;
  if (on) the().blocking.clear();
}

std::vector<std::string> control::blocking_calls() {
  const std::lock_guard lock(the().mutex);
  return the().blocking;
}

std::vector<std::string> control::leaks() {
  const std::lock_guard lock(the().mutex);
  const state& s = the();
  std::vector<std::string> found;
  const auto add = [&](const std::string& what, long n) {
    if (n != 0) found.push_back(what + ": " + std::to_string(n));
  };
  for (const auto& c : s.contexts) {
    if (c) add("retained primary context of GPU " + std::to_string(c->gpu), c->retained);
  }
  add("contexts pushed and not popped", s.pushed);
  add("streams", static_cast<long>(s.streams.size()));
  add("modules", static_cast<long>(s.modules.size()));
  add("events", static_cast<long>(s.events.size()));
  add("VMM handles", static_cast<long>(s.handles.size()));
  long pinned = 0, registered = 0, imports = 0, ranges = 0;
  for (const auto& [base, b] : s.blocks) {
    pinned += b.use == block_use::lci_pinned;
    registered += b.use == block_use::lci_registered;
    imports += b.use == block_use::ipc_import || b.use == block_use::vmm_import;
    ranges += b.use == block_use::reservation && !b.of_user;
  }
  add("pinned host allocations", pinned);
  add("registered host ranges", registered);
  add("imported mappings", imports);
  add("reserved address ranges", ranges);
  return found;
}

}  // namespace

state& the() {
  static state& one = *new state;  // never freed: destructors of static objects still call us
  return one;
}

test::mock_cuda& control_of() { return the_control(); }

result enter(const char* name, needs what) {
  state& s = the();
  ++s.counts[name];
  const auto planned = s.failures.find(name);
  if (planned != s.failures.end() && --planned->second.calls_left == 0) {
    const result code = planned->second.code;
    s.failures.erase(planned);
    return code;
  }
  if (what != needs::nothing && (!s.started || s.started_in != getpid()))
    return result::not_initialized;
  if (what == needs::context && current() == nullptr) return result::invalid_context;
  return result::success;
}

void note_blocking(const char* name) {
  if (the().watching) the().blocking.emplace_back(name);
}

}  // namespace lci::mock

namespace {

using lci::cuda::abi::proc_address_status;
using lci::cuda::abi::result;

#define LCI_MOCK_EXPORT extern "C" __attribute__((visibility("default")))

}  // namespace

LCI_MOCK_EXPORT result cuGetProcAddress_v2(const char* symbol, void** out, int version,
                                           unsigned long long flags, proc_address_status* status) {
  static const lci::cuda::abi::functions table = lci::mock::make_table();
  lci::mock::state& s = lci::mock::the();
  const std::lock_guard lock(s.mutex);
  ++s.counts["cuGetProcAddress"];
  *out = nullptr;
  *status = proc_address_status::symbol_not_found;
  if (version > s.config.driver_version || flags != 0) return result::invalid_value;
  for (const std::string& gone : s.config.missing) {
    if (gone == symbol) return result::success;
  }
  for (const auto& row : lci::cuda::entry_points()) {
    if (std::strcmp(row.name, symbol) != 0) continue;
    *status =
        version < row.version ? proc_address_status::version_too_low : proc_address_status::success;
    if (version >= row.version)
      std::memcpy(out, reinterpret_cast<const char*>(&table) + row.slot, sizeof(*out));
  }
  return result::success;
}

LCI_MOCK_EXPORT lci::test::mock_cuda* lci_mock_cuda() { return &lci::mock::the_control(); }
