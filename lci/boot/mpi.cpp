#include "lci/boot/mpi.hpp"

#include <limits>
#include <utility>

#include "lci/boot/mpi_library.hpp"

namespace lci::boot {

namespace {

class mpi_board final : public board {
 public:
  explicit mpi_board(std::unique_ptr<mpi_library> library) : mpi_(std::move(library)) {
    mpi_->start();
    rank_ = mpi_->rank();
    size_ = mpi_->size();
  }
  ~mpi_board() override {
    if (is_ours()) mpi_->end();
  }
  const char* name() const noexcept override { return "mpi"; }
  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return size_; }

  void exchange(unsigned round, const std::string& sheet) override {
    if (!mpi_->is_active())
      throw backend_error("mpi: MPI_Finalize was called before lci was finalized");
    const auto n = static_cast<std::size_t>(size_);
    std::vector<int> sizes(n), at(n);
    mpi_->gather_sizes(static_cast<int>(sheet.size()), sizes.data());
    long long sum = 0;
    for (std::size_t r = 0; r < n; ++r) {
      at[r] = static_cast<int>(sum);
      sum += sizes[r];
      if (sum <= std::numeric_limits<int>::max()) continue;
      throw backend_error("mpi: the values of fence " + std::to_string(round) +
                          " exceed what one MPI_Allgatherv carries");
    }
    std::string all(static_cast<std::size_t>(sum), '\0');
    mpi_->gather(sheet, all.data(), sizes.data(), at.data());
    std::vector<std::string>& sheets = rounds_[round];
    for (std::size_t r = 0; r < n; ++r)
      sheets.push_back(
          all.substr(static_cast<std::size_t>(at[r]), static_cast<std::size_t>(sizes[r])));
  }
  std::string read(int rank, unsigned round) override {
    return std::move(rounds_.at(round)[static_cast<std::size_t>(rank)]);
  }

 private:
  std::unique_ptr<mpi_library> mpi_;
  int rank_ = -1, size_ = 0;
  std::map<unsigned, std::vector<std::string>> rounds_;  // sheets by rank, empty once read
};

std::unique_ptr<board> make_mpi() {
  mpi_choice found = find_mpi();
  if (!found.library) throw backend_error("mpi: " + found.why_not);
  return std::make_unique<mpi_board>(std::move(found.library));
}

}  // namespace

std::optional<std::string> mpi_unavailable() {
  const mpi_choice found = find_mpi();
  if (!found.library) return found.why_not;
  if (found.library->is_over()) return "MPI is finalized in this process already";
  return std::nullopt;
}

std::unique_ptr<bootstrap> open_mpi(board_cache& cache) {
  return open_on_board(cache, "mpi", &make_mpi);
}

}  // namespace lci::boot
