#include "lci/wqe/status.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace {

using lci::wqe::status;
using lci::wqe::text_of;

TEST(status, text__each_has_its_own) {
  std::set<std::string> texts;
  int known = 0;
  for (int code = 0; code > -64; --code) {
    const std::string text = text_of(static_cast<status>(code));
    if (text == "an unknown status") continue;
    ++known;
    EXPECT_TRUE(texts.insert(text).second) << text;
  }
  EXPECT_EQ(known, 35);
}

}  // namespace
