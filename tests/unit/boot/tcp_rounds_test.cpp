// What a rank of a tcp job does while it waits in a fence.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "lci/boot/tcp.hpp"
#include "tests/support/scoped_env.hpp"
#include "tests/unit/boot/free_port.hpp"
#include "tests/unit/boot/ranks.hpp"
#include "tests/unit/boot/rounds.hpp"

namespace lci::boot {
namespace {

// Rank 0, which serves the others, and one of these.
TEST(tcp_rounds, fence_with__are_made_while_it_waits) {
  for (const int late : {0, 1}) {
    SCOPED_TRACE(late);
    test::scoped_env vars;
    for (const char* name : {"LCT_PMI_TCP_KEY", "LCT_PMI_TCP_KEY_FILE", "LCT_MASTER_ADDR",
                             "LCT_MASTER_PORT", "LCI_MASTER_ADDR", "LCI_MASTER_PORT"})
      vars.unset(name);
    vars.set("MASTER_ADDR", "127.0.0.1");
    vars.set("MASTER_PORT", std::to_string(free_port()));
    vars.set("LCT_PMI_TCP_TIMEOUT_SEC", "20");
    vars.set("WORLD_SIZE", "2");
    const late_rank other(late);
    for (const rank_result& r : run_ranks(2, [&](int rank) {
           ::setenv("RANK", std::to_string(rank).c_str(), 1);
           return other.fence(*open_tcp());
         }))
      EXPECT_EQ(r.text, "ok");
  }
}

}  // namespace
}  // namespace lci::boot
