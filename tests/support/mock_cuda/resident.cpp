// The resident copy kernel without a GPU: obeys the same commands, ends for the same reasons and
// says so with the same words. A step is one look of one block, chosen by the seed. What a kernel
// could not touch (memory of the host that the driver does not know, of another GPU) is an illegal
// address.
#include <array>
#include <atomic>
#include <cstring>

#include "backends/cuda/resident_command.hpp"
#include "lci/wqe/apply_change.hpp"
#include "tests/support/mock_cuda/state.hpp"

namespace lci::mock {
namespace {

namespace layout = cuda::resident_layout;

struct resident_run {
  struct block {
    bool has_begun = false, is_gone = false;
    std::uint32_t turn = 0;
  };
  layout::arguments with{};
  int gpu = 0;
  std::vector<block> blocks;
  std::size_t here = 0, gone = 0;
  unsigned looks = 0, idle = 0;
  bool is_stopping = false;
  std::array<std::uint32_t, layout::SLOTS> shares{};
};

struct taken {
  std::uint64_t to, from, flag, value;
  std::uint32_t size, shares, slot, kind, form, number;
};

std::uint32_t read(std::uint32_t& word) {
  return std::atomic_ref(word).load(std::memory_order_acquire);
}
void write(std::uint32_t& word, std::uint32_t value) {
  std::atomic_ref(word).store(value, std::memory_order_release);
}

// False: not all of it is there.
bool read_command(layout::command& from, std::uint32_t turn, taken& out) {
  std::array<std::uint64_t, 4> values{};
  std::array<std::uint32_t, 4> details{};
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint64_t tail = std::atomic_ref(from.parts[i].tail).load(std::memory_order_acquire);
    if (tail >> 32 != turn) return false;
    details[i] = static_cast<std::uint32_t>(tail);
    values[i] = std::atomic_ref(from.parts[i].value).load(std::memory_order_relaxed);
  }
  out = {values[layout::TO],          values[layout::FROM],
         values[layout::FLAG],        values[layout::VALUE],
         details[layout::TO],         details[layout::FROM],
         details[layout::FLAG] & 255, details[layout::FLAG] >> 8 & 255,
         details[layout::FLAG] >> 16, details[layout::VALUE]};
  return true;
}

// What a kernel of that GPU finds there; null: nothing.
std::byte* reach(state& s, const resident_run& run, device_ptr at, std::size_t size, bool on_host) {
  const block* const b = s.find(at, size);
  if (b == nullptr) return nullptr;
  const bool is_host = b->kind == test::mock_memory::pinned;
  const bool is_near =
      b->gpu == run.gpu || b->use == block_use::ipc_import || b->use == block_use::vmm_import;
  return is_host == on_host && (is_host || is_near) ? s.resolve(at, size) : nullptr;
}

result change_word(state& s, resident_run& run, const taken& c) {
  wqe::word_change how;
  how.value = c.from;
  how.compare = c.flag;
  how.what = (c.form & layout::SWAP) != 0 ? how.SWAP : how.ADD;
  how.swap_mask = ~std::uint64_t{0};
  how.compare_mask = (c.form & layout::COMPARE) != 0 ? ~std::uint64_t{0} : 0;
  how.size = c.size;
  std::byte* const at = reach(s, run, c.to, c.size, false);
  std::byte* const answer = reach(s, run, c.value, sizeof(c.value), true);
  if (at == nullptr || answer == nullptr || !is_sound(how) || c.to % c.size != 0)
    return result::illegal_address;
  const std::uint64_t old = wqe::apply(how, static_cast<void*>(at));
  std::memcpy(answer, &old, sizeof(old));
  write(run.with.shared->done[c.slot], c.number);
  return result::success;
}

result raise_flag(state& s, resident_run& run, const taken& c) {
  std::byte* const flag = reach(s, run, c.flag, sizeof(c.value), c.form == 0);
  if (flag == nullptr || c.flag % sizeof(c.value) != 0) return result::illegal_address;
  auto* const word = reinterpret_cast<std::uint64_t*>(flag);
  if (c.form == layout::FLAG_ADD)
    __atomic_fetch_add(word, c.value, __ATOMIC_RELEASE);
  else
    __atomic_store_n(word, c.value, __ATOMIC_RELEASE);
  return result::success;
}

result carry_out(state& s, resident_run& run, const taken& c) {
  ++s.counts[layout::KERNEL];
  if (c.kind == layout::ATOMIC) return change_word(s, run, c);
  if (c.size == 0) {
    if (const result code = raise_flag(s, run, c); code != result::success) return code;
    write(run.with.shared->done[c.slot], c.number);
    return result::success;
  }
  const block* const target = s.find(c.to, c.size);
  const bool to_host = target != nullptr && target->kind == test::mock_memory::pinned;
  std::byte* const to = reach(s, run, c.to, c.size, to_host);
  const bool is_inline = c.kind == layout::FROM_COMMAND;
  const auto* const bytes = reinterpret_cast<const std::byte*>(&c.from);
  const std::byte* const from =
      is_inline ? bytes : reach(s, run, c.from, c.size, c.kind == layout::FROM_HOST);
  if (to == nullptr || from == nullptr) return result::illegal_address;
  if (is_inline && c.size > layout::INLINE) return result::illegal_address;
  if (is_inline && c.size == sizeof(c.from) && c.to % sizeof(c.from) == 0)
    __atomic_store_n(reinterpret_cast<std::uint64_t*>(to), c.from, __ATOMIC_RELAXED);
  else
    std::memmove(to, from, c.size);
  if (++run.shares[c.slot] != c.shares) return result::success;
  run.shares[c.slot] = 0;
  if (c.flag != 0) {
    if (const result code = raise_flag(s, run, c); code != result::success) return code;
  }
  write(run.with.shared->done[c.slot], c.number);
  return result::success;
}

resident_run& run_of(const stream& on, operation& what) {
  if (what.progress == nullptr) {
    auto made = std::make_shared<resident_run>();
    std::memcpy(&made->with, what.parameter.data(), sizeof(made->with));
    made->gpu = on.owner->gpu;
    made->blocks.resize(what.blocks);
    what.progress = std::move(made);
  }
  return *static_cast<resident_run*>(what.progress.get());
}

void begin(resident_run& run, std::size_t which) {
  run.blocks[which].has_begun = true;
  run.blocks[which].turn = run.with.shared->first[which];
  if (++run.here == run.blocks.size()) write(run.with.shared->started, run.with.launch);
}

// The first block decides about the end.
void decide(const state& s, resident_run& run) {
  ++run.looks;
  if (run.idle > s.config.resident_idle || run.looks > s.config.resident_life ||
      read(run.with.shared->stop) == run.with.launch)
    run.is_stopping = true;
}

// A few commands of one ring.
result look(state& s, resident_run& run, std::size_t which) {
  resident_run::block& mine = run.blocks[which];
  layout::command* const ring = run.with.rings + which * layout::SLOTS;
  std::size_t left = 1 + s.random() % layout::AT_ONCE;
  ++run.idle;
  taken c{};
  while (left-- > 0 && read_command(ring[mine.turn % layout::SLOTS], mine.turn, c)) {
    run.idle = 0;
    ++mine.turn;
    const result code = carry_out(s, run, c);
    if (code != result::success) return code;
  }
  return result::success;
}

}  // namespace

bool step_resident_copy(state& s, stream& on, operation& what, result& code) {
  resident_run& run = run_of(on, what);
  std::size_t which = s.random() % run.blocks.size();
  while (run.blocks[which].is_gone) which = (which + 1) % run.blocks.size();
  if (!run.blocks[which].has_begun) {
    begin(run, which);
    return false;
  }
  if (which == 0) decide(s, run);
  if (!run.is_stopping) {
    code = look(s, run, which);
    return code != result::success;
  }
  run.blocks[which].is_gone = true;
  if (++run.gone != run.blocks.size()) return false;
  write(run.with.shared->ended, run.with.launch);
  return true;
}

}  // namespace lci::mock
