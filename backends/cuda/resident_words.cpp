// What the resident kernel does beside copies: bytes with a signal behind them, and atomic
// operations, each in one command.
#include <bit>
#include <cstring>
#include <mutex>
#include <utility>

#include "backends/cuda/pointer.hpp"
#include "backends/cuda/resident.hpp"

namespace lci::cuda {

namespace layout = resident_layout;

static_assert(mem::delivery_job::MOST + 15 <= layout::BYTES, "aligned as their destination");

namespace {

constexpr std::uint64_t ALL = ~std::uint64_t{0};

// As form of an ATOMIC. False: the kernel does not do it.
bool find_form(const wqe::word_change& change, unsigned& form) noexcept {
  const std::uint64_t bits = change.size == 8 ? ALL : ALL >> 32;
  const std::uint64_t compared = change.compare_mask & bits;
  form = 0;
  if (change.what == wqe::word_change::ADD) return compared == 0;
  form = compared == 0 ? layout::SWAP : layout::SWAP | layout::COMPARE;
  return (change.swap_mask & bits) == bits && (compared == 0 || compared == bits);
}

}  // namespace

std::size_t ended_jobs::tell(std::string_view error) noexcept {
  std::size_t told = copies.tell(error);
  for (; deliveries != nullptr; ++told)
    std::exchange(deliveries, deliveries->next)->on_delivered(error);
  for (; atomics != nullptr; ++told) std::exchange(atomics, atomics->next)->on_performed(error);
  return told;
}

resident::layout_command& resident::next_command_locked(std::uint32_t& turn) noexcept {
  const unsigned ring = next_ring_;
  next_ring_ = (ring + 1) % static_cast<unsigned>(options_.blocks);
  turn = turns_[ring]++;
  return rings_[ring * layout::SLOTS + turn % layout::SLOTS];
}

bool resident::take(mem::delivery_job& job) noexcept {
  using signal = mem::delivery_job::signal;
  const bool is_aligned = reinterpret_cast<std::uintptr_t>(job.word) % 8 == 0;
  if (job.size > job.MOST || !is_aligned || (job.size == 0 && job.what == signal::none))
    return false;
  const std::lock_guard lock(lock_);
  slot* const mine = begin_locked();
  if (mine == nullptr) return false;
  const std::size_t which = number_of(*mine);
  mine->delivery = &job;
  std::byte* const bytes = bytes_of(which, job.to);
  if (job.size != 0) std::memcpy(bytes, job.from, job.size);
  std::uint64_t from = 0;
  unsigned kind = layout::FROM_COMMAND;
  if (job.size <= layout::INLINE) {
    std::memcpy(&from, bytes, job.size);
  } else {
    kind = layout::FROM_HOST;
    from = as_device(arguments_.shared) + (as_device(bytes) - as_device(control_));
  }
  const unsigned form = job.what == signal::add ? layout::FLAG_ADD : layout::FLAG_SET;
  const auto detail = static_cast<std::uint32_t>(which | kind << 8 | form << 16);
  std::uint32_t turn = 0;
  layout::part* const parts = next_command_locked(turn).parts;
  write_part(parts[layout::TO], as_device(job.to), static_cast<std::uint32_t>(job.size), turn);
  write_part(parts[layout::FROM], from, 1, turn);
  write_part(parts[layout::FLAG], job.what == signal::none ? 0 : as_device(job.word), detail, turn);
  write_part(parts[layout::VALUE], job.value, mine->number, turn);
  return true;
}

bool resident::take(mem::atomic_job& job) noexcept {
  unsigned form = 0;
  if (!find_form(job.change, form)) return false;
  const std::lock_guard lock(lock_);
  slot* const mine = begin_locked();
  if (mine == nullptr) return false;
  const std::size_t which = number_of(*mine);
  mine->atomic = &job;
  const auto detail = static_cast<std::uint32_t>(which | layout::ATOMIC << 8 | form << 16);
  std::uint32_t turn = 0;
  layout::part* const parts = next_command_locked(turn).parts;
  write_part(parts[layout::TO], as_device(job.at), job.change.size, turn);
  write_part(parts[layout::FROM], job.change.value, 1, turn);
  write_part(parts[layout::FLAG], job.change.compare, detail, turn);
  write_part(parts[layout::VALUE], as_device(&arguments_.shared->old[which]), mine->number, turn);
  return true;
}

// ---- what missed the kernel ----

// They have not been begun. Answers how many will not be told of by this object.
std::size_t resident::go_elsewhere(mem::atomic_job* atomics, std::uint64_t signals) noexcept {
  std::size_t gone = 0;
  for (; atomics != nullptr; ++gone) {
    mem::atomic_job& job = *std::exchange(atomics, atomics->next);
    const std::string_view why_not = options_.words->atomic(job);
    if (!why_not.empty()) job.on_performed(why_not);
  }
  for (; signals != 0; signals &= signals - 1, ++gone)
    slots_[static_cast<std::size_t>(std::countr_zero(signals))].raise_signal();
  return gone;
}

void resident::slot::raise_signal() noexcept {
  const bool adds = delivery->what == mem::delivery_job::signal::add;
  signal.at = reinterpret_cast<std::byte*>(delivery->word);
  signal.device = delivery->device;
  signal.change = {
      delivery->value, 0, ALL, 0, adds ? wqe::word_change::ADD : wqe::word_change::SWAP, 8};
  const std::string_view why_not = owner->options_.words->atomic(signal);
  if (!why_not.empty()) end_delivery(why_not);
}

void resident::slot::end_delivery(std::string_view error) noexcept {
  mem::delivery_job* told = nullptr;
  {
    const std::lock_guard lock(owner->lock_);
    told = std::exchange(delivery, nullptr);
    owner->away_ &= ~(std::uint64_t{1} << owner->number_of(*this));
  }
  told->on_delivered(error);
}

}  // namespace lci::cuda
