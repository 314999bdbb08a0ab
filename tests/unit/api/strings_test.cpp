// Names of enumerators: every one of them, and what a foreign value yields.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "lci.hpp"

namespace {

// Names of the values first, first + 1, ... as many as `names` has; the value after the last has
// none.
template <class Enum, class Str>
void expect_names(Str str, const std::vector<std::string>& names) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(str(static_cast<Enum>(i)), names[i]) << "value " << i;
  }
  EXPECT_STREQ(str(static_cast<Enum>(names.size())), "unknown");
}

const std::vector<std::string> ALGORITHMS = {"none", "direct", "tree", "ring"};

TEST(strings, errorcode__every_enumerator_has_its_name) {
  expect_names<lci::errorcode_t>(
      &lci::get_errorcode_str,
      {"done_min", "done", "done_backlog", "done_max", "posted_min", "posted", "posted_backlog",
       "posted_max", "retry_min", "retry", "retry_init", "retry_lock", "retry_nopacket",
       "retry_nomem", "retry_backlog", "retry_max", "fatal"});
}

TEST(strings, net_opcode__every_enumerator_has_its_name) {
  expect_names<lci::net_opcode_t>(&lci::get_net_opcode_str,
                                  {"SEND", "RECV", "WRITE", "REMOTE_WRITE", "READ", "ERROR"});
}

TEST(strings, algorithms__every_enumerator_has_its_name) {
  using lci::allreduce_algorithm_t;
  using lci::broadcast_algorithm_t;
  using lci::reduce_scatter_algorithm_t;
  expect_names<broadcast_algorithm_t>(&lci::get_broadcast_algorithm_str, ALGORITHMS);
  expect_names<allreduce_algorithm_t>(
      [](allreduce_algorithm_t a) { return lci::get_allreduce_algorithm_str(a); }, ALGORITHMS);
  expect_names<reduce_scatter_algorithm_t>(
      [](reduce_scatter_algorithm_t a) { return lci::get_reduce_scatter_algorithm_str(a); },
      ALGORITHMS);
}

TEST(strings, algorithms__also_answer_to_the_broadcast_enumeration) {
  EXPECT_STREQ(lci::get_allreduce_algorithm_str(lci::broadcast_algorithm_t::ring), "ring");
  EXPECT_STREQ(lci::get_reduce_scatter_algorithm_str(lci::broadcast_algorithm_t::tree), "tree");
}

TEST(strings, error__default_is_a_retry_of_its_own_kind) {
  lci::error_t error;
  EXPECT_TRUE(error.is_retry());
  EXPECT_STREQ(error.get_str(), "retry_init");
  error = lci::errorcode_t::posted;
  error.reset_retry();
  EXPECT_EQ(error.errorcode, lci::errorcode_t::retry_init);
}

TEST(strings, error__each_code_is_in_exactly_one_category_and_fences_in_none) {
  const std::set<std::string> fences = {"done_min",  "done_max",  "posted_min", "posted_max",
                                        "retry_min", "retry_max", "fatal"};
  for (int i = 0; i <= static_cast<int>(lci::errorcode_t::fatal); ++i) {
    const lci::error_t error = static_cast<lci::errorcode_t>(i);
    const int categories = error.is_done() + error.is_posted() + error.is_retry();
    EXPECT_EQ(categories, fences.count(error.get_str()) != 0 ? 0 : 1) << error.get_str();
  }
}

TEST(strings, status__constructors_fill_what_they_promise) {
  int context = 0;
  const lci::status_t done(static_cast<void*>(&context));
  EXPECT_TRUE(done.is_done());
  EXPECT_EQ(done.get_user_context(), &context);
  const lci::status_t empty;
  EXPECT_TRUE(empty.is_retry());
  EXPECT_EQ(empty.get_rank(), -1);
  EXPECT_EQ(empty.get_buffer(), nullptr);
}

}  // namespace
