#include "lci/match/make_engine.hpp"

#include <gtest/gtest.h>

#include <string>

#include "lci/errors.hpp"

TEST(make_engine, unknown_type__is_refused_with_its_value) {
  try {
    lci::match::make_engine(static_cast<lci::attr_matching_engine_type_t>(7));
    FAIL();
  } catch (const lci::argument_error& e) {
    EXPECT_NE(std::string(e.what()).find("7"), std::string::npos);
  }
}
