// What this fabric has registered with its domain, and what peers are told of it. Owned by fabric.
// Threads: shared, as region_store says.
#pragma once

#include <memory>
#include <string>

#include "backends/ofi/registrar.hpp"
#include "backends/ofi/wire.hpp"
#include "lci/net/connected/region_store.hpp"

namespace lci::ofi {

// One registered range.
struct range_mr {
  registered mr;
  std::byte* begin = nullptr;
  explicit operator bool() const noexcept { return mr != nullptr; }
};
using span_handle = std::unique_ptr<range_mr>;

struct registration : net::connected::registration<range_mr> {
  const range_mr* on = nullptr;  // null: of 0 bytes. It may cover more than was asked for

  void take(const range_mr& from) noexcept { on = &from; }
  bool is_registered() const noexcept { return on != nullptr; }
};

class regions final
    : public net::connected::region_store<regions, registration, range_mr, span_handle> {
 public:
  static constexpr char NAME[] = "ofi";

  // keys: as registrar says. Throws backend_error.
  regions(const opened_domain& on, fid_ep* keys, const net::fabric_config& config,
          mem::unmap_source& news = mem::system_unmap_source());
  ~regions() { close(); }

  void serialise() noexcept { registrar_.serialise(); }
  // The arena is registered by us, span by span, and a peer that asks for a name in it is answered
  // from the table of regions, as long as that has it.
  std::uint64_t add(void* address, std::size_t size, mem::mem_kind kind, std::string& why_not) {
    return arena_.contains(address) ? 0 : region_store::add(address, size, kind, why_not);
  }
  void publish(net::remote_key name, std::uint64_t key);
  // What that rank is told of that name, and keeps from now on. False: there is no memory to note
  // that, and it must not keep it.
  bool tell(net::remote_key name, int rank, note& out) noexcept;

  // What the provider wants along with a local buffer. False: it has to be registered, and is not.
  bool find_local(const void* buffer, std::size_t size, mem::mem_kind kind, std::uint64_t key,
                  void*& out) noexcept {
    out = nullptr;
    if (size == 0 || (kind != mem::mem_kind::device && !needs_local_)) return true;
    if (key != 0) {
      const auto& made = *reinterpret_cast<const registration*>(key);
      if (made.on == nullptr) return false;
      out = fi_mr_desc(made.on->mr.get());
      return true;
    }
    if (!arena_.contains(buffer)) return false;
    const range_mr* const on = of_arena(arena_.offset_of(buffer), size);
    if (on != nullptr) out = fi_mr_desc(on->mr.get());
    return on != nullptr;
  }

 private:
  friend region_store;
  range_mr make(void* address, std::size_t size, mem::mem_kind kind, net::connected::outcome& how);
  [[noreturn]] void throw_refused(std::size_t size, int error) const {
    registrar_.throw_refused(size, -error);
  }
  span_handle make_span(std::byte* at, std::size_t size);
  static const std::byte* begin_of(const range_mr& on) noexcept { return on.begin; }
  net::remote_target target_in(const range_mr& on, const void* address) const noexcept;
  net::remote_target target_in(const registration& made) const noexcept {
    return made.on != nullptr ? target_in(*made.on, made.address) : net::remote_target{};
  }
  net::remote_target target_in_arena(const void* address, std::size_t size) noexcept;

  registrar registrar_;
  const bool needs_local_;  // FI_MR_LOCAL
  const bool is_virtual_;   // FI_MR_VIRT_ADDR
};

}  // namespace lci::ofi
