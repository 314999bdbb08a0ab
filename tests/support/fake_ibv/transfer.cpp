// How bytes move. A card's accesses are not seen by a thread sanitizer, and read words whole.
#include "tests/support/fake_ibv/state.hpp"

namespace lci::test::fake {
namespace {

region* local_region(const queue_pair& q, const ibv_sge& part, unsigned access) {
  const auto at = net().by_lkey.find(part.lkey);
  if (at == net().by_lkey.end()) return nullptr;
  region* const r = at->second;
  const bool is_inside = part.addr >= r->iova && part.length <= r->length &&
                         part.addr - r->iova <= r->length - part.length;
  if (r->pd != q.home() || !is_inside || (r->access & access) != access) return nullptr;
  return r;
}

}  // namespace

#if defined(__clang__)
__attribute__((no_sanitize("thread")))
#else
__attribute__((no_sanitize_thread))
#endif
void move_bytes(void* to, const void* from, std::size_t size) {
  const auto a = reinterpret_cast<std::uintptr_t>(to);
  const auto b = reinterpret_cast<std::uintptr_t>(from);
  std::size_t i = 0;
  if (a % 8 == 0 && b % 8 == 0)
    for (; i + 8 <= size; i += 8)
      *reinterpret_cast<volatile std::uint64_t*>(a + i) =
          *reinterpret_cast<const volatile std::uint64_t*>(b + i);
  for (; i < size; ++i)
    *reinterpret_cast<volatile std::uint8_t*>(a + i) =
        *reinterpret_cast<const volatile std::uint8_t*>(b + i);
}

std::size_t size_of(const std::vector<ibv_sge>& parts) {
  std::size_t size = 0;
  for (const ibv_sge& part : parts) size += part.length;
  return size;
}

bool gather(const queue_pair& q, const request& r, std::vector<std::byte>& out) {
  if ((r.flags & IBV_SEND_INLINE) != 0) {
    out = r.inlined;
    return true;
  }
  out.resize(size_of(r.parts));
  std::size_t at = 0;
  for (const ibv_sge& part : r.parts) {
    if (part.length == 0) continue;
    const region* const from = local_region(q, part, 0);
    if (from == nullptr) return false;
    move_bytes(out.data() + at, static_cast<std::byte*>(from->addr) + (part.addr - from->iova),
               part.length);
    at += part.length;
  }
  return true;
}

bool scatter(const queue_pair& q, const std::vector<ibv_sge>& parts, const std::byte* from,
             std::size_t size) {
  for (const ibv_sge& part : parts) {
    const std::size_t n = part.length < size ? part.length : size;
    if (n == 0) continue;
    const region* const to = local_region(q, part, IBV_ACCESS_LOCAL_WRITE);
    if (to == nullptr) return false;
    move_bytes(static_cast<std::byte*>(to->addr) + (part.addr - to->iova), from, n);
    from += n;
    size -= n;
  }
  return true;
}

region* remote_region(const queue_pair& q, std::uint32_t rkey, std::uint64_t at, std::size_t size,
                      unsigned access) {
  const auto found = net().by_rkey.find(rkey);
  if (found == net().by_rkey.end()) return nullptr;
  region* const r = found->second;
  const bool is_inside = at >= r->iova && size <= r->length && at - r->iova <= r->length - size;
  if (r->pd != q.home() || !is_inside || (r->access & access) == 0 ||
      (q.attr.qp_access_flags & access) == 0)
    return nullptr;
  return r;
}

}  // namespace lci::test::fake
