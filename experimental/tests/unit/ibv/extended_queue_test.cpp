// Completion queues that are read field by field: the tests of completions for that kind, and the
// plain kind where the card offers no other.
#include "backends/ibv/extended_queue.hpp"

#include <cerrno>

#include "backends/ibv/completions.hpp"
#include "lci/errors.hpp"
#include "tests/unit/ibv/completions_world.hpp"

namespace lci::ibv {

INSTANTIATE_TEST_SUITE_P(extended_kinds, completions_test,
                         testing::Values(kind_of_queue{"extended", true, true},
                                         kind_of_queue{"not_offered", true, false}),
                         [](const auto& kind) { return kind.param.name; });

namespace {

TEST_F(on_a_card, completion_queue__that_cannot_be_extended_is_a_plain_one) {
  const chosen_port port = open_best_port({});
  environment_.set("LCI_IBV_EXTENDED_CQ", "1");
  card().fail_nth("ibv_create_cq_ex", 1, ENOMEM);
  completions queue(port, 10);
  ibv_wc out[4];
  EXPECT_EQ(queue.poll(out, 4), 0);
  EXPECT_EQ(card().count("poll_cq"), 1u);
  card().fail_nth("ibv_create_cq_ex", 1, ENOMEM);
  card().fail_nth("ibv_create_cq", 1, ENOMEM);
  EXPECT_THROW(completions(port, 10), backend_error);
}

}  // namespace
}  // namespace lci::ibv
