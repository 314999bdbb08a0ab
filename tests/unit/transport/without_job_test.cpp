// What a program reads that knows neither ranks nor a job.
#include "lci/transport/without_job.hpp"

#include <gtest/gtest.h>

#include "lci/errors.hpp"

namespace lci::transports {
namespace {

TEST(without_job, text__of_this_side_and_the_peer) {
  EXPECT_EQ(without_job("rank 1 is lost: cancelled: the connection had failed before", 0),
            "cancelled: the connection had failed before");
  EXPECT_EQ(without_job("rank 0 is lost: its process has ended", 1), "its process has ended");
  EXPECT_EQ(without_job("rank 0 opened \"ofi\"; this rank opened \"ibv\": all ranks of a job need "
                        "the same version",
                        1),
            "the peer opened \"ofi\"; this side opened \"ibv\": both ends need the same version");
  EXPECT_EQ(without_job("a copy for rank 1 failed at rank 0", 0),
            "a copy for the peer failed at this side");
  EXPECT_EQ(without_job("it does not know the key of this job", 0),
            "it does not know the key of this connection");
}

TEST(without_job, text__other_words_stay) {
  for (const char* text : {"", "rank", "rank 10", "frank 1", "rank 1st", "no ranks"})
    EXPECT_EQ(without_job(text, 0), text);
}

template <class Error>
std::string text_of(const std::exception_ptr& one) {
  try {
    std::rethrow_exception(one);
  } catch (const Error& e) {
    return typeid(e) == typeid(Error) ? e.what() : "a derived type";
  } catch (...) {
    return "another type";
  }
}

TEST(without_job, error__has_the_same_type) {
  struct of_its_own : backend_error {
    using backend_error::backend_error;
  };
  const std::string before = "memory of rank 1", after = "memory of the peer";
  const auto changed = [](const auto& e) { return without_job(std::make_exception_ptr(e), 0); };
  EXPECT_EQ(text_of<argument_error>(changed(argument_error(before))), after);
  EXPECT_EQ(text_of<backend_error>(changed(backend_error(before))), after);
  EXPECT_EQ(text_of<std::runtime_error>(changed(std::runtime_error(before))), after);
  EXPECT_EQ(text_of<peer_failure_error>(changed(peer_failure_error(1, before))), after);
  EXPECT_EQ(text_of<of_its_own>(changed(of_its_own(before))), before);
  EXPECT_EQ(text_of<std::bad_alloc>(changed(std::bad_alloc())), std::bad_alloc().what());
  EXPECT_EQ(without_job(std::exception_ptr(), 0), nullptr);
}

}  // namespace
}  // namespace lci::transports
