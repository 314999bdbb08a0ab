// What every thread of every rank will do, computed from the seed alone: any rank can ask what
// another one has planned, so each message and each byte of it can be verified without talking
// about it. Actions are numbered through all ranks and threads; a number names one for good.
// Immutable after construction; shared by all threads.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace stress {

enum class kind : std::uint8_t { am, send, put, signal, get };
constexpr const char* KIND_NAMES[] = {"am", "send", "put", "signal", "get"};

struct action {
  kind what;
  std::uint8_t variant;  // random bits, for the functions below
  std::uint32_t number;
  int origin, thread;  // who posts it
  int peer;            // with whom
  std::uint32_t size;  // bytes
  std::uint32_t
      ordinal;          // of a put with signal: how many came before from this origin to this peer
  std::uint64_t seed;   // of the bytes
  std::uint64_t place;  // put, signal, get: first byte in the peer's window
};

// Bits of action::variant.
inline bool registered(const action& a) { return (a.variant & 3) == 0; }
inline bool in_packet(const action& a) { return (a.variant & 12) == 0; }
inline bool insists(const action& a) { return (a.variant & 16) != 0; }
inline bool always_signalled(const action& a) { return (a.variant & 32) != 0; }
// Sends: of one key with all such sends of its thread, which come in order; or with a key of its
// own, and then perhaps received only after the message is there.
inline bool shares_key(const action& a) { return (a.variant & 64) != 0; }
inline bool comes_unexpected(const action& a) { return (a.variant & 192) == 128; }
inline bool wide_tag(const action& a) { return (a.variant & 128) != 0; }

struct shape {
  int ranks;
  int threads;
  int actions;             // per thread
  std::uint32_t max_size;  // bytes of the largest message
  std::uint32_t bcopy;     // sizes crowd around this limit
};

class plan {
 public:
  plan(const shape& s, std::uint64_t seed)
      : shape_(s), written_(static_cast<std::size_t>(s.ranks)), read_(written_.size()) {
    for (int rank = 0; rank < s.ranks; ++rank)
      for (int thread = 0; thread < s.threads; ++thread) draw(seed, rank, thread);
    std::vector<std::uint32_t> signals(written_.size() * written_.size());
    for (action& a : all_) {
      std::vector<std::uint64_t>& ends = a.what == kind::get ? read_ : written_;
      if (a.what == kind::am || a.what == kind::send) continue;
      std::uint64_t& end = ends[static_cast<std::size_t>(a.peer)];
      a.place = end;
      end += a.size + GAP;
      if (a.what == kind::signal) a.ordinal = signals[pair_of(a.origin, a.peer)]++;
    }
  }

  static constexpr std::uint64_t GAP = 3;  // bytes that nobody writes, behind each place

  const shape& dimensions() const { return shape_; }
  const std::vector<action>& all() const { return all_; }
  // The actions of one thread lie side by side.
  const action* of(int rank, int thread) const {
    return &all_[static_cast<std::size_t>(rank * shape_.threads + thread) * per_thread()];
  }
  std::size_t per_thread() const { return static_cast<std::size_t>(shape_.actions); }
  // Sizes of the windows of a rank: where others write, and where they only read.
  std::uint64_t written(int rank) const { return written_[static_cast<std::size_t>(rank)]; }
  std::uint64_t read(int rank) const { return read_[static_cast<std::size_t>(rank)]; }
  std::size_t pair_of(int origin, int peer) const {
    return static_cast<std::size_t>(origin * shape_.ranks + peer);
  }

 private:
  void draw(std::uint64_t seed, int rank, int thread) {
    std::seed_seq mix{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32),
                      static_cast<std::uint32_t>(rank), static_cast<std::uint32_t>(thread)};
    std::mt19937_64 random(mix);
    for (int i = 0; i < shape_.actions; ++i) {
      const std::uint64_t dice = random();
      action a{};
      a.what = dice % 100 < 40   ? kind::am
               : dice % 100 < 65 ? kind::send
               : dice % 100 < 75 ? kind::put
               : dice % 100 < 87 ? kind::signal
                                 : kind::get;
      a.variant = static_cast<std::uint8_t>(dice >> 32);
      a.number = static_cast<std::uint32_t>(all_.size());
      a.origin = rank;
      a.thread = thread;
      a.peer = static_cast<int>(random() % static_cast<std::uint64_t>(shape_.ranks));
      a.size = draw_size(random);
      a.seed = random();
      all_.push_back(a);
    }
  }

  // Mostly small, some around the packet limit, one of twenty large: each power of two between
  // that limit and the largest size is as likely.
  std::uint32_t draw_size(std::mt19937_64& random) const {
    const std::uint64_t dice = random() % 100;
    if (dice < 45) return static_cast<std::uint32_t>(random() % 130);
    if (dice < 87) return static_cast<std::uint32_t>(random() % shape_.bcopy);
    if (dice < 95) return shape_.bcopy - 16 + static_cast<std::uint32_t>(random() % 32);
    const double share = static_cast<double>(random() % 10001) / 10000;
    return static_cast<std::uint32_t>(shape_.bcopy *
                                      std::pow(double(shape_.max_size) / shape_.bcopy, share));
  }

  shape shape_;
  std::vector<action> all_;
  std::vector<std::uint64_t> written_, read_;
};

// How a person finds it again.
inline std::string name_of(const action& a) {
  return std::string(KIND_NAMES[static_cast<int>(a.what)]) + " " + std::to_string(a.number) + " (" +
         std::to_string(a.size) + " bytes, thread " + std::to_string(a.thread) + " of rank " +
         std::to_string(a.origin) + ", with rank " + std::to_string(a.peer) + ")";
}

}  // namespace stress
