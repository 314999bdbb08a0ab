// A child of fork() that has a transport of its parent.
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <vector>

#include "both_ends.hpp"

namespace transport_test {
namespace {

TEST(forked, the_child_is_refused_and_its_end_is_not_noticed) {
  both_ends e;
  e.connect();
  lci::transport other(usual());
  const std::string url = other.bind();
  std::uint8_t byte = 1, there = 0;
  lci::memory source(&byte, 1);
  auto target = std::make_unique<lci::memory>(&there, 1);
  const std::string key = target->remote_key();
  ASSERT_TRUE(e.run_both(e.a.write(source.view(), target->remote())));
  const lci::transfer note = e.a.next_write();
  lci::transport::peer peer = e.a.peers().front();
  lci::key_options another;
  another.valid_s = 600;
  const lci::remote_buffer known = target->remote(), unknown = target->remote(another);
  lci::transfer_options notify;
  notify.notify = true;
  const std::vector<std::function<void()>> calls = {
      [&] { e.a.bind(); },
      [&] { e.a.connect(url); },
      [&] { e.a.accept(); },
      [&] { e.a.peers(); },
      [&] { e.a.connected(); },
      [&] { e.a.next_write(); },
      [&] { e.a.describe(); },
      [&] { e.a.close(); },
      [&] { note.cancel(); },
      [&] { peer.connected(); },
      [&] { peer.why_closed(); },
      [&] { peer.describe(); },
      [&] { peer.close(); },
      [&] { target->remote_key(); },
      [&] { target->revoke(key); },
      [&] { target->revoke(); },
      [&] { e.a.write(source.view(), known); },
      [&] { e.a.write(source.view(), unknown); },
      [&] { peer.read(source.view(), known); },
      [&] { e.a.submit(lci::transport::batch(), notify); },
      [&] { lci::memory(&there, 1); },
  };
  const pid_t child = ::fork();
  if (child == 0) {
    int number = 1;  // of the call that is not refused
    for (const auto& call : calls) {
      try {
        call();
        ::_exit(number);
      } catch (const lci::argument_error&) {
        ++number;
      }
    }
    target.reset();
    ::_exit(0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 0);
  there = 0;
  e.b.write(source.view(), target->remote(), true, 7);
  ASSERT_TRUE(e.run_both(note));
  EXPECT_EQ(note.note().tag, 7u);
  EXPECT_EQ(there, 1);
}

}  // namespace
}  // namespace transport_test
