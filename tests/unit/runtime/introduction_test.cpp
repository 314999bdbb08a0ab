// Ranks that would not understand each other are told apart before the first message.
#include "lci/runtime/introduction.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lci/errors.hpp"

namespace lci::runtime {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string refusal(std::string_view said) {
  try {
    return "accepted: " + address_in(said, 3, 5, "ibv");
  } catch (const backend_error& why) {
    return why.what();
  }
}

TEST(introduction, address__comes_out_as_it_went_in) {
  for (const char* address : {"", "ibv1:00ff", "with blanks in it"})
    EXPECT_EQ(address_in(introduce(5, "ibv", address), 3, 5, "ibv"), address);
}

TEST(introduction, other_version_or_network__is_named) {
  EXPECT_THAT(refusal(introduce(6, "ibv", "x")),
              AllOf(HasSubstr("rank 3"), HasSubstr("\"6 ibv\""), HasSubstr("\"5 ibv\"")));
  EXPECT_THAT(refusal(introduce(5, "shm", "x")),
              AllOf(HasSubstr("\"5 shm\""), HasSubstr("\"5 ibv\"")));
  EXPECT_THAT(refusal(introduce(55, "ibv", "x")), HasSubstr("\"55 ibv\""));
}

TEST(introduction, what_makes_no_sense__is_refused) {
  for (const char* said : {"", "5", "5 ", "5 ibv", "ibv 5 x", " 5 ibv x"})
    EXPECT_THAT(refusal(said), HasSubstr("has opened")) << said;
}

}  // namespace
}  // namespace lci::runtime
