#include "lci/boot/board.hpp"

#include <utility>

#include "lci/boot/kv_wire.hpp"

namespace lci::boot {

board_bootstrap::board_bootstrap(board& b) : board_(b) {
  pages_.resize(static_cast<std::size_t>(b.size()), page{b.rounds(), {}});
}

void board_bootstrap::put(const std::string& key, const std::string& value) {
  check_put(name(), key, value);
  kv::encode_put(pending_, key, value);
}

void board_bootstrap::fence() {
  // Pinned even when it is empty: readers read every round of a rank, one after the other.
  const unsigned round = board_.next_round();
  board_.exchange(round, std::exchange(pending_, {}));
}

// Sheets are fetched on demand: n ranks that never look at each other's values cost nothing.
std::string board_bootstrap::get(int rank, const std::string& key) {
  check_rank(name(), rank, size());
  page& p = pages_[static_cast<std::size_t>(rank)];
  for (; p.next < board_.rounds(); ++p.next) {
    const std::string sheet = board_.read(rank, p.next);
    const std::size_t parsed = take_sheet(sheet, p.values);
    if (parsed == sheet.size()) continue;
    throw backend_error(std::string(name()) + ": what rank " + std::to_string(rank) +
                        " had put before fence " + std::to_string(p.next) +
                        " does not parse after byte " + std::to_string(parsed) +
                        "; do all ranks run the same version of lci?");
  }
  const auto found = p.values.find(key);
  if (found == p.values.end()) throw_missing_key(name(), rank, key);
  return found->second;
}

std::size_t take_sheet(std::string_view sheet, std::map<std::string, std::string>& values) {
  kv::splitter in;
  in.feed(sheet);
  std::size_t parsed = 0;
  while (const auto f = in.next()) {
    const auto put = f->type == kv::frame_type::put ? kv::decode_put(f->body) : std::nullopt;
    if (!put) break;
    parsed += kv::HEADER + f->body.size();
    values.insert_or_assign(std::string(put->key), std::string(put->value));
  }
  return parsed;
}

std::unique_ptr<bootstrap> open_on_board(board_cache& cache, const char* name,
                                         std::unique_ptr<board> (*make)()) {
  std::unique_ptr<board>& b = cache[name];
  if (!b) b = make();
  if (!b->is_ours()) {
    throw backend_error(
        std::string(name) +
        ": this process was forked from a rank of the job and is no rank itself; start "
        "lci only after fork(), or run the child with LCT_PMI_BACKEND=local");
  }
  return std::make_unique<board_bootstrap>(*b);
}

}  // namespace lci::boot
