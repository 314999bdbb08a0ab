#include "world.hpp"

#include <thread>

namespace interface_test {

world_t& world() {
  static world_t instance;
  return instance;
}

void barrier() { lci::barrier_x().device(world().device)(); }

void barrier_over(const std::vector<lci::device_t>& devices) {
  owned_comp done(lci::alloc_counter());
  lci::barrier_x().device(world().device).comp(done)();
  while (lci::counter_get(done) == 0) {
    progress();
    for (const lci::device_t device : devices) lci::progress_x().device(device)();
  }
}

void progress() {
  // With more ranks than cores somebody else needs the core to answer.
  if (!lci::progress_x().device(world().device)().is_done()) std::this_thread::yield();
}

void linger() {
  for (int i = 0; i < 200; ++i) lci::progress_x().device(world().device)();
}

lci::status_t pop(lci::comp_t cq) {
  lci::status_t status = lci::cq_pop(cq);
  while (status.is_retry()) {
    progress();
    status = lci::cq_pop(cq);
  }
  return status;
}

bool stays_empty(lci::comp_t cq) {
  linger();
  return lci::cq_pop(cq).is_retry();
}

namespace {

// One multiplication per eight bytes: large messages must not make the suite slow.
std::uint64_t word(std::uint64_t seed, std::size_t index) {
  std::uint64_t x = (seed + 1) * 0x9e3779b97f4a7c15ull + index;
  x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9ull;
  return x ^ (x >> 32);
}

char byte_at(std::uint64_t seed, std::size_t at) {
  return static_cast<char>(word(seed, at / 8) >> (at % 8 * 8));
}

}  // namespace

std::vector<char> pattern(std::size_t size, std::uint64_t seed) {
  std::vector<char> data(size);
  for (std::size_t at = 0; at < size; ++at) data[at] = byte_at(seed, at);
  return data;
}

std::string difference(const void* data, std::size_t size, std::uint64_t seed) {
  const char* const p = static_cast<const char*>(data);
  for (std::size_t at = 0; at < size; ++at) {
    if (p[at] != byte_at(seed, at))
      return "byte " + std::to_string(at) + " of " + std::to_string(size) + " differs";
  }
  return "";
}

std::size_t bytes(size_at at) {
  switch (at) {
    case size_at::zero:
      return 0;
    case size_at::one:
      return 1;
    case size_at::inject:
      return world().inject;
    case size_at::inject_1:
      return world().inject + 1;
    case size_at::bcopy_12:
      return world().bcopy - 12;
    case size_at::bcopy:
      return world().bcopy;
    case size_at::bcopy_1:
      return world().bcopy + 1;
    case size_at::kib_64:
      return std::size_t{64} << 10;
    case size_at::mib_1:
      return std::size_t{1} << 20;
  }
  return 0;
}

const char* name_of(size_at at) {
  constexpr const char* NAMES[] = {"zero",  "one",     "inject", "inject_1", "bcopy_12",
                                   "bcopy", "bcopy_1", "kib_64", "mib_1"};
  return NAMES[static_cast<int>(at)];
}

inbox::inbox(bool zero_copy_am)
    : cq_(lci::alloc_cq_x().zero_copy_am(zero_copy_am)()), rcomp_(lci::register_rcomp(cq_)) {
  barrier();
}

inbox::~inbox() {
  barrier();
  lci::deregister_rcomp(rcomp_);
  lci::free_comp(&cq_);
}

window::window(std::size_t size)
    : bytes_(size),
      mr_(lci::register_memory_x(bytes_.data(), size).device(world().device)()),
      keys_(static_cast<std::size_t>(world().n)) {
  const lci::rmr_t mine = lci::get_rmr(mr_);
  lci::allgather_x(&mine, keys_.data(), sizeof mine).device(world().device)();
}

window::~window() {
  barrier();
  lci::deregister_memory(&mr_);
}

}  // namespace interface_test
