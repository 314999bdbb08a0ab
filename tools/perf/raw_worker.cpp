#include "tools/perf/raw_worker.hpp"

#include <thread>

#include "tools/perf/worker.hpp"

namespace lci_perf {

namespace {

constexpr std::uint64_t SLOTS = 64, INLINE = 48, LEAST_AREA = 1 << 20;

// One direction of a pair. A short message is in the line of its number; a longer one in the area.
struct direction {
  struct alignas(64) slot {
    std::atomic<std::uint64_t> number;  // of the message in it, from 1
    char bytes[INLINE];
  };
  slot slots[SLOTS];
  line taken;  // messages that the receiver has seen, now and then
};

std::uint64_t page_up(std::uint64_t bytes) { return (bytes + 4095) / 4096 * 4096; }

// Behind the board, in the same file: two directions with their areas for each pair.
class commons {
 public:
  explicit commons(const board& b)
      : area_(std::max(page_up(b.largest), LEAST_AREA)), each_(page_up(sizeof(direction)) + area_) {
    const int fd = open(std::getenv(BOARD_VARIABLE), O_RDWR | O_CLOEXEC);
    const std::uint64_t begin = page_up(sizeof(board)), bytes = each_ * b.seats;
    void* at = MAP_FAILED;
    if (fd >= 0 && ftruncate(fd, static_cast<off_t>(begin + bytes)) == 0)
      at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd,
                static_cast<off_t>(begin));
    if (at == MAP_FAILED) throw std::runtime_error("no shared memory");
    close(fd);
    at_ = static_cast<char*>(at);
  }
  direction& from(int seat) const { return *reinterpret_cast<direction*>(at_ + each(seat)); }
  char* area_of(int seat) const { return at_ + each(seat) + page_up(sizeof(direction)); }
  std::uint64_t area() const { return area_; }

 private:
  std::uint64_t each(int seat) const { return each_ * static_cast<std::uint64_t>(seat); }
  std::uint64_t area_, each_;
  char* at_ = nullptr;
};

class raw_port {
 public:
  raw_port(const commons& all, int mine, int other)
      : out_(all.from(mine)),
        in_(all.from(other)),
        out_area_(all.area_of(mine)),
        in_area_(all.area_of(other)),
        area_(all.area()) {}

  // Before each order: the number of places depends on the size.
  void begin(operation op, std::uint64_t size) {
    is_get_ = op == operation::get;
    places_ = size <= INLINE ? SLOTS : std::clamp<std::uint64_t>(area_ / size, 1, SLOTS);
    size_ = size;
  }
  void start(char* data, std::size_t size) {
    if (is_get_) {
      std::memcpy(data, in_area_, size);
      return;
    }
    ++sent_;
    // As lanes do: the line of `taken` is fetched only where all places seem to be in use.
    for (patience step; known_taken_ + places_ < sent_ && !is_free();) step();
    direction::slot& slot = out_.slots[sent_ % SLOTS];
    std::memcpy(size <= INLINE ? slot.bytes : out_area_ + sent_ % places_ * size_, data, size);
    // edge perf.raw, writer: the bytes are visible to wait().
    slot.number.store(sent_, std::memory_order_release);
  }
  void finish() {}
  void expect(char*, std::size_t) { ++expected_; }
  void wait() {
    for (; seen_ < expected_; ++seen_) {
      // edge perf.raw, reader
      const std::atomic<std::uint64_t>& number = in_.slots[(seen_ + 1) % SLOTS].number;
      for (patience step; number.load(std::memory_order_acquire) < seen_ + 1;) step();
      // Not each time where there are many: that line travels back.
      if (places_ < SLOTS || seen_ % (SLOTS / 4) == 0) give_back(seen_ + 1);
    }
    give_back(seen_);
  }
  void send(char* data, std::size_t size) { start(data, size); }
  void recv(char* data, std::size_t size) { expect(data, size), wait(); }
  void progress() {}

 private:
  // Is there room for the message `sent_`?
  bool is_free() {
    // edge perf.raw_free, reader: the receiver has seen what was here; partner is give_back().
    known_taken_ = out_.taken.value.load(std::memory_order_acquire);
    return known_taken_ + places_ >= sent_;
  }
  void give_back(std::uint64_t seen) {
    // edge perf.raw_free, writer
    in_.taken.value.store(seen, std::memory_order_release);
  }

  direction &out_, &in_;
  char *out_area_, *in_area_;
  std::uint64_t area_, size_ = 8, places_ = SLOTS;
  bool is_get_ = false;
  std::uint64_t sent_ = 0, known_taken_ = 0, expected_ = 0, seen_ = 0;
};

void serve_seat(const commons& all, board& page, int pair, bool is_first) {
  seat mine(page, pair, is_first);
  mine.pin();
  page_buffer out = buffer_of(page), in = buffer_of(page);
  const int number = 2 * pair + (is_first ? 0 : 1);
  raw_port port(all, number, number ^ 1);
  mine.serve([&](const order& o) {
    port.begin(o.op, o.size);
    execute(mine, port, out.data(), in.data(), o);
  });
}

void serve_all(board& page) {
  const char* const given = std::getenv(RANK_VARIABLE);
  const int rank = given != nullptr ? std::atoi(given) : 0;
  if (page.is_gpu != 0) throw std::runtime_error("it copies between host memory only");
  const commons all(page);
  std::snprintf(page.version, sizeof page.version, "one copy and one cache line, no library");
  // The same for all that write it; the program reads it once they are ready.
  page.operations.store(
      bit(operation::am) | bit(operation::sendrecv) | bit(operation::put) | bit(operation::get),
      std::memory_order_relaxed);
  run_seats(page, rank, [&](int pair, bool is_first) { serve_seat(all, page, pair, is_first); });
}

}  // namespace

int run_raw_worker() { return run_worker("lci_perf", serve_all); }

}  // namespace lci_perf
