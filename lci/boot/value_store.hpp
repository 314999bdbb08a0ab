// What the ranks of a job have put, for one process that reads it: some hundred bytes for each
// rank, so that they decide how much memory the start of a large job takes
// (docs/decisions/0057-start-of-many-ranks.md). Callers: kv member. Threads: single. Always true: a
// value is found by rank and key as it was set last; a set() that throws has changed nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lci::boot {

class value_store {
 public:
  explicit value_store(int ranks) : newest_(static_cast<std::size_t>(ranks), NONE) {}

  // Replaces what that rank had under this key. `value`: MAX_VALUE bytes at most. Throws
  // std::bad_alloc.
  void set(int rank, std::string_view key, std::string_view value);
  // The same for a value whose bytes stay where they are.
  void refer(int rank, std::string_view key, std::string_view value);
  // How many refer() has been called for.
  std::size_t referred() const noexcept { return referred_; }
  // Valid until the next set() or refer(). A step for each key that the rank has, the last one
  // first.
  std::optional<std::string_view> find(int rank, std::string_view key) const noexcept;

 private:
  static constexpr std::uint32_t NONE = ~std::uint32_t{0};
  static constexpr std::size_t CHUNK = 64 * 1024;

  // One value; those of a rank are a list, the last one first.
  struct entry {
    const char* at;
    std::uint32_t size, room;  // room: 0 if the bytes are another's
    std::uint32_t key, older;
  };

  // Ranks use the same few keys, so that each is kept once.
  void keep(int rank, std::uint32_t old, const entry& one);
  std::uint32_t number_of(std::string_view key);
  std::uint32_t find_entry(int rank, std::uint32_t key) const noexcept;
  char* take(std::size_t bytes);

  std::vector<std::uint32_t> newest_;  // by rank: its first entry
  std::vector<entry> entries_;
  std::size_t referred_ = 0;
  std::map<std::string, std::uint32_t, std::less<>> keys_;
  std::vector<std::unique_ptr<char[]>> chunks_;
  char* free_ = nullptr;  // of the last chunk
  std::size_t left_ = 0;
};

}  // namespace lci::boot
