#include "lci/share/server.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/un.h>

#include <csignal>
#include <cstring>
#include <fstream>

#include "tests/support/leak_guard.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/unit/share/owner_process.hpp"

namespace lci::share {
namespace {

// A socket, connected to a server of that name or bound to it.
template <class Call>
base::descriptor socket_of(std::uint64_t name, Call&& call) {
  base::descriptor fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const int length = std::snprintf(address.sun_path + 1, 40, "lci-buffer-%016llx",
                                   static_cast<unsigned long long>(name));
  EXPECT_EQ(call(fd.get(), reinterpret_cast<sockaddr*>(&address),
                 static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 +
                                        static_cast<std::size_t>(length))),
            0);
  return fd;
}
base::descriptor call_server(std::uint64_t name) { return socket_of(name, &connect); }

// Whether the process waits in a call, by its first thread.
bool is_asleep(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  return text[text.rfind(')') + 2] == 'S';
}

// Where a handler tells that it ran.
int interrupted_fd = -1;
void tell_interrupted(int) { [[maybe_unused]] const ssize_t told = write(interrupted_fd, "x", 1); }

class server_test : public testing::Test {
 protected:
  // With an answer, so that the thread has started before a test forks.
  server_test() : handle_(handle::decode(mine_.export_handle())) {
    start_server();
    EXPECT_TRUE(ask_server(handle_, why_not_).page);
  }
  ~server_test() override { stop_server(); }

  test::leak_guard* guard() { return &guard_; }
  buffer mine_ = buffer::create(PAGE);
  const handle handle_;
  std::string why_not_;

 private:
  test::leak_guard guard_;
};

TEST_F(server_test, ask_server__gives_descriptors_for_what_is_out) {
  const server_answer got = ask_server(handle_, why_not_);
  EXPECT_EQ(got.found, verdict::same);
  EXPECT_TRUE(got.page);
  EXPECT_TRUE(got.memory);
  EXPECT_EQ(open_page(got.page.get()).compare(handle_), verdict::same);
}

TEST_F(server_test, ask_server__forged_and_stale_get_none) {
  handle bad = handle_;
  bad.tag[0] ^= 1;
  const server_answer forged = ask_server(bad, why_not_);
  EXPECT_EQ(forged.found, verdict::forged);
  EXPECT_FALSE(forged.page);
  mine_.revoke();
  const server_answer stale = ask_server(handle_, why_not_);
  EXPECT_EQ(stale.found, verdict::stale);
  EXPECT_FALSE(stale.page);
}

TEST_F(server_test, ask_server__another_process_at_the_name_is_not_believed) {
  handle of_other = handle_;
  ++of_other.pid;
  const server_answer got = ask_server(of_other, why_not_);
  EXPECT_FALSE(got.page);
  EXPECT_NE(why_not_.find("another process"), std::string::npos);
}

TEST_F(server_test, ask_server__without_free_descriptors_is_no_room) {
  owner_process importer([&](talk) {
    // For its socket, the page and the memory.
    for (std::size_t left = 0; left < 3; ++left) {
      const full_descriptors full(left);
      EXPECT_EQ(fault_of([&] { ask_server(handle_, why_not_); }), buffer_fault::no_room) << left;
    }
    EXPECT_TRUE(ask_server(handle_, why_not_).memory) << why_not_;
  });
}

// One that has asked is interrupted in its wait for the answer, again and again.
TEST_F(server_test, ask_server__a_signal_ends_no_wait) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const base::descriptor told(ends[0]), teller(ends[1]);
  interrupted_fd = teller.get();
  struct sigaction handling {
  }, before{};
  handling.sa_handler = &tell_interrupted;
  handling.sa_flags = SA_RESTART;  // which helps nothing where a wait has a limit
  ASSERT_EQ(sigaction(SIGUSR1, &handling, &before), 0);
  handle asked = handle_;
  fill_random(&asked.socket, sizeof(asked.socket));
  {
    owner_process server([&](talk t) {
      const base::descriptor listener = socket_of(asked.socket, &bind);
      ASSERT_EQ(listen(listener.get(), 1), 0);
      t.say("here");
      const base::descriptor peer(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
      std::string question(handle::BYTES, '\0');
      ASSERT_EQ(recv(peer.get(), question.data(), question.size(), MSG_WAITALL),
                static_cast<ssize_t>(handle::BYTES));
      for (int i = 0; i < 3; ++i) {
        while (!is_asleep(getppid())) sched_yield();
        ASSERT_EQ(kill(getppid(), SIGUSR1), 0);
        char one = 0;
        ASSERT_EQ(read(told.get(), &one, 1), 1);
      }
      const auto found = static_cast<std::uint32_t>(verdict::stale);
      EXPECT_EQ(send(peer.get(), &found, sizeof(found), MSG_NOSIGNAL),
                static_cast<ssize_t>(sizeof(found)));
    });
    asked.pid = static_cast<std::uint32_t>(server.pid());
    ASSERT_EQ(server.with().hear(), "here");
    EXPECT_EQ(ask_server(asked, why_not_).found, verdict::stale) << why_not_;
  }
  EXPECT_EQ(sigaction(SIGUSR1, &before, nullptr), 0);
}

TEST_F(server_test, ask_server__nobody_serves) {
  stop_server();
  EXPECT_FALSE(is_serving());
  EXPECT_FALSE(ask_server(handle_, why_not_).page);
  EXPECT_NE(why_not_.find("buffer::serve()"), std::string::npos);
  start_server();
  EXPECT_TRUE(ask_server(handle_, why_not_).page);
}

TEST_F(server_test, stop_server__a_child_of_fork_does_not_keep_the_name) {
  owner_process child([](talk t) {
    t.say("here");
    t.hear();
  });
  ASSERT_EQ(child.with().hear(), "here");
  stop_server();
  EXPECT_FALSE(ask_server(handle_, why_not_).page);
  EXPECT_NE(why_not_.find("buffer::serve()"), std::string::npos) << why_not_;
  start_server();
  EXPECT_TRUE(ask_server(handle_, why_not_).page) << why_not_;
}

TEST_F(server_test, start_server__twice_is_once_and_a_child_starts_its_own) {
  start_server();
  EXPECT_TRUE(is_serving());
  if (test::IS_SANITIZED) GTEST_SKIP() << "sanitizers allow no thread in a child of fork()";
  owner_process child([](talk t) {
    EXPECT_FALSE(is_serving());
    stop_server();
    buffer b = buffer::create(PAGE);
    const std::size_t before = test::open_descriptors().size();
    buffer::serve();
    EXPECT_TRUE(is_serving());
    t.say(b.export_handle());
    t.hear();
    buffer::stop_serving();
    EXPECT_EQ(test::open_descriptors().size(), before - 2);  // those of its parent's server
  });
  const handle childs = handle::decode(child.with().hear());
  EXPECT_TRUE(ask_server(childs, why_not_).memory) << why_not_;
}

// Silent, half-said and nonsense: each is given up within its limit, and the next one is served.
TEST_F(server_test, server__outlives_bad_callers) {
  const base::descriptor silent = call_server(handle_.socket);
  const base::descriptor half = call_server(handle_.socket);
  ASSERT_EQ(send(half.get(), "lcibuf01", 8, MSG_NOSIGNAL), 8);
  const base::descriptor nonsense = call_server(handle_.socket);
  const std::string garbage(handle::BYTES, 'x');
  ASSERT_EQ(send(nonsense.get(), garbage.data(), garbage.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(garbage.size()));
  call_server(handle_.socket);  // and is gone at once
  EXPECT_TRUE(ask_server(handle_, why_not_).memory) << why_not_;
  std::uint32_t verdict_of_nonsense = 0;
  EXPECT_EQ(recv(nonsense.get(), &verdict_of_nonsense, 4, MSG_WAITALL), 4);
  EXPECT_EQ(verdict_of_nonsense, static_cast<std::uint32_t>(verdict::forged));
}

TEST_F(server_test, server__another_user_learns_nothing) {
  if (geteuid() != 0) GTEST_SKIP() << "only the administrator can become another user";
  owner_process other([&](talk) {
    ASSERT_EQ(setresuid(65534, 65534, 65534), 0);
    const base::descriptor fd = call_server(handle_.socket);
    const std::string bytes = handle_.encode();
    // It may have hung up already.
    [[maybe_unused]] const ssize_t sent = send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    char answer[8];
    EXPECT_LE(recv(fd.get(), answer, sizeof(answer), 0), 0);
  });
}

}  // namespace
}  // namespace lci::share
