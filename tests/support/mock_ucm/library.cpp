// A libucm that hooks nothing: it tells its handlers of what a test says was unmapped, and at once
// of the whole address space when one is set, so that whoever tries it out finds it working.
// LCI_MOCK_UCM=refuse: takes no handler; =silent: says nothing of its own. Threads: single.
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

struct unmapped {
  void* address;
  std::size_t size;
};
using callback = void (*)(int, unmapped*, void*);
struct handler {
  int events;
  callback call;
  void* argument;
};

constexpr int VM_UNMAPPED = 1 << 17;
std::vector<handler>& handlers() {
  static std::vector<handler> all;
  return all;
}

bool is_told_to(const char* what) {
  const char* const mode = std::getenv("LCI_MOCK_UCM");
  return mode != nullptr && std::strcmp(mode, what) == 0;
}

}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED signed char ucm_set_event_handler(int events, int, callback call, void* argument) {
  if (is_told_to("refuse")) return -22;  // UCS_ERR_UNSUPPORTED
  handlers().push_back({events, call, argument});
  unmapped all{nullptr, ~std::size_t{0}};
  if (!is_told_to("silent")) call(VM_UNMAPPED, &all, argument);
  return 0;
}

EXPORTED void ucm_unset_event_handler(int events, callback call, void* argument) {
  std::erase_if(handlers(), [&](const handler& one) {
    return one.events == events && one.call == call && one.argument == argument;
  });
}

EXPORTED int mock_ucm_tell(int event, void* address, std::size_t size) {
  unmapped what{address, size};
  int told = 0;
  for (const handler& one : handlers()) {
    one.call(event, &what, one.argument);
    ++told;
  }
  return told;
}
