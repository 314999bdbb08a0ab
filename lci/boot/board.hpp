// What process managers offer, seen as a board: per round each rank pins one sheet of bytes, and
// once all have, any rank reads any sheet. A bootstrap over it packs everything put between two
// fences into one sheet. Callers: choose, through open_on_board(); implementations are pmi1, pmi2,
// pmix and mpi. Threads: single. Always true: a board lives as long as its process, since none of
// these managers can be joined twice; bootstraps come and go on it, and the rounds continue to
// count. A process that was only forked from a member never signs off in its name.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lci/boot/bootstrap.hpp"
#include "lci/boot/process_mark.hpp"
#include "lci/errors.hpp"

namespace lci::boot {

// The manager is there but does not speak this protocol: the next bootstrap of the list may fit.
class declined_error : public backend_error {
 public:
  using backend_error::backend_error;
};

class board {
 public:
  board() = default;
  virtual ~board() = default;
  board(const board&) = delete;
  board& operator=(const board&) = delete;

  virtual const char* name() const noexcept = 0;
  virtual int rank() const noexcept = 0;
  virtual int size() const noexcept = 0;
  // Pins our sheet of this round; returns when all ranks have pinned theirs. Throws backend_error.
  virtual void exchange(unsigned round, const std::string& sheet) = 0;
  // The sheet of a rank in a round that is over; no sheet is read twice. Throws backend_error.
  virtual std::string read(int rank, unsigned round) = 0;

  unsigned rounds() const noexcept { return rounds_; }
  unsigned next_round() noexcept { return rounds_++; }
  // False in a process that was forked after the board was made.
  bool is_ours() const noexcept { return mark_.is_ours(); }

 private:
  const process_mark mark_;
  unsigned rounds_ = 0;
};

class board_bootstrap final : public bootstrap {
 public:
  explicit board_bootstrap(board& b);
  const char* name() const noexcept override { return board_.name(); }
  int rank() const noexcept override { return board_.rank(); }
  int size() const noexcept override { return board_.size(); }
  void put(const std::string& key, const std::string& value) override;
  void fence() override;
  std::string get(int rank, const std::string& key) override;

 private:
  struct page {
    unsigned next;  // first round that has not been read yet
    std::map<std::string, std::string> values;
  };
  board& board_;
  std::string pending_;      // put frames since the last fence
  std::vector<page> pages_;  // by rank
};

// The boards of a process, by name. The owner of the cache keeps it until the process ends, and so
// the process stays a member until then.
using board_cache = std::map<std::string, std::unique_ptr<board>>;

// Stores the contents of put frames in `values`; returns the number of bytes that parsed: all of
// them if it is a sheet.
std::size_t take_sheet(std::string_view sheet, std::map<std::string, std::string>& values);

// A bootstrap on the board of this name, which `make` creates the first time. Throws backend_error.
std::unique_ptr<bootstrap> open_on_board(board_cache& cache, const char* name,
                                         std::unique_ptr<board> (*make)());

}  // namespace lci::boot
