#include "lci/share/gpus.hpp"

#include <mutex>

#include "lci/errors.hpp"

namespace lci::share {
namespace {

struct started_gpus {
  std::mutex mutex;  // guards the rest; one thread starts
  gpu_side side;
};

started_gpus& started() {
  static started_gpus* const one = new started_gpus;
  return *one;
}

}  // namespace

const gpu_side* find_gpus(std::string& why_not) {
  why_not.clear();
  started_gpus& all = started();
  const std::lock_guard lock(all.mutex);
  for (const mem::memory_domain& domain : mem::memory_domains()) {
    if (domain.open_sharing == nullptr) continue;
    if (all.side.domain != nullptr && all.side.domain != &domain) continue;
    // Asked each time: in a child of fork() the answer is another one.
    const std::string reason = domain.probe();
    if (reason.empty()) {
      if (all.side.domain == nullptr) all.side = {&domain, domain.open_sharing()};
      return &all.side;
    }
    why_not += (why_not.empty() ? "" : "; ") + std::string(domain.name) + ": " + reason;
  }
  if (why_not.empty()) why_not = "this build of the library has no accelerator";
  return nullptr;
}

const gpu_side& need_gpus() {
  std::string why_not;
  const gpu_side* const side = find_gpus(why_not);
  if (side == nullptr) throw backend_error("no GPU can be used: " + why_not);
  return *side;
}

}  // namespace lci::share
