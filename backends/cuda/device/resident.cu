// The resident copy kernel: blocks that look at their rings in host memory, copy what the commands
// say and change words, until nothing has come for a while, their time is over, or they are told to
// stop. Launched by backends/cuda/resident. One launch at a time for each copy of this module.
// Always true: a thread that sees a flag or a done word sees the bytes of that command; a command
// that a block has taken is carried out before the block ends; when `ended` is seen nothing is
// touched any more and every counter is 0.
#include <cuda_runtime.h>

#include "backends/cuda/resident_command.hpp"
#include "lci/wqe/apply_change.hpp"

namespace {

namespace layout = lci::cuda::resident_layout;
using u32 = unsigned;
using u64 = unsigned long long;

constexpr u32 ALL = 0xffffffffu;
constexpr u32 LOOKS = 16;        // looks between two at the clock and at the words for the end
constexpr u32 WARP_MOST = 4096;  // bytes; larger commands of several are copied by the whole block

// What the blocks of a launch share, in GPU memory.
struct common {
  u32 here;                   // blocks that have begun
  u32 gone;                   // blocks that have ended
  u32 stopping;               // the launch that ends
  u64 active;                 // when a command was taken last
  u32 shares[layout::SLOTS];  // blocks that are through with a command that several share
};
__device__ common board;

__device__ u64 now_ns() {
  u64 at;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(at));
  return at;
}

// Host memory, past every cache.
__device__ u32 load_host(const u32* at) {
  u32 value;
  asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
  return value;
}
__device__ void store_host(u32* at, u32 value) {
  asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
}
__device__ void store_word(u64 at, u64 value) {
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(at), "l"(value) : "memory");
}
__device__ uint4 load_part(const layout::part* at) {
  uint4 v;
  asm volatile("ld.relaxed.sys.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(at)
               : "memory");
  return v;
}

// Data changes between commands, so nothing is read through L1.
template <bool HOST>
__device__ uint4 load(const uint4* at) {
  if (!HOST) return __ldcg(at);
  return load_part(reinterpret_cast<const layout::part*>(at));
}
template <bool HOST>
__device__ u32 load(const u32* at) {
  return HOST ? load_host(at) : __ldcg(at);
}
template <bool HOST>
__device__ unsigned char load(const unsigned char* at) {
  if (!HOST) return __ldcg(at);
  u32 value;
  asm volatile("ld.relaxed.sys.global.u8 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
  return static_cast<unsigned char>(value);
}

// `count` units by `width` threads, of which this is number `me`. Several loads are under way at a
// time, without which one block would move a tenth.
template <class Unit, bool HOST>
__device__ void copy_units(Unit* to, const Unit* from, u32 count, u32 me, u32 width) {
  constexpr u32 DEPTH = 8;
  u32 i = me;
  for (; i + (DEPTH - 1) * width < count && count >= DEPTH * width; i += DEPTH * width) {
    Unit held[DEPTH];
#pragma unroll
    for (u32 k = 0; k < DEPTH; ++k) held[k] = load<HOST>(from + i + k * width);
#pragma unroll
    for (u32 k = 0; k < DEPTH; ++k) to[i + k * width] = held[k];
  }
  for (; i < count; i += width) to[i] = load<HOST>(from + i);
}

template <bool HOST>
__device__ void copy_bytes(u64 to, u64 from, u32 size, u32 me, u32 width) {
  using byte = unsigned char;
  const u64 apart = to ^ from;
  const u32 unit = (apart & 15) == 0 ? 16 : (apart & 3) == 0 ? 4 : 1;
  u32 head = static_cast<u32>(-to & (unit - 1));
  if (head > size) head = size;
  const u32 middle = (size - head) / unit * unit;
  const u32 tail = head + middle;
  copy_units<byte, HOST>(reinterpret_cast<byte*>(to), reinterpret_cast<const byte*>(from), head, me,
                         width);
  if (unit == 16) {
    copy_units<uint4, HOST>(reinterpret_cast<uint4*>(to + head),
                            reinterpret_cast<const uint4*>(from + head), middle / 16, me, width);
  } else if (unit == 4) {
    copy_units<u32, HOST>(reinterpret_cast<u32*>(to + head),
                          reinterpret_cast<const u32*>(from + head), middle / 4, me, width);
  } else {
    copy_units<byte, HOST>(reinterpret_cast<byte*>(to + head),
                           reinterpret_cast<const byte*>(from + head), middle, me, width);
  }
  copy_units<byte, HOST>(reinterpret_cast<byte*>(to + tail),
                         reinterpret_cast<const byte*>(from + tail), size - tail, me, width);
}

struct taken {
  u64 to, from, flag, value;
  u32 size, shares, slot, kind, form, number;
};

__device__ taken decode(const uint4* parts) {
  const auto word = [](const uint4& p) { return static_cast<u64>(p.y) << 32 | p.x; };
  taken c;
  c.to = word(parts[layout::TO]);
  c.size = parts[layout::TO].z;
  c.from = word(parts[layout::FROM]);
  c.shares = parts[layout::FROM].z;
  c.flag = word(parts[layout::FLAG]);
  c.slot = parts[layout::FLAG].z & 0xff;
  c.kind = parts[layout::FLAG].z >> 8 & 0xff;
  c.form = parts[layout::FLAG].z >> 16;
  c.value = word(parts[layout::VALUE]);
  c.number = parts[layout::VALUE].z;
  return c;
}

// The flag and the value of such a command are what is compared and where the answer goes.
__device__ void change_word(const taken& c) {
  lci::wqe::word_change how;
  how.value = c.from;
  how.compare = c.flag;
  how.what = (c.form & layout::SWAP) != 0 ? how.SWAP : how.ADD;
  how.swap_mask = ~u64{0};
  how.compare_mask = (c.form & layout::COMPARE) != 0 ? ~u64{0} : 0;
  how.size = c.size;
  store_word(c.value, lci::wqe::apply(how, reinterpret_cast<void*>(c.to)));
}

__device__ void carry_out(const taken& c, u32 me, u32 width) {
  if (c.kind == layout::ATOMIC) {
    if (me == 0) change_word(c);
  } else if (c.kind == layout::FROM_COMMAND) {
    if (me != 0) return;
    // A word arrives as one.
    if (c.size == 8 && (c.to & 7) == 0) return store_word(c.to, c.from);
    if (c.size == 4 && (c.to & 3) == 0)
      return store_host(reinterpret_cast<u32*>(c.to), static_cast<u32>(c.from));
    for (u32 i = 0; i < c.size; ++i)
      reinterpret_cast<unsigned char*>(c.to)[i] = static_cast<unsigned char>(c.from >> (8 * i));
  } else if (c.kind == layout::FROM_HOST) {
    copy_bytes<true>(c.to, c.from, c.size, me, width);
  } else {
    copy_bytes<false>(c.to, c.from, c.size, me, width);
  }
}

// Behind a barrier that all threads reached after their stores. edge cuda.resident, here and in
// leave(): partner is read_word() in resident.cpp.
__device__ void announce(const taken& c, layout::control* shared) {
  __threadfence_system();
  if (c.shares > 1) {
    if (atomicAdd(&board.shares[c.slot], 1u) != c.shares - 1) return;
    board.shares[c.slot] = 0;
    __threadfence_system();
  }
  if (c.flag != 0 && c.kind != layout::ATOMIC) {
    // Either is relaxed, behind the fence above.
    if (c.form == layout::FLAG_ADD)
      atomicAdd_system(reinterpret_cast<u64*>(c.flag), c.value);
    else
      store_word(c.flag, c.value);
    if (c.form != 0) __threadfence_system();
  }
  store_host(&shared->done[c.slot], c.number);
}

// The first block decides about the end, the others follow. One thread of each block.
__device__ bool is_over(const layout::arguments& with, u64 born) {
  volatile common* const shared = &board;
  if (shared->stopping == with.launch) return true;
  if (blockIdx.x != 0) return false;
  const u64 now = now_ns();
  const u64 active = shared->active;
  const u64 last = active > born ? active : born;
  const bool is_idle = now > last && now - last > with.idle_ns;
  if (!is_idle && now - born <= with.life_ns && load_host(&with.shared->stop) != with.launch)
    return false;
  shared->stopping = with.launch;
  return true;
}

__device__ void arrive(const layout::arguments& with) {
  if (atomicAdd(&board.here, 1u) != gridDim.x - 1) return;
  __threadfence_system();
  store_host(&with.shared->started, with.launch);
}

// The last block leaves everything as the next launch wants to find it. All threads.
__device__ void leave(const layout::arguments& with) {
  __shared__ bool is_last;
  if (threadIdx.x == 0) {
    __threadfence_system();
    is_last = atomicAdd(&board.gone, 1u) == gridDim.x - 1;
  }
  __syncthreads();
  if (!is_last) return;
  if (threadIdx.x < layout::SLOTS) board.shares[threadIdx.x] = 0;
  if (threadIdx.x == 0) {
    board.here = 0;
    board.gone = 0;
    board.active = 0;
  }
  __threadfence_system();
  __syncthreads();
  if (threadIdx.x != 0) return;
  __threadfence_system();
  store_host(&with.shared->ended, with.launch);
}

}  // namespace

extern "C" __global__ void __launch_bounds__(lci::cuda::resident_layout::THREADS)
    lci_resident_copy(const lci::cuda::resident_layout::arguments with) {
  __shared__ uint4 parts[layout::AT_ONCE * 4];
  __shared__ u32 count;  // commands to carry out; ALL: the end
  const u32 me = threadIdx.x;
  const u32 warp = me / 32;
  const u32 lane = me % 32;
  const layout::command* const ring = with.rings + blockIdx.x * layout::SLOTS;
  const u64 born = now_ns();
  u32 turn = load_host(&with.shared->first[blockIdx.x]);
  if (me == 0) arrive(with);
  for (u32 looks = 0;; ++looks) {
    if (warp == 0) {
      u32 ready = 0;
      for (;; ++looks) {
        // edge cuda.command: partner is write_part() in resident.cpp.
        // One load of the warp reads all parts of the next commands.
        const u32 expected = turn + lane / 4;
        const uint4 part = load_part(&ring[expected % layout::SLOTS].parts[lane % 4]);
        u32 ends = 0;
        if (looks % LOOKS == 0 && lane == 0) ends = is_over(with, born);
        const u32 there = __ballot_sync(ALL, part.w == expected);
        // Commands of which all four parts are there, up to the first one that is not.
        const u32 whole = there & there >> 1 & there >> 2 & there >> 3 & 0x11111111u;
        const u32 missing = ~whole & 0x11111111u;
        ready = missing == 0 ? layout::AT_ONCE : (__ffs(missing) - 1) / 4;
        parts[lane] = part;
        if (__shfl_sync(ALL, ends, 0) != 0) ready = ALL;
        if (ready != 0) break;
      }
      if (lane == 0) {
        count = ready;
        if (ready != ALL) *static_cast<volatile u64*>(&board.active) = now_ns();
      }
    }
    __syncthreads();
    const u32 todo = count;
    if (todo == ALL) break;
    if (todo == 1) {
      carry_out(decode(parts), me, layout::THREADS);
    } else {
      for (u32 i = 0; i < todo; ++i) {
        const taken c = decode(&parts[4 * i]);
        if (c.size > WARP_MOST) carry_out(c, me, layout::THREADS);
      }
      if (warp < todo) {
        const taken c = decode(&parts[4 * warp]);
        if (c.size <= WARP_MOST) carry_out(c, lane, 32);
      }
    }
    __syncthreads();
    if (me < todo) announce(decode(&parts[4 * me]), with.shared);
    turn += todo;
    // The parts are written anew by the warp that has just read them.
    __syncwarp();
  }
  leave(with);
}
