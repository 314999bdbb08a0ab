// Those who have called and not proven yet that they know the secret of a URL. Owned by a hub.
// Threads: single, with the hub. Always true: none can make us hold more than FEW bytes, nor stay
// longer than its time; one that sends what is wrong gets no byte and is hung up on. Beyond MOST
// the oldest makes room for a newcomer, once it has had PATIENCE to say what takes an honest caller
// a round trip; until then newcomers wait in the system's queue, in their order.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lci/base/unshared.hpp"
#include "lci/boot/fd.hpp"
#include "lci/boot/key_exchange.hpp"
#include "lci/boot/seal.hpp"
#include "lci/transport/setup_options.hpp"

namespace lci::transports {

// What a joiner says first, sealed: the ids of both hubs, 16 bytes each, and the number of the
// connection between them (4, little endian).
struct join_words {
  static constexpr std::size_t SIZE = 16 + 16 + 4;
  std::string joiner, root;  // as in URLs: 32 digits
  std::uint32_t number = 0;
  static std::optional<join_words> in(std::string_view body);
  std::string text() const;
};

class strangers {
 public:
  static constexpr std::size_t MOST = 256;
  static constexpr std::chrono::milliseconds PATIENCE{1000};
  static constexpr std::size_t RECORD = 4 + 5 + join_words::SIZE + 16;  // the first, sealed
  static constexpr std::size_t FEW = boot::key_exchange::MESSAGE + RECORD;

  // One that has proven itself.
  struct guest {
    base::descriptor socket;
    boot::sealed_stream seal;
    std::size_t which;  // of the keys
    join_words words;
  };

  // on_answer: for tests.
  explicit strangers(void (*on_answer)(const char*) = nullptr) noexcept : on_answer_(on_answer) {}

  bool has(int fd) const noexcept { return all_.contains(fd); }
  std::size_t size() const noexcept { return all_.size(); }
  // Whether another may be added: drops the oldest for it, if need be and if its PATIENCE is over.
  bool make_room(clock::time_point now) noexcept;
  // When the oldest can be dropped for another.
  clock::time_point patient_until() const;
  // Throws std::bad_alloc.
  void add(base::descriptor socket, clock::time_point now, clock::duration time);
  // Reads what it sent. Nothing: it has not proven itself yet, or is no more here: has() tells.
  std::optional<guest> serve(int fd, const std::vector<boot::job_key>& keys);
  // Those whose time is over, to be dropped; when the next one's is.
  std::vector<int> due(clock::time_point now) const;
  std::optional<clock::time_point> next_due() const;
  void drop(int fd) noexcept;
  void clear() noexcept {
    by_age_.clear();
    all_.clear();
  }

 private:
  struct stranger {
    base::descriptor socket;
    base::unshared is_ours;  // socket: it closes when this process ends
    clock::time_point since, due;
    std::uint64_t age = 0;
    std::string in;  // of its first message, then of its first record
    std::optional<boot::sealed_stream> seal;
    std::size_t which = 0;
  };
  bool answer(stranger& one, const std::vector<boot::job_key>& keys);

  void (*const on_answer_)(const char*);
  std::unordered_map<int, stranger> all_;  // by descriptor
  std::map<std::uint64_t, int> by_age_;    // the same; their times end in this order
  std::uint64_t next_age_ = 0;
};

}  // namespace lci::transports
