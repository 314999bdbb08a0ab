// Which way large messages to one peer go, chosen by how long they take there. Per size class
// (powers of two, gets apart) every way is measured at first, then the fastest is kept and the
// others are tried now and then. Callers: bulk_stream, one per flow. Threads: single, the poller.
// Always true: the same times give the same choices; a way that is allowed is tried at least once
// in about LONGEST * (WAYS - 1) stretches of a class; the best one changes only after another was
// faster by a margin, twice.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace lci::shm {

enum class copy_way : std::uint8_t {
  pipeline,  // two copies that overlap, through packets
  kernel,    // one copy by the origin's kernel call
  both       // one copy, by kernel calls of origin and target at the same time; of a put with
             // an immediate of up to 64 KiB by the target alone
};
const char* name_of(copy_way way) noexcept;

class way_chooser {
 public:
  static constexpr std::size_t WAYS = 3;
  using way_set = std::uint8_t;  // bit per copy_way
  static constexpr way_set only(copy_way way) noexcept {
    return static_cast<way_set>(1u << static_cast<unsigned>(way));
  }

  // Above this size; at most this, a message goes in a packet of its own.
  static constexpr std::size_t FROM = 4 * 1024;

  // A stretch of messages that measures a way: the first ones overlap with those of the way before
  // and do not count, the others make one figure. Both are given in bytes, because messages also
  // end in groups, and a few make no mean.
  static constexpr std::size_t SKIPPED_BYTES = 256 * 1024, COUNTED_BYTES = 2 * 1024 * 1024;
  static constexpr std::uint32_t skipped(std::size_t number) noexcept {
    return 1 + static_cast<std::uint32_t>(SKIPPED_BYTES / (2 * FROM << number));
  }
  static constexpr std::uint32_t counted(std::size_t number) noexcept {
    return std::max(3u, static_cast<std::uint32_t>(COUNTED_BYTES / (2 * FROM << number)));
  }
  static constexpr std::uint32_t stretch(std::size_t number) noexcept {
    return skipped(number) + counted(number);
  }
  // Stretches for each way before one is kept: so many, and more while one of them gains an eighth
  // on its best, as copies into memory that was never touched do.
  static constexpr std::uint32_t FIRST_ROUNDS = 2, MOST_FIRST_ROUNDS = 8;
  // Stretches of the best way between two trials: twice as many after each that found none better.
  static constexpr std::uint32_t SHORTEST = 8, LONGEST = 256;
  // The way for the next message of more than FROM bytes, and whether the message of that class
  // before it took another one. `allowed` contains the pipeline.
  struct choice {
    copy_way way = copy_way::pipeline;
    bool is_change = false;
    // So many of this class after it need no pick: they go this way, or by what is no slower.
    std::uint32_t unmeasured = 0;
  };
  // Of which ways `unmeasured` is heeded, for messages of one piece by the pipeline and for those
  // that the poster copies at once.
  struct skips {
    bool pipeline = false;
    bool kernel = false;
  };
  choice pick(std::size_t size, bool is_get, way_set allowed, skips may) noexcept;
  choice pick(std::size_t size, bool is_get, way_set allowed) noexcept {
    return pick(size, is_get, allowed, skips{});
  }
  // A message that pick() sent that way took so many ticks for itself. Messages may end after later
  // ones were picked.
  void note(std::size_t size, bool is_get, copy_way way, std::uint64_t ticks) noexcept;

  struct figures {
    std::size_t size = 0;  // the class has sizes of more than a half of it, up to it
    bool is_get = false;
    copy_way best = copy_way::pipeline;
    std::array<std::uint32_t, WAYS> ticks_per_kib{};  // 0: not measured
  };
  figures figures_of(std::size_t size, bool is_get) const noexcept;
  // A class has got another best way since this was last asked; of several, the last.
  bool has_news() const noexcept { return has_news_; }
  figures take_news() noexcept;

  // Classes whose messages are one piece of the pipeline; and those that the poster may copy by the
  // kernel in the call that posts them, because that is short: up to 128 KiB.
  static constexpr std::size_t ONE_PIECE = 3, AT_ONCE = 5;
  // Of a class: sizes of more than FROM << class bytes, at most twice that.
  static constexpr std::size_t CLASSES = 15;  // the last one has no upper end
  static constexpr std::size_t class_of(std::size_t size) noexcept {
    const auto above = static_cast<std::size_t>(std::bit_width((size - 1) / FROM)) - 1;
    return above < CLASSES ? above : CLASSES - 1;
  }

 private:
  enum class phase : std::uint8_t { first, keeping, trying };
  // Of one way, because the last messages of a stretch may end among those of the next one: gets by
  // the pipeline do.
  struct tally {
    std::uint32_t seen = 0;              // since the stretch began, or its last figure
    std::uint64_t ticks = 0, bytes = 0;  // of those that count
  };
  struct size_class {
    phase at = phase::first;
    copy_way best = copy_way::pipeline;
    copy_way now = copy_way::both;           // of the stretch under way; at first, before the first
    copy_way challenger = copy_way::both;    // tried last
    std::uint8_t rounds = 0;                 // of first measurements that are over
    std::uint8_t wins = 0;                   // of the challenger, one after the other
    bool has_gained = false;                 // a way, in this round
    std::uint32_t left = 0;                  // messages to pick in this stretch
    std::uint16_t distance = SHORTEST;       // stretches of the best one until the next trial
    std::array<tally, WAYS> tallies{};       // of the last stretch of each
    std::array<std::uint32_t, WAYS> last{};  // figures in ticks per KiB, 0: not measured
    std::array<std::uint32_t, WAYS> cost{};  // what is believed of them
  };
  size_class& of(std::size_t size, bool is_get) noexcept {
    return classes_[is_get][class_of(size)];
  }
  std::size_t number_of(const size_class& c) const noexcept;
  // Answers choice::unmeasured.
  std::uint32_t begin_stretch(size_class& c, way_set allowed, skips may) noexcept;
  void end_soon(size_class& c) const noexcept;
  void take_figure(size_class& c, copy_way way, std::uint32_t cost) noexcept;
  void take_best(size_class& c, copy_way way) noexcept;

  std::array<std::array<size_class, CLASSES>, 2> classes_{};  // puts, gets
  bool has_news_ = false;
  std::size_t news_class_ = 0;
  bool news_is_get_ = false;
};

}  // namespace lci::shm
