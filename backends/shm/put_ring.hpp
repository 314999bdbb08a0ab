// Where the bytes of puts lie that fit no slot, from the post until the target has copied them: a
// ring in the origin's arena, one for each device and peer. It is filled in the order of the lane
// that leads there, and the lane's own count says what is free again: the target writes nothing
// back (docs/decisions/0071-puts-in-a-ring.md). Owned by the outbox. Threads: the one to
// which put_guard has granted a put, and which has not published it yet; so by one lane only.
// Always true: the bytes of a put are in one piece; what a put takes is free as soon as its message
// has been consumed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "backends/shm/lane.hpp"
#include "lci/base/platform.hpp"
#include "lci/mem/arena.hpp"

namespace lci::shm {

class put_ring {
 public:
  static constexpr std::uint32_t SIZE = PUT_RING;

  // Throws std::bad_alloc, backend_error.
  explicit put_ring(mem::arena& from);

  // Room for `size` bytes, at most SIZE, of the lane's next message. Null: not now. What is not
  // taken by commit() is free.
  std::byte* reserve(const tx_lane& lane, std::size_t size) noexcept {
    const auto need = static_cast<std::uint32_t>(base::align_up(size, base::CACHE_LINE));
    if (written_ + need - looked_ > step(need)) look(lane, need);
    // At the end of the ring a put that does not fit begins anew.
    reserved_ = written_ % SIZE + need > SIZE ? next_lap() : written_;
    if (!has_room(need)) [[unlikely]] {
      retire(lane);
      if (!has_room(need)) return nullptr;
    }
    reserved_end_ = reserved_ + need;
    return bytes_ + reserved_ % SIZE;
  }
  // The next message of the lane has those bytes.
  void commit(const tx_lane& lane) noexcept {
    written_ = reserved_end_;
    puts_[last_++ % puts_.size()] = {lane.position(), written_};
  }

  // For any thread: gives the memory back, but not the addresses. The peer has ended, or what
  // it still reads counts no more.
  void forget_bytes() noexcept;

 private:
  // A put with bytes here. Not more than a lane has slots are unconsumed.
  struct put {
    std::uint32_t position;  // of its message
    std::uint32_t end;       // of its bytes, as written_
  };
  // Lines that both sides have had lately cost less than new ones. So the ring begins anew before
  // its end is reached, if nothing is under way. Small puts, which have more messages for the
  // bytes, make it do so from FEW_BYTES on, if half of that is free there. A look at the lane's
  // count costs a line, so one is taken every STEP bytes or eight large puts.
  static constexpr std::uint32_t STEP = 4 * 1024, SMALL = 2 * 1024, FEW_BYTES = 16 * 1024;
  static constexpr std::uint32_t step(std::uint32_t need) noexcept {
    return need > SMALL ? 8 * need : STEP;
  }
  // Where the ring's start comes next; that may be here.
  std::uint32_t next_lap() const noexcept { return (written_ + SIZE - 1) / SIZE * SIZE; }
  bool has_room(std::uint32_t need) const noexcept {
    return reserved_ + need - freed_ <= SIZE && last_ - first_ < puts_.size();
  }
  void look(const tx_lane& lane, std::uint32_t need) noexcept;
  void retire(const tx_lane& lane) noexcept;

  std::byte* const bytes_;
  // Bytes ever written and freed, and where the last look was; they wrap.
  std::uint32_t written_ = 0, freed_ = 0, looked_ = 0;
  std::uint32_t reserved_ = 0, reserved_end_ = 0;  // by reserve(), likewise
  std::uint32_t first_ = 0, last_ = 0;             // puts ever freed and written
  std::array<put, LANE_SLOTS> puts_;
};

}  // namespace lci::shm
