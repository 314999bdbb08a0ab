#include "lci/net/connected/null_sink.hpp"

#include <gtest/gtest.h>

namespace lci::net::connected {
namespace {

TEST(null_sink, message__counts_as_taken) {
  EXPECT_EQ(null_sink().on_message(arrival{}), verdict::taken);
}

TEST(null_sink, all_else__leaves_no_trace_and_there_is_one) {
  null_sink().on_immediate(1, 2);
  null_sink().on_complete(nullptr);
  null_sink().on_error(1, nullptr, "lost");
  null_sink().on_peer_ended(1, false, "lost");
  EXPECT_EQ(&null_sink(), &null_sink());
}

}  // namespace
}  // namespace lci::net::connected
