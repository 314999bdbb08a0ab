// Memory of a process that has forked.
#include <sys/wait.h>
#include <unistd.h>

#include <memory>

#include "ends.hpp"
#include "lci/transport/core.hpp"
#include "lci/transport/memory_table.hpp"

namespace lci::transports::test {
namespace {

class memory_test : public room_test {};

// As if a thread of the parent had held the lock of a transport.
TEST_F(memory_test, fork__its_end_in_the_child_takes_no_lock) {
  const auto one = std::make_shared<core>(transport_options());
  char bytes[8] = {};
  auto there = std::make_unique<memory>(bytes, sizeof bytes);
  memory_state::of(there->view())->used_by(one);
  int status = -1;
  one->look([&] {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(120);
      there.reset();
      ::_exit(0);
    }
    ::waitpid(child, &status, 0);
  });
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  one->shut_down();
}

}  // namespace
}  // namespace lci::transports::test
