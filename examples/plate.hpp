// The computation of halo_exchange: a square plate, cut into bands of rows, and one step of heat on
// a band.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace plate {

inline size_t size = 512;  // rows and columns of the whole plate

inline size_t row_bytes() { return size * sizeof(double); }
inline size_t first_row(int rank, int n) { return size * size_t(rank) / size_t(n); }
inline size_t rows_of(int rank, int n) { return first_row(rank + 1, n) - first_row(rank, n); }

// Band `rank` of `n`, at two moments: `at[step % 2]` is now, the other one is next. Rows 1 to
// `rows` are its own, rows 0 and `rows` + 1 are copies of the neighbours' edge rows: the halo.
struct band_t {
  band_t(int rank, int n) : rows(rows_of(rank, n)) {
    for (auto& cells : at) cells.assign((rows + 2) * size, 0.0);
    for (size_t i = 1; i <= rows; ++i) {
      const size_t y = first_row(rank, n) + i - 1;  // a hot spot, off the middle
      if (y > size / 4 && y < size / 2) std::fill_n(row(0, i) + size / 3, size / 5, 100.0);
    }
  }

  double* row(int step, size_t i) { return at[step % 2].data() + i * size; }

  // Each cell moves towards the mean of its four neighbours.
  void advance(int step) {
    for (size_t i = 1; i <= rows; ++i) {
      const double *up = row(step, i - 1), *here = row(step, i), *down = row(step, i + 1);
      double* next = row(step + 1, i);
      for (size_t j = 1; j + 1 < size; ++j) {
        next[j] = here[j] + 0.2 * (up[j] + down[j] + here[j - 1] + here[j + 1] - 4 * here[j]);
      }
    }
  }

  size_t rows;
  std::vector<double> at[2];
};

// A neighbour of a band, and which rows of the band the two share. Each band has a row of its own.
struct neighbour_t {
  int rank;
  size_t halo;  // row that the neighbour fills
  size_t edge;  // row that the neighbour needs
};
inline std::vector<neighbour_t> neighbours(int rank, int n) {
  const size_t rows = rows_of(rank, n);
  std::vector<neighbour_t> list;
  if (rank > 0) list.push_back({rank - 1, 0, 1});
  if (rank + 1 < n) list.push_back({rank + 1, rows + 1, rows});
  return list;
}

}  // namespace plate
