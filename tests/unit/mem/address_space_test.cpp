// Where the address space is limited: shares that leave room for all, and words that name the
// limit.
#include "lci/mem/address_space.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "lci/errors.hpp"
#include "lci/mem/arena.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/support/sizes.hpp"

namespace lci::mem {
namespace {

using lci::test::MIB;

TEST(address_space, fair_reserve__leaves_a_place_for_each_peer_and_for_more_runtimes) {
  constexpr std::size_t GIB = 1024 * MIB;
  const auto share = [](std::size_t limit, std::size_t used, int ranks) {
    return fair_reserve({limit, used}, ranks, 16 * MIB, 16 * GIB);
  };
  EXPECT_EQ(share(0, GIB, 2), 16 * GIB) << "no limit";
  EXPECT_EQ(share(1000 * MIB, 200 * MIB, 2), 100 * MIB);
  EXPECT_EQ(share(1000 * MIB, 200 * MIB, 1000), 16 * MIB);
  EXPECT_EQ(share(100 * MIB, 200 * MIB, 2), 16 * MIB);
  EXPECT_EQ(share(1000 * GIB, 0, 1), 16 * GIB);
  // Two runtimes, the second made when nobody has met anybody: half is left when all have.
  for (const int ranks : {1, 2, 4}) {
    const std::size_t first = share(1000 * MIB, 200 * MIB, ranks);
    const std::size_t second = share(1000 * MIB, 200 * MIB + first, ranks);
    EXPECT_LE((first + second) * static_cast<std::size_t>(ranks), 400 * MIB) << ranks;
    EXPECT_GE(second, first * 3 / 4) << ranks;
  }
}

// In a process of its own, which has little room left.
int try_with_a_limit() {
  if (find_address_space().limit == 0 && !limit_text(find_address_space()).empty()) return 1;
  const rlimit wide{RLIM_INFINITY - 1, RLIM_INFINITY};
  setrlimit(RLIMIT_AS, &wide);
  const std::size_t limit = find_address_space().used + 400 * MIB;
  const rlimit narrow{limit, limit};
  setrlimit(RLIMIT_AS, &narrow);
  const address_space now = find_address_space();
  if (now.limit != limit || now.used == 0 || now.used > limit) return 2;
  const std::size_t fair = fair_reserve(now, 2, arena::LEAST_SHARE, arena::DEFAULT_RESERVE);
  const arena mine(fair);
  const std::size_t fair_again =
      fair_reserve(find_address_space(), 2, arena::LEAST_SHARE, arena::DEFAULT_RESERVE);
  const arena mine_again(fair_again), like_that_of_a_peer(fair), and_again(fair_again);
  if (mine.reserved() < 48 * MIB || and_again.reserved() < 40 * MIB) return 3;
  try {
    // Halved until it fits; the last one does not.
    arena more, and_more, no_more(arena::DEFAULT_RESERVE), last, very_last;
    return 4;
  } catch (const backend_error& e) {
    const std::string text = "limited to " + std::to_string(limit >> 20) + " MiB (ulimit -v";
    return std::string(e.what()).find(text) != std::string::npos ? 0 : 5;
  }
}

TEST(address_space, limit__is_kept_to_and_named_where_it_does_not_suffice) {
  if (lci::test::IS_SANITIZED) GTEST_SKIP() << "sanitizers take all of the address space";
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) _exit(try_with_a_limit());
  int status = -1;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace lci::mem
