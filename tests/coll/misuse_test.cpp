// Wrong arguments: a typed error from the call, the same on every rank, and nothing sent or
// written. Each test ends with a collective that must still work.
#include <gmock/gmock.h>

#include <climits>

#include "tests/coll/data.hpp"
#include "tests/support/must_fire.hpp"

namespace lci::test {
namespace {

void expect_still_working() {
  const auto in = contribution(get_rank_me(), 10);
  std::vector<uint64_t> out(10);
  allreduce(in.data(), out.data(), 10, 8, add_u64);
  EXPECT_EQ(out, sum_of_all(10));
}

TEST(misuse, root_out_of_range) {
  uint64_t value = 5;
  const int n = get_rank_n();
  const std::string range = "0 to " + std::to_string(n - 1);
  for (const int root : {-1, n, n + 7}) {
    const std::string given = "root " + std::to_string(root);
    EXPECT_TRUE(throws_with<argument_error>([&] { broadcast(&value, 8, root); },
                                            {"broadcast", given, range}));
    EXPECT_TRUE(throws_with<argument_error>([&] { reduce(&value, &value, 1, 8, add_u64, root); },
                                            {"reduce", given, range}));
  }
  EXPECT_EQ(value, 5u);
  expect_still_working();
}

TEST(misuse, null_buffer_with_a_size) {
  uint64_t value = 5;
  const auto refused = [](const std::function<void()>& body, std::string_view argument) {
    return throws_with<argument_error>(body, {argument, "null", "bytes"});
  };
  EXPECT_TRUE(refused([&] { broadcast(nullptr, 8, 0); }, "buffer"));
  EXPECT_TRUE(refused([&] { reduce(nullptr, &value, 1, 8, add_u64, 0); }, "sendbuf"));
  EXPECT_TRUE(refused([&] { reduce(&value, nullptr, 1, 8, add_u64, get_rank_me()); }, "recvbuf"));
  EXPECT_TRUE(refused([&] { allreduce(nullptr, &value, 1, 8, add_u64); }, "sendbuf"));
  EXPECT_TRUE(refused([&] { allreduce(&value, nullptr, 1, 8, add_u64); }, "recvbuf"));
  EXPECT_TRUE(refused([&] { reduce_scatter(nullptr, &value, 1, 8, add_u64); }, "sendbuf"));
  EXPECT_TRUE(refused([&] { reduce_scatter(&value, nullptr, 1, 8, add_u64); }, "recvbuf"));
  EXPECT_TRUE(refused([&] { allgather(nullptr, &value, 8); }, "sendbuf"));
  EXPECT_TRUE(refused([&] { allgather(&value, nullptr, 8); }, "recvbuf"));
  EXPECT_TRUE(refused([&] { alltoall(nullptr, &value, 8); }, "sendbuf"));
  EXPECT_TRUE(refused([&] { alltoall(&value, nullptr, 8); }, "recvbuf"));
  expect_still_working();
}

TEST(misuse, null_buffer_without_a_size_is_legal) {
  broadcast(nullptr, 0, 0);
  reduce(nullptr, nullptr, 0, 8, add_u64, 0);
  allreduce(nullptr, nullptr, 0, 8, add_u64);
  reduce_scatter(nullptr, nullptr, 0, 8, add_u64);
  allgather(nullptr, nullptr, 0);
  alltoall(nullptr, nullptr, 0);
  expect_still_working();
}

TEST(misuse, null_operator) {
  uint64_t value = 5;
  EXPECT_TRUE(throws_with<argument_error>([&] { reduce(&value, &value, 1, 8, nullptr, 0); },
                                          {"reduce", "op"}));
  EXPECT_TRUE(throws_with<argument_error>([&] { allreduce(&value, &value, 1, 8, nullptr); },
                                          {"allreduce", "op"}));
  EXPECT_TRUE(throws_with<argument_error>([&] { reduce_scatter(&value, &value, 1, 8, nullptr); },
                                          {"reduce_scatter", "op"}));
  expect_still_working();
}

TEST(misuse, sizes_that_no_memory_has) {
  uint64_t value = 5;
  EXPECT_TRUE(throws_with<argument_error>(
      [&] { allreduce(&value, &value, SIZE_MAX / 4, 8, add_u64); }, {"allreduce", "do not fit"}));
  EXPECT_TRUE(throws_with<argument_error>(
      [&] { reduce_scatter(&value, &value, SIZE_MAX, 8, add_u64); }, {"do not fit"}));
  expect_still_working();
}

TEST(misuse, sizes_beyond_the_address_space) {
  uint64_t value = 5, other = 6;
  for (const size_t size : {SIZE_MAX, SIZE_MAX / 2, size_t{1} << 50}) {
    // Of one byte a rank, and of what all ranks have together.
    const auto refused = [](const std::function<void()>& body, const char* operation,
                            const std::string& text) {
      EXPECT_TRUE(throws_with<argument_error>(body, {operation, text})) << operation;
    };
    const std::string text = std::to_string(size);
    refused([&] { broadcast(&value, size, 0); }, "broadcast", text);
    refused([&] { reduce(&value, &other, size, 1, add_u64, 0); }, "reduce", text);
    refused([&] { allreduce(&value, &other, size, 1, add_u64); }, "allreduce", text);
    refused([&] { reduce_scatter(&value, &other, size, 1, add_u64); }, "reduce_scatter", "");
    refused([&] { allgather(&value, &other, size); }, "allgather", text);
    refused([&] { alltoall(&value, &other, size); }, "alltoall", "");
  }
  expect_still_working();
}

TEST(misuse, ring_steps_out_of_range) {
  uint64_t value = 5;
  // The default, whatever the number of ranks: with one rank n - 1 is 0.
  for (const int steps : {0, get_rank_n() - 1})
    broadcast_x(&value, 8, 0).ring_nsteps(steps).algorithm(broadcast_algorithm_t::ring)();
  EXPECT_TRUE(throws_with<argument_error>(
      [&] { allreduce_x(&value, &value, 1, 8, add_u64).ring_nsteps(-4)(); },
      {"allreduce", "ring_nsteps -4"}));
  for (const int steps : {(1 << 23) + 1, INT_MAX})
    EXPECT_TRUE(throws_with<argument_error>(
        [&] { broadcast_x(&value, 8, 0).ring_nsteps(steps)(); },
        {"broadcast", "ring_nsteps " + std::to_string(steps), "0 to 8388608"}));
  broadcast_x(&value, 8, 0).ring_nsteps(1 << 23)();
  expect_still_working();
}

TEST(misuse, algorithm_that_is_none) {
  uint64_t value = 5, other = 6;
  for (const int number : {4, 99, -1}) {
    const auto refused = [&](const char* name, const std::function<void()>& call) {
      EXPECT_TRUE(throws_with<argument_error>(
          call, {name, "algorithm " + std::to_string(number), "none (0)", "ring (3)"}));
    };
    refused("broadcast", [&] {
      broadcast_x(&value, 8, 0).algorithm(static_cast<broadcast_algorithm_t>(number))();
    });
    refused("allreduce", [&] {
      allreduce_x(&value, &other, 1, 8, add_u64)
          .algorithm(static_cast<allreduce_algorithm_t>(number))();
    });
    refused("reduce_scatter", [&] {
      std::vector<uint64_t> all(static_cast<size_t>(get_rank_n()));
      reduce_scatter_x(all.data(), &other, 1, 8, add_u64)
          .algorithm(static_cast<reduce_scatter_algorithm_t>(number))();
    });
  }
  expect_still_working();
}

TEST(misuse, alltoall_in_place) {
  uint64_t values[64] = {};
  EXPECT_TRUE(throws_with<argument_error>([&] { alltoall(values, values, 8); }, {"in place"}));
  expect_still_working();
}

}  // namespace
}  // namespace lci::test
