// The end of a link that has operations.
#include "lci/transport/link.hpp"

#include <gtest/gtest.h>

#include "lci/errors.hpp"

namespace lci::transports {
namespace {

// Is asked for the list of calls just before an operation ends.
struct watching_owner final : link_owner {
  void on_note(const notification&) override {}
  bool uses_gpu() const noexcept override { return false; }
  std::vector<operation::call>& calls() noexcept override {
    ++ends;
    if (watched != nullptr && !watched->is_done() && watched->is_quiet()) ++quiet_ends;
    return all;
  }
  std::shared_ptr<operation> watched;
  int ends = 0, quiet_ends = 0;
  std::vector<operation::call> all;
};

// Who sees that an operation is done may free its buffer at once.
TEST(link, end__operations_are_quiet_before_they_are_done) {
  watching_owner owner;
  const auto one = std::make_shared<link>(owner, std::weak_ptr<core>(), 0);
  owner.watched = std::make_shared<operation>(std::weak_ptr<core>());
  one->submit(owner.watched);
  one->end(nullptr, "closed by this side");
  EXPECT_EQ(owner.ends, 1);
  EXPECT_EQ(owner.quiet_ends, 1);
  EXPECT_TRUE(owner.watched->is_done());
  EXPECT_THROW(std::rethrow_exception(owner.watched->problem()), peer_failure_error);
}

}  // namespace
}  // namespace lci::transports
