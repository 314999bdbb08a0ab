// What is measured, in what portions, and what the seats' results mean.
#include "tools/perf/plan.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

namespace lci_perf {
namespace {

const topology& two_cores() {
  static const topology here("/nowhere", {0, 1});
  return here;
}

std::vector<stage> plan(const std::vector<std::string>& words) {
  return make_plan(parse(words), two_cores(), {0, 1});
}

TEST(perf_plan, make_plan__the_headline) {
  const std::vector<stage> all = plan({});
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].kind, "near");
  EXPECT_EQ(all[0].place, "two cores (0 and 1)");
  EXPECT_EQ(all[0].processes.cpus, (std::vector{0, 1}));
  EXPECT_EQ(all[0].processes.largest, 1u << 20);
  ASSERT_EQ(all[0].rows.size(), 6u);
  EXPECT_EQ(all[0].rows[0].what, measure::latency);
  EXPECT_EQ(all[0].rows[5].size, 1u << 20);
}

TEST(perf_plan, make_plan__every_transport_with_every_number_of_pairs) {
  const std::vector<stage> all = plan({"rate", "--transport", "shm,ofi", "--pairs", "1,3"});
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[3].transport, "ofi");
  EXPECT_EQ(all[3].processes.pairs, 3);
  EXPECT_EQ(all[3].processes.cpus.size(), 6u);
  EXPECT_NE(all[3].note, "");  // three pairs on two processors
  EXPECT_EQ(all[0].note, "");
}

TEST(perf_plan, make_plan__places_that_are_not_there) {
  EXPECT_THROW(plan({"--placement", "other_node"}), std::invalid_argument);
  EXPECT_THROW(plan({"--placement", "0,7"}), std::invalid_argument);
  EXPECT_THROW(plan({"--placement", "0,"}), std::invalid_argument);
  EXPECT_EQ(plan({"--placement", "1,0"})[0].processes.cpus, (std::vector{1, 0}));
  EXPECT_THROW(plan({"--placement", "1,1"}), std::invalid_argument);
  EXPECT_THROW(plan({"--placement", "nearby"}), std::invalid_argument);
  EXPECT_THROW(make_plan(parse({"--placement", "nearby"}), topology("/nowhere", {4}), {4}),
               std::invalid_argument);
  EXPECT_EQ(plan({"--placement", "0,1"})[0].note, "");
  EXPECT_NE(plan({"--placement", "0,1", "--pairs", "2"})[0].note, "");
  const std::vector<stage> alone = make_plan(parse({}), topology("/nowhere", {4}), {4});
  EXPECT_EQ(alone[0].processes.cpus, (std::vector{4, 4}));
}

TEST(perf_plan, make_plan__every_size_of_every_operation) {
  EXPECT_EQ(plan({"bandwidth", "--op", "put,get", "--sizes", "8..64M"})[0].rows.size(), 48u);
  // A read has no answer that a computation could hide.
  EXPECT_EQ(plan({"overlap", "--op", "get,put", "--sizes", "1M"})[0].rows.size(), 1u);
  EXPECT_THROW(plan({"overlap", "--op", "get"}), std::invalid_argument);
}

TEST(perf_plan, make_order__counts_are_whole_windows) {
  for (const measure what :
       {measure::latency, measure::rate, measure::bandwidth, measure::overlap}) {
    for (const operation op :
         {operation::am, operation::sendrecv, operation::put, operation::get}) {
      for (const std::uint64_t size : {8u, 65536u, 64u << 20}) {
        for (const std::uint64_t count : {1u, 63u, 64u, 1000u}) {
          const order o = make_order({what, op, size, {}}, count);
          EXPECT_GE(o.count, count);
          ASSERT_GE(o.window, 1u);
          EXPECT_EQ(o.count % o.window, 0u);
          if (op == operation::sendrecv) {
            EXPECT_LE(o.window, MOST_IN_WINDOW);
          }
        }
      }
    }
  }
  EXPECT_EQ(make_order({measure::bandwidth, operation::put, 4 << 20, {}}, 64).window, 2u);
}

TEST(perf_plan, make_order__arrivals_of_a_stream_are_counted_in_time) {
  for (const operation op : {operation::am, operation::put, operation::get}) {
    EXPECT_LE(make_order({measure::rate, op, 1 << 20, {}}, 10'000).window, 64u);
    EXPECT_EQ(make_order({measure::rate, op, 64 << 20, {}}, 10'000).window, 1u);
  }
  EXPECT_EQ(make_order({measure::rate, operation::am, 8, {}}, 2'000'000).window, 1'000'000u);
}

// Two pairs, the second of which begins later.
std::vector<result> results() {
  return {{1000, 3000, 0, 0.5}, {1000, 3000, 100, 0}, {2000, 5000, 0, 0.7}, {2000, 5000, 100, 0}};
}

TEST(perf_plan, value_of__rates_are_from_the_first_begin_to_the_last_end) {
  const order o{measure::rate, operation::am, 8, 100, 100, 0};
  EXPECT_DOUBLE_EQ(value_of({measure::rate, operation::am, 8, {}}, o, results()), 200 * 1e3 / 4000);
  const order big{measure::bandwidth, operation::put, 4000, 100, 1, 0};
  EXPECT_DOUBLE_EQ(value_of({measure::bandwidth, operation::put, 4000, {}}, big, results()), 200.0);
}

TEST(perf_plan, value_of__latency_is_one_way_and_that_of_a_read_is_both) {
  const order o{measure::latency, operation::am, 8, 100, 1, 0};
  EXPECT_DOUBLE_EQ(value_of({measure::latency, operation::am, 8, {}}, o, results()), 12.5);
  EXPECT_DOUBLE_EQ(value_of({measure::latency, operation::get, 8, {}}, o, results()), 25.0);
  EXPECT_DOUBLE_EQ(value_of({measure::overlap, operation::am, 8, {}}, o, results()), 60.0);
}

TEST(perf_plan, expected_of__what_must_arrive) {
  const order o{measure::latency, operation::am, 8, 100, 1, 0};
  EXPECT_EQ(expected_of({measure::latency, operation::am, 8, {}}, o, 3), 600u);
  EXPECT_EQ(expected_of({measure::latency, operation::get, 8, {}}, o, 3), 300u);
  EXPECT_EQ(expected_of({measure::rate, operation::am, 8, {}}, o, 3), 300u);
  EXPECT_EQ(messages_of(results()), 200u);
}

}  // namespace
}  // namespace lci_perf
