// A check that cannot fail is decoration: these helpers show that a guard reports what it is there
// for.
//
// Used inside tests: EXPECT_TRUE(must_fire([&] { guard.check(); }, "packet")). Threads: failures of
// every thread are caught while the body runs, so nothing else may test at that time. Always true:
// a failure that the body reports does not fail the surrounding test; a body that reports none, or
// another one, does.
#pragma once

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>

namespace lci::test {

// True when `body` reports at least one test failure whose text contains `text`.
inline testing::AssertionResult must_fire(const std::function<void()>& body,
                                          std::string_view text) {
  testing::TestPartResultArray results;
  {
    testing::ScopedFakeTestPartResultReporter catcher(
        testing::ScopedFakeTestPartResultReporter::INTERCEPT_ALL_THREADS, &results);
    body();
  }
  std::string seen;
  for (int i = 0; i < results.size(); ++i) {
    const testing::TestPartResult& part = results.GetTestPartResult(i);
    if (!part.failed()) continue;
    if (std::string_view(part.message()).find(text) != std::string_view::npos)
      return testing::AssertionSuccess();
    seen += std::string("\n  ") + part.message();
  }
  if (seen.empty()) return testing::AssertionFailure() << "the guard stayed silent";
  return testing::AssertionFailure() << "no failure mentions \"" << text << "\", only:" << seen;
}

// True when `body` throws an E whose text contains every one of `texts` (the argument's name, its
// value, the range).
template <class E>
testing::AssertionResult throws_with(const std::function<void()>& body,
                                     std::initializer_list<std::string_view> texts) {
  try {
    body();
  } catch (const E& error) {
    for (std::string_view text : texts) {
      if (std::string_view(error.what()).find(text) == std::string_view::npos) {
        return testing::AssertionFailure()
               << "\"" << text << "\" is missing from: " << error.what();
      }
    }
    return testing::AssertionSuccess();
  } catch (const std::exception& other) {
    return testing::AssertionFailure() << "another type was thrown: " << other.what();
  }
  return testing::AssertionFailure() << "nothing was thrown";
}

}  // namespace lci::test
