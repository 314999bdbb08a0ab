// A board over a store of short printable words, which is what PMI-1 and PMI-2 offer: sheets are
// written in 64 letters and cut into pieces of the length that the store takes. Callers: pmi1 and
// pmi2. Threads: single. Always true: a sheet is reassembled only if every piece and the length
// agree; everything the store returns is treated as text from a stranger.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "lci/boot/board.hpp"

namespace lci::boot {

class text_store {
 public:
  virtual ~text_store() = default;
  virtual const char* name() const noexcept = 0;
  virtual int rank() const noexcept = 0;
  virtual int size() const noexcept = 0;
  virtual std::size_t max_value() const noexcept = 0;  // at least MIN_PIECE
  // All throw backend_error, get() also when there is no such key.
  virtual void put(const std::string& key, const std::string& value) = 0;
  virtual void fence() = 0;
  virtual std::string get(int rank, const std::string& key) = 0;
};

inline constexpr std::size_t MIN_PIECE = 32;

class text_board final : public board {
 public:
  explicit text_board(std::unique_ptr<text_store> store) : store_(std::move(store)) {}
  const char* name() const noexcept override { return store_->name(); }
  int rank() const noexcept override { return store_->rank(); }
  int size() const noexcept override { return store_->size(); }
  void exchange(unsigned round, const std::string& sheet) override;
  std::string read(int rank, unsigned round) override;

 private:
  std::unique_ptr<text_store> store_;
};

// Bytes in the letters A-Z a-z 0-9 - and _, four for three bytes, without padding (RFC 4648,
// "base64url").
std::string to_letters(std::string_view bytes);
// Nothing when there are other characters in it.
std::optional<std::string> from_letters(std::string_view letters);

}  // namespace lci::boot
