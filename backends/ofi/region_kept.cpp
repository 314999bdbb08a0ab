// Registrations that outlive their use: the part of `regions` that the registration cache calls,
// and the part that asks it.
#include "backends/ofi/region.hpp"
#include "lci/base/log.hpp"
#include "lci/mem/memory_domain.hpp"

namespace lci::ofi {

void regions::start_cache(mem::unmap_source& news) {
  mem::cache_registrar& self = *this;
  cache_ = std::make_unique<mem::region_cache>(self, mem::cache_limits::from_environment(), &news);
  const std::string& why_not = cache_->why_no_news();
  if (why_not.empty()) return;
  base::log::warn("ofi", "registrations are not kept (use_reg_cache): %s", why_not.c_str());
  cache_.reset();
}

// What peers may reach is more than was asked for: whole pages, and neighbours.
void regions::find_kept(registration& made, std::string& why_not) {
  const auto begin = reinterpret_cast<std::uintptr_t>(made.address);
  mem::cache_range want{begin, begin + made.size, made.kind, 0};
  if (made.kind == mem::mem_kind::device) want.buffer_id = mem::find_place(made.address).buffer_id;
  mem::region_cache::failure why;
  made.kept = cache_->acquire(want, why);
  if (made.kept != nullptr)
    made.on = reinterpret_cast<const range_mr*>(made.kept->handle);
  else if (made.kind == mem::mem_kind::device)
    why_not = why.why_not;
  else
    registrar_.throw_refused(made.size, why.error);
}

regions::cached_answer regions::register_range(const mem::cache_range& what) {
  cached_answer out;
  void* const address = reinterpret_cast<void*>(what.begin);
  auto made = std::make_unique<range_mr>();
  made->begin = static_cast<std::byte*>(address);
  if (what.kind == mem::mem_kind::host) {
    bool is_source_only = false;
    long code = 0;
    made->mr = registrar_.host(address, what.size(), is_source_only, code);
    out.error = static_cast<int>(-code);
    out.serves_all = !is_source_only;
  } else {
    const mem::device_registration got = registrar_.device(address, what.size());
    if (got.by) made->mr = registrar_.adopt(got.key);
    out.error = got.error();
    if (out.error != 0) out.why_not = got.why_not();
  }
  if (made->mr) out.handle = reinterpret_cast<std::uint64_t>(made.release());
  return out;
}

void regions::deregister_range(std::uint64_t handle) noexcept {
  delete reinterpret_cast<range_mr*>(handle);
}

}  // namespace lci::ofi
