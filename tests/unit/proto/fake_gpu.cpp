#include "tests/unit/proto/fake_gpu.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

#include "lci/mem/arena.hpp"
#include "lci/wqe/apply_change.hpp"

namespace lci::test {

namespace {

struct range {
  std::size_t size;
  std::byte* alias;
  int device;
  bool is_managed;
  int fd;              // of the memory file
  std::size_t mapped;  // bytes of it, whole pages
};

std::mutex ranges_mutex;
std::map<std::byte*, range> ranges;  // by view, under the mutex

[[noreturn]] void end(const char* what) {
  std::fprintf(stderr, "fake GPU: %s\n", what);
  std::abort();
}

// The range that holds an address; end() of the map if none does.
std::map<std::byte*, range>::const_iterator range_of(const void* address) {
  auto* const at = static_cast<std::byte*>(const_cast<void*>(address));
  auto found = ranges.upper_bound(at);
  if (found == ranges.begin()) return ranges.end();
  --found;
  return at < found->first + found->second.size ? found : ranges.end();
}

mem::memory_place find(const void* address) noexcept {
  const std::lock_guard lock(ranges_mutex);
  const auto found = range_of(address);
  if (found == ranges.end()) return {};
  return {mem::mem_kind::device, !found->second.is_managed, false, found->second.device,
          &fake_domain()};
}

// Bytes [at, at + size) for the processor, host memory as it is. Null: partly outside.
std::byte* touchable(const std::byte* at, std::size_t size, bool& is_device) {
  const std::lock_guard lock(ranges_mutex);
  const auto found = range_of(at);
  is_device = found != ranges.end();
  if (!is_device) return const_cast<std::byte*>(at);
  const auto offset = static_cast<std::size_t>(at - found->first);
  return size <= found->second.size - offset ? found->second.alias + offset : nullptr;
}

// The pages around the buffer, as far as they are mapped.
mem::network_export export_for_network(const void* address, std::size_t size, bool) {
  const std::lock_guard lock(ranges_mutex);
  const auto found = range_of(address);
  if (found == ranges.end() || found->second.is_managed) end("a dma-buf of what has none");
  constexpr std::uint64_t PAGE = 4096;
  const auto at = reinterpret_cast<std::uint64_t>(address);
  mem::network_export out;
  out.base = at / PAGE * PAGE;
  out.offset = at - out.base;
  out.size = (out.offset + size + PAGE - 1) / PAGE * PAGE;
  out.is_synchronous = true;
  if (size > found->second.mapped - (at - reinterpret_cast<std::uint64_t>(found->first)))
    end("a dma-buf beyond its memory");
  out.fd.reset(fcntl(found->second.fd, F_DUPFD_CLOEXEC, 0));
  return out;
}

mem::network_pointer ready_for_network(const void*) { return {{}, 0, false, true}; }

// What share() writes for map().
struct share_record {
  std::uint64_t address, size;
  std::uint32_t check;
};

}  // namespace

const mem::memory_domain& fake_domain() {
  static const mem::memory_domain domain{
      "fake",
      "",
      [] { return std::string(); },
      &find,
      [](const void*) { return std::string("memory of a fake GPU"); },
      [](const void*) { return std::string("managed memory is not handled"); },
      [](mem::arena& records) -> std::unique_ptr<mem::accelerator> {
        return std::make_unique<fake_gpu>(records);
      },
      [](std::size_t, int, bool) -> void* { throw backend_error("fake: no allocator"); },
      [](void*) { throw argument_error("fake: no allocator"); },
      &export_for_network,
      &ready_for_network};
  return domain;
}

fake_memory::fake_memory(std::size_t size, int device, bool is_managed)
    : size_(size), mapped_((size + 4095) / 4096 * 4096 + 4096) {
  const int fd = memfd_create("fake_gpu", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(mapped_)) != 0) end("no memory file");
  const auto map = [&](int protection) {
    void* const at = mmap(nullptr, mapped_, protection, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) end("no mapping");
    return static_cast<std::byte*>(at);
  };
  view_ = map(PROT_NONE);
  alias_ = map(PROT_READ | PROT_WRITE);
  const std::lock_guard lock(ranges_mutex);
  ranges[view_] = {size_, alias_, device, is_managed, fd, mapped_};
}

fake_memory::~fake_memory() {
  {
    const std::lock_guard lock(ranges_mutex);
    close(ranges.at(view_).fd);
    ranges.erase(view_);
  }
  munmap(view_, mapped_);
  munmap(alias_, mapped_);
}

void* fake_bytes(void* address) {
  bool is_device = false;
  std::byte* const at = touchable(static_cast<std::byte*>(address), 0, is_device);
  return is_device ? at : nullptr;
}

constexpr std::size_t RECORDS = 4096;

fake_gpu::fake_gpu(mem::arena& records)
    : arena_(records),
      records_(static_cast<std::byte*>(records.allocate(RECORDS * mem::SHARE_RECORD_BYTES))) {}

fake_gpu::~fake_gpu() {
  if (!is_dead_ && !jobs_.empty()) end("closed while copies are under way");
  if (!is_dead_ && !pinned_.empty()) end("memory stays pinned");
  if (!is_dead_ && mapped_ != 0) end("memory of a peer stays mapped");
  arena_.free(records_, RECORDS * mem::SHARE_RECORD_BYTES);
}

void fake_gpu::set(const settings& how) {
  const std::lock_guard lock(mutex_);
  how_ = how;
  rng_.seed(how.seed);
}

void fake_gpu::die() noexcept {
  const std::lock_guard lock(mutex_);
  is_dead_ = true;
  jobs_.clear();
}

// Every mistake in where a copy goes is one of the library.
void fake_gpu::check_places(const mem::copy_job& job) const noexcept {
  bool from_device = false;
  bool to_device = false;
  if (job.size == 0) end("a copy of no bytes");
  if (touchable(job.from, job.size, from_device) == nullptr) end("a copy reads past its memory");
  if (touchable(job.to, job.size, to_device) == nullptr) end("a copy writes past its memory");
  const bool fits = job.way == mem::copy_way::to_peer     ? from_device && to_device
                    : job.way == mem::copy_way::to_device ? !from_device && to_device
                                                          : from_device && !to_device;
  if (!fits) end("a copy whose way is not where its ends are");
  if (job.device < 0) end("a copy without a device");
}

void fake_gpu::add(mem::copy_job& job, std::uint64_t* flag, std::uint64_t value) noexcept {
  check_places(job);
  ++copies_;
  bool fails = how_.fail_size != 0 && job.size == how_.fail_size;
  if (how_.fail_copy != 0 && --how_.fail_copy == 0) fails = true;
  const auto delay = [this] { return static_cast<std::uint32_t>(rng_() % (how_.max_delay + 1)); };
  jobs_.push_back({&job, flag, value, delay(), delay(), fails, false});
}

// The tests that are about it say `on`.
mem::cpu_copy_limits fake_gpu::allow_cpu_copies(attr_gpu_gdrcopy_t wanted) {
  return wanted == attr_gpu_gdrcopy_t::on ? CPU_LIMITS : mem::cpu_copy_limits{};
}

bool fake_gpu::copy_by_cpu(std::byte* to, const std::byte* from, std::size_t size,
                           std::size_t limit) noexcept {
  const std::lock_guard lock(mutex_);
  if (size == 0 || size > limit) end("a copy by the processor of a size that was not allowed");
  if (is_dead_) return false;
  if (how_.refuse_hand_one_in != 0 && rng_() % how_.refuse_hand_one_in == 0) return false;
  bool from_device = false;
  bool to_device = false;
  std::byte* const target = touchable(to, size, to_device);
  const std::byte* const source = touchable(from, size, from_device);
  if (target == nullptr || source == nullptr) end("a copy by the processor leaves its memory");
  if (from_device == to_device) end("a copy by the processor whose ends are of one kind");
  std::memcpy(target, source, size);
  ++by_cpu_;
  return true;
}

bool fake_gpu::read_by_cpu(std::byte* to, const std::byte* from, std::size_t size) noexcept {
  return copy_by_cpu(to, from, size, CPU_LIMITS.read);
}

bool fake_gpu::write_by_cpu(std::byte* to, const std::byte* from, std::size_t size) noexcept {
  return copy_by_cpu(to, from, size, CPU_LIMITS.write);
}

void fake_gpu::copy(mem::copy_job& job) noexcept {
  const std::lock_guard lock(mutex_);
  if (!is_dead_) add(job, nullptr, 0);
}

bool fake_gpu::copy_and_flag(mem::copy_job& job, std::uint64_t* flag,
                             std::uint64_t value) noexcept {
  const std::lock_guard lock(mutex_);
  if (how_.refuses_flags) return false;
  auto* const word = reinterpret_cast<std::byte*>(flag);
  const bool is_pinned = std::any_of(pinned_.begin(), pinned_.end(), [word](const auto& p) {
    return word >= p.first && word + sizeof(*flag) <= p.first + p.second;
  });
  if (!is_pinned || reinterpret_cast<std::uintptr_t>(flag) % sizeof(*flag) != 0)
    end("a flag that is no aligned word of pinned memory");
  ++flagged_;
  if (!is_dead_) add(job, flag, value);
  return true;
}

void fake_gpu::run(waiting& one) noexcept {
  bool is_device = false;
  const mem::copy_job& job = *one.job;
  std::byte* const to = touchable(job.to, job.size, is_device);
  const std::byte* const from = touchable(job.from, job.size, is_device);
  if (to == nullptr || from == nullptr) end("memory of a copy was freed");
  std::memmove(to, from, one.fails ? job.size / 2 : job.size);
  one.has_run = true;
  if (one.flag != nullptr && !one.fails)
    reinterpret_cast<std::atomic<std::uint64_t>*>(one.flag)->store(one.value,
                                                                   std::memory_order_release);
}

std::string_view fake_gpu::atomic(mem::atomic_job& job) noexcept {
  const std::lock_guard lock(mutex_);
  if (how_.refuses_atomics) return "the fake GPU was told to refuse";
  if (!is_dead_) words_.push_back(&job);
  ++atomics_;
  return "";
}

bool fake_gpu::deliver(mem::delivery_job& job) noexcept {
  const std::lock_guard lock(mutex_);
  if (!how_.delivers || is_dead_ || delivered_.size() >= how_.most_deliveries) return false;
  delivered_.push_back({&job, {job.from, job.from + job.size}});
  ++deliveries_;
  deliveries_together_ = std::max(deliveries_together_, delivered_.size());
  return true;
}

std::size_t fake_gpu::poll() noexcept {
  std::size_t told = 0;
  std::deque<waiting> over;
  mem::atomic_job* changed = nullptr;
  bool fails = false;
  std::deque<delivery> brought;
  bool brings = true;
  {
    const std::lock_guard lock(mutex_);
    fails = how_.fails_atomics;
    brings = !how_.fails_deliveries;
    std::shuffle(delivered_.begin(), delivered_.end(), rng_);
    for (std::size_t n = delivered_.empty() ? 0 : rng_() % (delivered_.size() + 1); n != 0; --n) {
      brought.push_back(std::move(delivered_.back()));
      delivered_.pop_back();
    }
    if (!words_.empty()) {
      changed = words_[rng_() % words_.size()];
      std::erase(words_, changed);
    }
    std::shuffle(jobs_.begin(), jobs_.end(), rng_);
    for (waiting& one : jobs_) {
      if (!one.has_run && one.runs_in-- == 0) run(one);
      if (one.has_run && one.told_in-- == 0) over.push_back(one);
    }
    for (const waiting& one : over)
      std::erase_if(jobs_, [&](const waiting& j) { return j.job == one.job; });
  }
  for (delivery& one : brought) {
    mem::delivery_job& job = *one.job;
    if (before_delivery) before_delivery(job);
    if (brings && job.size != 0) std::memcpy(fake_bytes(job.to), one.bytes.data(), job.size);
    if (brings && job.what == mem::delivery_job::signal::set)
      std::memcpy(fake_bytes(job.word), &job.value, sizeof(job.value));
    job.on_delivered(brings ? "" : "the fake GPU was told to fail");
    ++told;
  }
  if (changed != nullptr) {
    if (!fails) changed->old = wqe::apply(changed->change, fake_bytes(changed->at));
    changed->on_performed(fails ? "the fake GPU was told to fail" : "");
    ++told;
  }
  for (const waiting& one : over) {
    if (one.fails) ++failed_;
    one.job->on_copied(one.fails ? "the fake GPU was told to fail" : "");
    ++told;
  }
  return told;
}

std::size_t fake_gpu::under_way() const noexcept {
  const std::lock_guard lock(mutex_);
  return jobs_.size();
}

bool fake_gpu::uses(const void* at, std::size_t size) const noexcept {
  const auto* const low = static_cast<const std::byte*>(at);
  const std::lock_guard lock(mutex_);
  return std::any_of(jobs_.begin(), jobs_.end(), [&](const waiting& one) {
    const auto meets = [&](const std::byte* p) {
      return p < low + size && low < p + one.job->size;
    };
    return !one.has_run && (meets(one.job->from) || meets(one.job->to));
  });
}

mem::share_place fake_gpu::share(const void* at, std::size_t, std::string& why_not) {
  const std::lock_guard lock(mutex_);
  std::map<std::byte*, range>::const_iterator found;
  {
    const std::lock_guard ranges_lock(ranges_mutex);
    found = range_of(at);
    if (found == ranges.end()) end("host memory is to be shared");
  }
  if (how_.refuses_share) {
    why_not = "the fake GPU shares nothing";
    return {};
  }
  std::byte* const record = records_ + next_record_++ % RECORDS * mem::SHARE_RECORD_BYTES;
  const auto check = static_cast<std::uint32_t>(next_record_ * 2654435761u);
  const share_record what{reinterpret_cast<std::uint64_t>(found->first), found->second.size, check};
  std::memcpy(record, &what, sizeof(what));
  return {arena_.offset_of(record), check};
}

void fake_gpu::release(void* held) noexcept {
  auto* const self = static_cast<fake_gpu*>(held);
  const std::lock_guard lock(self->mutex_);
  --self->mapped_;
}

mem::mapped_memory fake_gpu::map(const mem::peer_range& what, int device, std::string& why_not) {
  const std::lock_guard lock(mutex_);
  share_record record;
  std::memcpy(&record, what.record, sizeof(record));
  const bool is_inside = what.address >= record.address && what.size <= record.size &&
                         what.address - record.address <= record.size - what.size;
  if (device < 0 || what.pid == 0) end("map() without a device or a process");
  if (how_.refuses_map || record.check != what.check || !is_inside) {
    why_not = "the fake GPU maps nothing of it";
    return how_.has_owner_ended ? mem::mapped_memory::of_ended_process() : mem::mapped_memory();
  }
  ++mapped_;
  return {reinterpret_cast<std::byte*>(what.address), this, &fake_gpu::release, how_.is_shared};
}

void fake_gpu::forget(int rank) noexcept {
  const std::lock_guard lock(mutex_);
  forgotten_.insert(rank);
}

std::string fake_gpu::pin(void* at, std::size_t size) {
  const std::lock_guard lock(mutex_);
  if (how_.refuses_pin) return "the fake GPU pins nothing";
  auto* const low = static_cast<std::byte*>(at);
  const bool meets = std::any_of(pinned_.begin(), pinned_.end(), [&](const auto& p) {
    return p.first < low + size && low < p.first + p.second;
  });
  if (meets) return "some of it is pinned already";
  pinned_.emplace(low, size);
  return {};
}

void fake_gpu::unpin(void* at) noexcept {
  const std::lock_guard lock(mutex_);
  const auto gone = std::erase_if(pinned_, [at](const auto& p) { return p.first == at; });
  if (gone != 1 && !is_dead_) end("what was not pinned is unpinned");
}

}  // namespace lci::test
