// The symbols of the library, with signatures as in gdrapi.h, and the test's side.
#include <dlfcn.h>
#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>

#include "tests/support/mock_cuda/mock_cuda.hpp"
#include "tests/support/mock_gdr/mock_gdr.hpp"

struct gdr {};  // what gdr_open() gives
struct gdr_mh {
  unsigned long h;
};

namespace {

constexpr std::size_t PAGE = 64 << 10;

struct range {
  std::uint64_t at = 0;
  std::size_t size = 0;
  std::uint64_t next_id = 0;  // of the driver's buffers, when it was pinned
  char* mapping = nullptr;
};

struct plan {
  int calls_left = 0;
  int code = 0;
};

struct state {
  std::mutex mutex;
  int major = 2, minor = 4;
  bool is_loaded = true;
  std::set<gdr*> open;
  std::map<unsigned long, range> pinned;
  unsigned long next = 1;
  std::map<std::string, std::size_t> counts;
  std::map<std::string, plan> failures;
};

state& the() {
  static state& one = *new state;  // never freed: destructors of static objects still call us
  return one;
}

// The mock driver, which the process has loaded before it has any memory to pin.
lci::test::mock_cuda& driver() {
  static lci::test::mock_cuda* const one = [] {
    void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (library == nullptr) return static_cast<lci::test::mock_cuda*>(nullptr);
    const auto get = reinterpret_cast<lci::test::mock_cuda* (*)()>(dlsym(library, "lci_mock_cuda"));
    return get == nullptr ? nullptr : get();
  }();
  if (one == nullptr) {
    std::fprintf(stderr, "mock gdrcopy: the driver of this process is no mock\n");
    std::abort();
  }
  return *one;
}

[[noreturn]] void die(const char* why) {
  std::fprintf(stderr, "mock gdrcopy: %s\n", why);
  std::abort();
}

// Counts the call; the code that it is to answer, or 0. Under the lock.
int enter(const char* name) {
  state& s = the();
  ++s.counts[name];
  const auto planned = s.failures.find(name);
  if (planned == s.failures.end() || --planned->second.calls_left != 0) return 0;
  const int code = planned->second.code;
  s.failures.erase(planned);
  return code;
}

// The list of pins of the real library has no lock, so a second thread in it is a mistake.
class alone {
 public:
  alone() {
    if (busy().exchange(true)) die("two threads pin, map or undo it at the same time");
  }
  ~alone() { busy().store(false); }

 private:
  static std::atomic<bool>& busy() {
    static std::atomic<bool> one{false};
    return one;
  }
};

// Where the bytes behind a place in a mapping are; `mutex` is held.
std::byte* behind(gdr_mh handle, const void* place, std::size_t size) {
  const auto found = the().pinned.find(handle.h);
  if (found == the().pinned.end()) die("a copy names a range that is not pinned");
  const range& in = found->second;
  const auto* const at = static_cast<const char*>(place);
  if (in.mapping == nullptr || at < in.mapping || at > in.mapping + in.size ||
      size > in.size - static_cast<std::size_t>(at - in.mapping))
    die("a copy leaves the mapping");
  const std::uint64_t device = in.at + static_cast<std::uint64_t>(at - in.mapping);
  const auto* const address = reinterpret_cast<const void*>(device);
  const std::uint64_t id = driver().buffer_id(address);
  if (id == 0 || id >= in.next_id) die("a copy through a mapping of memory that was freed");
  return driver().contents(address);
}

}  // namespace

#define LCI_MOCK_EXPORT extern "C" __attribute__((visibility("default")))

LCI_MOCK_EXPORT void gdr_runtime_get_version(int* major, int* minor) {
  const std::lock_guard lock(the().mutex);
  enter("gdr_runtime_get_version");
  *major = the().major;
  *minor = the().minor;
}

LCI_MOCK_EXPORT gdr* gdr_open() {
  const std::lock_guard lock(the().mutex);
  int code = enter("gdr_open");
  if (code == 0 && !the().is_loaded) code = ENOENT;
  errno = code;
  if (code != 0) return nullptr;
  return *the().open.insert(new gdr).first;
}

LCI_MOCK_EXPORT int gdr_close(gdr* module) {
  const std::lock_guard lock(the().mutex);
  enter("gdr_close");
  if (the().open.erase(module) == 0) return EINVAL;
  delete module;
  return 0;
}

LCI_MOCK_EXPORT int gdr_pin_buffer(gdr* module, unsigned long at, std::size_t size, std::uint64_t,
                                   std::uint32_t, gdr_mh* out) {
  const alone one;
  const std::lock_guard lock(the().mutex);
  if (const int code = enter("gdr_pin_buffer"); code != 0) return code;
  if (the().open.count(module) == 0 || at % PAGE != 0 || size % PAGE != 0 || size == 0)
    return EINVAL;
  const unsigned long handle = the().next++;
  the().pinned[handle] = {at, size, driver().next_buffer_id(), nullptr};
  out->h = handle;
  return 0;
}

LCI_MOCK_EXPORT int gdr_unpin_buffer(gdr* module, gdr_mh handle) {
  const alone one;
  const std::lock_guard lock(the().mutex);
  if (const int code = enter("gdr_unpin_buffer"); code != 0) return code;
  const auto found = the().pinned.find(handle.h);
  if (the().open.count(module) == 0 || found == the().pinned.end()) return EINVAL;
  if (found->second.mapping != nullptr) return EBUSY;
  the().pinned.erase(found);
  return 0;
}

LCI_MOCK_EXPORT int gdr_map(gdr* module, gdr_mh handle, void** out, std::size_t size) {
  const alone one;
  const std::lock_guard lock(the().mutex);
  if (const int code = enter("gdr_map"); code != 0) return code;
  const auto found = the().pinned.find(handle.h);
  if (the().open.count(module) == 0 || found == the().pinned.end()) return EINVAL;
  if (found->second.mapping != nullptr || size != found->second.size) return EINVAL;
  void* const at =
      mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return ENOMEM;
  found->second.mapping = static_cast<char*>(at);
  *out = at;
  return 0;
}

LCI_MOCK_EXPORT int gdr_unmap(gdr* module, gdr_mh handle, void* at, std::size_t size) {
  const alone one;
  const std::lock_guard lock(the().mutex);
  if (const int code = enter("gdr_unmap"); code != 0) return code;
  const auto found = the().pinned.find(handle.h);
  if (the().open.count(module) == 0 || found == the().pinned.end()) return EINVAL;
  if (found->second.mapping != at || found->second.size != size) return EINVAL;
  munmap(at, size);
  found->second.mapping = nullptr;
  return 0;
}

LCI_MOCK_EXPORT int gdr_copy_to_mapping(gdr_mh handle, void* to, const void* from,
                                        std::size_t size) {
  std::byte* there = nullptr;
  {
    const std::lock_guard lock(the().mutex);
    if (const int code = enter("gdr_copy_to_mapping"); code != 0) return code;
    there = behind(handle, to, size);
  }
  std::memcpy(there, from, size);
  return 0;
}

LCI_MOCK_EXPORT int gdr_copy_from_mapping(gdr_mh handle, void* to, const void* from,
                                          std::size_t size) {
  const std::byte* there = nullptr;
  {
    const std::lock_guard lock(the().mutex);
    if (const int code = enter("gdr_copy_from_mapping"); code != 0) return code;
    there = behind(handle, from, size);
  }
  std::memcpy(to, there, size);
  return 0;
}

namespace {

class control final : public lci::test::mock_gdr {
 public:
  void reset() override {
    const std::lock_guard lock(the().mutex);
    the().major = 2;
    the().minor = 4;
    the().is_loaded = true;
    for (const auto& [handle, each] : the().pinned) {
      if (each.mapping != nullptr) munmap(each.mapping, each.size);
    }
    the().pinned.clear();
    for (gdr* const each : the().open) delete each;
    the().open.clear();
    the().counts.clear();
    the().failures.clear();
  }
  void set_version(int major, int minor) override {
    const std::lock_guard lock(the().mutex);
    the().major = major;
    the().minor = minor;
  }
  void set_module_loaded(bool loaded) override {
    const std::lock_guard lock(the().mutex);
    the().is_loaded = loaded;
  }
  void fail_nth(const std::string& call, int n, int code) override {
    const std::lock_guard lock(the().mutex);
    the().failures[call] = {n, code};
  }
  std::size_t count(const std::string& call) override {
    const std::lock_guard lock(the().mutex);
    return the().counts[call];
  }
  void forget_counts() override {
    const std::lock_guard lock(the().mutex);
    the().counts.clear();
  }
  std::size_t pinned_bytes() override {
    const std::lock_guard lock(the().mutex);
    std::size_t sum = 0;
    for (const auto& [handle, each] : the().pinned) sum += each.size;
    return sum;
  }
  std::vector<std::string> leaks() override {
    const std::lock_guard lock(the().mutex);
    std::size_t mapped = 0;
    for (const auto& [handle, each] : the().pinned) mapped += each.mapping != nullptr;
    std::vector<std::string> found;
    const auto add = [&](const char* what, std::size_t n) {
      if (n != 0) found.push_back(std::string(what) + ": " + std::to_string(n));
    };
    add("opened modules of gdrcopy", the().open.size());
    add("pinned ranges of GPU memory", the().pinned.size());
    add("mappings of GPU memory", mapped);
    return found;
  }
};

}  // namespace

LCI_MOCK_EXPORT lci::test::mock_gdr* lci_mock_gdr() {
  static control one;
  return &one;
}
