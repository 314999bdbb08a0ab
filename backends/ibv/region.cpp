#include "backends/ibv/region.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "backends/ibv/data_direct.hpp"
#include "lci/base/log.hpp"
#include "lci/errors.hpp"
#include "lci/mem/memory_domain.hpp"
#include "lci/mem/region_table.hpp"

namespace lci::ibv {
namespace {

constexpr unsigned READ_WRITE =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

// A row is read by cards at any time: each word at once, the check last.
void store(row& to, const row& what) noexcept {
  const auto put = [](auto& field, auto value) {
    // edge ibv.row: ordered by the fence below and by the check, which readers compute again.
    std::atomic_ref(field).store(value, std::memory_order_relaxed);
  };
  put(to.check, 0u);
  std::atomic_thread_fence(std::memory_order_release);
  put(to.generation, what.generation);
  put(to.key, what.key);
  put(to.address, what.address);
  put(to.size, what.size);
  put(to.kind, what.kind);
  std::atomic_thread_fence(std::memory_order_release);
  put(to.check, what.generation == 0 ? 0u : check_of(what));
}

std::string bytes_text(std::size_t size) { return std::to_string(size) + " bytes"; }

}  // namespace

regions::regions(ibv_pd* pd, std::string device, const net::fabric_config& config,
                 mem::unmap_source& news)
    : pd_(pd),
      device_(std::move(device)),
      arena_(*config.arena),
      table_(config.regions),
      ladder_("ibv " + device_, config.gpu_rules),
      paging_(pd, device_, config.ibv_odp, config.ibv_prefetch),
      spans_((config.arena->reserved() + mem::arena::SPAN - 1) / mem::arena::SPAN),
      directory_block_(arena_, sizeof(block_reference) * BLOCKS, 4096),
      directory_(new (directory_block_.get()) block_reference[BLOCKS]),
      blocks_(BLOCKS) {
  if (config.use_reg_cache) start_cache(news);
  directory_mr_ =
      register_strictly(directory_, sizeof(block_reference) * BLOCKS, IBV_ACCESS_REMOTE_READ);
  if (!directory_mr_)
    throw_error("ibv_reg_mr", device_ + ", " + bytes_text(sizeof(block_reference) * BLOCKS), errno);
}

regions::~regions() {
  if (!made_.empty())
    base::log::warn("ibv", "%zu registrations were still alive when the network was closed",
                    made_.size());
  for (registration* one : made_) {
    if (one->kept != nullptr) cache_->release(*one->kept);
    delete one;
  }
  cache_.reset();
}

mr_handle regions::register_strictly(void* address, std::size_t size, unsigned access) {
  return mr_handle(library().reg_mr(pd_, address, size, static_cast<int>(access)));
}

// Loosely ordered where the card knows that.
mr_handle regions::register_loosely(void* address, std::size_t size, unsigned access) {
  if (library().reg_mr_iova2 == nullptr || is_strict_.load(std::memory_order_relaxed))
    return register_strictly(address, size, access);
  mr_handle mr(library().reg_mr_iova2(pd_, address, size, reinterpret_cast<std::uintptr_t>(address),
                                      access | IBV_ACCESS_RELAXED_ORDERING));
  // The flag is optional for kernels that know it; older ones answer this.
  if (!mr && (errno == EINVAL || errno == EOPNOTSUPP)) {
    mr = register_strictly(address, size, access);
    if (mr) is_strict_.store(true, std::memory_order_relaxed);
  }
  return mr;
}

// Memory that cannot be written, as a source alone.
mr_handle regions::register_host(void* address, std::size_t size, bool& is_source_only) {
  is_source_only = false;
  const unsigned on_demand = paging_.access();
  mr_handle mr = register_loosely(address, size, READ_WRITE | on_demand);
  if (!mr && on_demand != 0 && (errno == EINVAL || errno == EOPNOTSUPP)) {
    const int refusal = errno;
    mr = register_loosely(address, size, READ_WRITE);
    if (mr) paging_.give_up(refusal);
  }
  if (mr && paging_.access() != 0) paging_.prefetch(mr->lkey, address, size);
  if (!mr && errno == EFAULT) {
    mr = register_strictly(address, size, IBV_ACCESS_REMOTE_READ);
    is_source_only = mr != nullptr;
  }
  return mr;
}

// Cards take registrations of any size, as a rule.
void regions::throw_refused(std::size_t size, int error) const {
  std::string what = device_ + ", " + bytes_text(size);
  ibv_device_attr limits{};
  if (library().query_device(pd_->context, &limits) == 0 && size > limits.max_mr_size)
    what += ", more than the card registers at once (" + bytes_text(limits.max_mr_size) + ")";
  throw_error("ibv_reg_mr", what, error);
}

// For this use alone.
void regions::register_alone(registration& made, std::string& why_not) {
  if (made.kind == mem::mem_kind::device) {
    const mem::device_registration got =
        ladder_.climb(*this, mem::find_place(made.address), made.address, made.size);
    if (got.by)
      made.own.reset(reinterpret_cast<ibv_mr*>(got.key));
    else
      why_not = got.why_not();
  } else {
    bool is_source_only = false;
    made.own = register_host(made.address, made.size, is_source_only);
    if (!made.own) throw_refused(made.size, errno);
  }
  made.mr = made.own.get();
}

std::uint64_t regions::add(void* address, std::size_t size, mem::mem_kind kind,
                           std::string& why_not) {
  auto made = std::make_unique<registration>();
  made->address = address;
  made->size = size;
  made->kind = kind;
  if (size != 0) {
    if (kind == mem::mem_kind::host && paging_.everything() != nullptr) {
      made->mr = paging_.everything();
      paging_.prefetch(made->mr->lkey, address, size);
    } else if (cache_) {
      find_kept(*made, why_not);
    } else {
      register_alone(*made, why_not);
    }
    if (made->mr == nullptr) return 0;
  }
  const std::lock_guard lock(mutex_);
  made_.insert(made.get());
  return reinterpret_cast<std::uint64_t>(made.release());
}

std::vector<int> regions::remove(std::uint64_t key, net::remote_key* name) noexcept {
  if (key == 0) return {};
  std::unique_ptr<registration> made(reinterpret_cast<registration*>(key));
  std::vector<int> readers;
  {
    const std::lock_guard lock(mutex_);
    if (made_.erase(made.get()) == 0) {
      base::log::warn("ibv", "what is not registered was deregistered");
      (void)made.release();
      return {};
    }
    withdraw_locked(*made);
    if (name != nullptr) *name = made->name;
    readers = std::move(made->readers);
  }
  if (made->kept != nullptr) cache_->release(*made->kept);
  return readers;
}

bool regions::add_reader(net::remote_key name, int rank) noexcept {
  const std::lock_guard lock(mutex_);
  const auto at = published_.find(name.slot);
  if (at == published_.end() || at->second->name.generation != name.generation) return false;
  std::vector<int>& known = at->second->readers;
  try {
    if (std::find(known.begin(), known.end(), rank) == known.end()) known.push_back(rank);
  } catch (...) {
    return false;
  }
  return true;
}

// Under mutex_. The row of a slot, in a block of its own if need be.
row* regions::row_locked(std::uint32_t slot) {
  const std::uint32_t at = slot / ROWS;
  if (at >= BLOCKS) return nullptr;
  if (blocks_[at].mr == nullptr) {
    block made;
    made.memory = mem::arena_block(arena_, sizeof(row) * ROWS, 4096);
    new (made.memory.get()) row[ROWS];
    made.mr = register_strictly(made.memory.get(), sizeof(row) * ROWS, IBV_ACCESS_REMOTE_READ);
    if (!made.mr) throw_error("ibv_reg_mr", device_ + ", a table of registrations", errno);
    block_reference reference{reinterpret_cast<std::uint64_t>(made.rows()), made.mr->rkey, 0};
    reference.check = check_of(reference);
    blocks_[at] = std::move(made);
    std::atomic_ref(directory_[at].address).store(reference.address, std::memory_order_relaxed);
    std::atomic_ref(directory_[at].key).store(reference.key, std::memory_order_relaxed);
    // edge ibv.block: a card reads it; the check says that the rest is there.
    std::atomic_ref(directory_[at].check).store(reference.check, std::memory_order_release);
  }
  return blocks_[at].rows() + slot % ROWS;
}

row regions::row_of(net::remote_key name, const registration& made) noexcept {
  return {name.generation,
          made.mr ? made.mr->rkey : 0,
          reinterpret_cast<std::uint64_t>(made.address),
          made.size,
          static_cast<std::uint32_t>(made.kind),
          0};
}

// Of what has no registration of its own: memory of the arena, or what no card may be given.
row regions::row_of(net::remote_key name) noexcept {
  const auto region = table_->look_up({name.slot, name.generation});
  if (!region) return {};
  row out{name.generation,
          0,
          reinterpret_cast<std::uint64_t>(region->address),
          region->size,
          static_cast<std::uint32_t>(region->kind),
          0};
  if (arena_.contains(region->address)) {
    const ibv_mr* const mr = of_arena(arena_.offset_of(region->address), region->size);
    out.key = mr != nullptr ? mr->rkey : 0;
  } else if (region->kind != mem::mem_kind::host) {
    out.kind |= row::OFF_NETWORK;
  }
  return out;
}

void regions::publish(net::remote_key name, std::uint64_t key) noexcept {
  auto* const made = reinterpret_cast<registration*>(key);
  const row what = made != nullptr ? row_of(name, *made) : row_of(name);
  if (what.generation == 0) return;
  const std::lock_guard lock(mutex_);
  try {
    row* const where = row_locked(name.slot);
    if (where == nullptr) return;
    if (made != nullptr) {
      made->name = name;
      published_[name.slot] = made;
    }
    store(*where, what);
  } catch (const std::exception& problem) {
    base::log::warn("ibv", "peers cannot look up a registration: %s", problem.what());
  }
}

void regions::withdraw_locked(registration& made) noexcept {
  if (made.name.generation == 0) return;
  const auto at = published_.find(made.name.slot);
  if (at != published_.end() && at->second == &made) published_.erase(at);
  row& where = blocks_[made.name.slot / ROWS].rows()[made.name.slot % ROWS];
  // The slot may have a new holder already.
  if (where.generation == made.name.generation) store(where, row{});
}

net::remote_target regions::target_of(net::remote_key name) noexcept {
  {
    const std::lock_guard lock(mutex_);
    const std::uint32_t at = name.slot / ROWS;
    if (at < BLOCKS && blocks_[at].mr != nullptr) {
      const row& found = blocks_[at].rows()[name.slot % ROWS];
      if (found.generation == name.generation && name.generation != 0)
        return {found.address, found.key};
    }
  }
  const auto region = table_->look_up({name.slot, name.generation});
  if (!region || !arena_.contains(region->address)) return {};
  const ibv_mr* const mr = of_arena(arena_.offset_of(region->address), region->size);
  return mr == nullptr
             ? net::remote_target{}
             : net::remote_target{reinterpret_cast<std::uint64_t>(region->address), mr->rkey};
}

// The span of the range, or for a range over several spans, all of them together.
const ibv_mr* regions::register_span(std::uint64_t offset, std::size_t size) noexcept {
  constexpr std::size_t SPAN = mem::arena::SPAN;
  const std::uint64_t first = offset / SPAN;
  const std::uint64_t last = (offset + size - (size != 0)) / SPAN;
  const std::lock_guard lock(mutex_);
  if (first == last) {
    if (const ibv_mr* const known = spans_[first].load(std::memory_order_relaxed)) return known;
  } else if (const auto known = wide_.lower_bound(offset + size); known != wide_.end()) {
    const auto start = arena_.offset_of(known->second->addr);
    if (start <= offset) return known->second.get();
  }
  const std::uint64_t end = std::min<std::uint64_t>((last + 1) * SPAN, arena_.committed());
  try {
    mr_handle mr = register_strictly(arena_.at(first * SPAN), end - first * SPAN, READ_WRITE);
    if (!mr)
      throw_error("ibv_reg_mr", device_ + ", " + bytes_text(end - first * SPAN) + " of packets",
                  errno);
    const ibv_mr* const out = mr.get();
    if (first == last) {
      span_store_.push_back(std::move(mr));
      // edge ibv.span: the registration before its pointer; partner is of_arena().
      spans_[first].store(out, std::memory_order_release);
    } else {
      wide_.emplace(end, std::move(mr));
    }
    return out;
  } catch (const std::exception& problem) {
    base::log::warn("ibv", "%s", problem.what());
    return nullptr;
  }
}

mem::registration_answer regions::register_range(const mem::descriptor_range& what) {
  mem::registration_answer out;
  std::string why_not;
  data_direct::function direct = nullptr;
  if (what.wants_data_direct)
    direct = data_direct::find(pd_->context->device, why_not);
  else if (library().reg_dmabuf_mr == nullptr)
    why_not = "this libibverbs has no ibv_reg_dmabuf_mr";
  if (!why_not.empty()) {
    out.why_not = std::move(why_not);
    out.error = EOPNOTSUPP;
    out.is_final = true;
    return out;
  }
  constexpr int ACCESS = static_cast<int>(READ_WRITE);
  ibv_mr* const mr =
      direct != nullptr
          ? direct(pd_, what.offset, what.length, what.iova, what.fd, ACCESS, data_direct::FLAG)
          : library().reg_dmabuf_mr(pd_, what.offset, what.length, what.iova, what.fd, ACCESS);
  if (mr == nullptr) {
    out.error = errno;
    out.why_not =
        (direct != nullptr ? "mlx5dv_reg_dmabuf_mr on " : "ibv_reg_dmabuf_mr on ") + device_;
    // The card, or its driver, has no such function.
    out.is_final = out.error == EOPNOTSUPP || (direct != nullptr && out.error == ENODEV);
  }
  out.key = reinterpret_cast<std::uint64_t>(mr);
  return out;
}

mem::registration_answer regions::register_pointer(void* address, std::size_t size) {
  mem::registration_answer out;
  ibv_mr* const mr = library().reg_mr(pd_, address, size, static_cast<int>(READ_WRITE));
  if (mr == nullptr) {
    out.error = errno;
    out.why_not = "ibv_reg_mr on " + device_;
  }
  out.key = reinterpret_cast<std::uint64_t>(mr);
  return out;
}

}  // namespace lci::ibv
