// Tests of examples/plate.hpp: that bands joined by halos compute what one plate computes, and that
// forgetting a halo shows.
#include "examples/plate.hpp"

#include <gtest/gtest.h>

#include <cstring>

namespace {

using plate::band_t;

// Computes `steps` steps with `n` bands; answers whether the bits are those of one band alone.
bool same_as_alone(int n, int steps, bool exchange) {
  band_t alone(0, 1);
  std::vector<band_t> bands;
  for (int rank = 0; rank < n; ++rank) bands.emplace_back(rank, n);
  for (int step = 0; step < steps; ++step) {
    alone.advance(step);
    for (int rank = 0; exchange && rank < n; ++rank) {
      band_t& mine = bands[static_cast<size_t>(rank)];
      for (const plate::neighbour_t& to : plate::neighbours(rank, n)) {
        band_t& theirs = bands[static_cast<size_t>(to.rank)];
        const size_t halo = to.rank < rank ? theirs.rows + 1 : 0;
        std::memcpy(theirs.row(step, halo), mine.row(step, to.edge), plate::row_bytes());
      }
    }
    for (band_t& band : bands) band.advance(step);
  }
  for (int rank = 0; rank < n; ++rank) {
    band_t& band = bands[static_cast<size_t>(rank)];
    if (std::memcmp(band.row(steps, 1), alone.row(steps, plate::first_row(rank, n) + 1),
                    band.rows * plate::row_bytes()) != 0) {
      return false;
    }
  }
  return true;
}

TEST(plate, bands_with_halos_compute_the_bits_of_one_plate) {
  plate::size = 61;
  for (const int n : {1, 2, 3, 4, 7}) EXPECT_TRUE(same_as_alone(n, 50, true)) << n;
}

TEST(plate, a_missing_halo_shows) {
  plate::size = 61;
  EXPECT_FALSE(same_as_alone(4, 50, false));
}

TEST(plate, rows_of__sum_up_to_the_whole) {
  plate::size = 10;
  size_t rows = 0;
  for (int rank = 0; rank < 4; ++rank) rows += plate::rows_of(rank, 4);
  EXPECT_EQ(rows, plate::size);
}

}  // namespace
