#include "lci/share/owner_link.hpp"

#include <fcntl.h>
#include <sys/prctl.h>

#include <cerrno>
#include <cstring>

#include "lci/share/imports.hpp"
#include "tests/support/leak_guard.hpp"
#include "tests/unit/share/owner_process.hpp"

namespace lci::share {
namespace {

template <int error>
int fails(int, int) {
  errno = error;
  return -1;
}
template <int error>
int fails(int) {
  errno = error;
  return -1;
}

// A system that lets nobody reach into another process by the first way, or by the second.
owner_calls without_pidfd() {
  owner_calls calls = system_owner_calls();
  calls.open_process = &fails<ENOSYS>;
  return calls;
}
owner_calls without_getfd() {
  owner_calls calls = system_owner_calls();
  calls.fetch = &fails<EPERM>;
  return calls;
}
owner_calls by_socket_only() {
  owner_calls calls = without_getfd();
  calls.open_file = &fails<EACCES>;
  return calls;
}

void offer(talk t, bool serves) {
  if (serves) buffer::serve();
  buffer b = buffer::create(PAGE);
  std::strcpy(static_cast<char*>(b.data()), "hello");
  t.say(b.export_handle());
  while (!t.hear().empty()) {
    b.revoke();
    t.say("revoked");
  }
  buffer::stop_serving();
}

struct tried {
  std::string how, text;
};
tried try_with(const owner_calls& calls, const std::string& bytes) {
  imports all(calls);
  std::size_t offset = 0, size = 0;
  const auto memory = all.open(bytes, offset, size);
  memory->check();
  return {memory->how, reinterpret_cast<char*>(memory->at)};
}

TEST(owner_link_test, fetch__each_way_that_the_system_leaves) {
  owner_process owner([](talk t) { offer(t, true); });
  const std::string bytes = owner.with().hear();
  const test::leak_guard guard;
  const auto expect_way = [&](const owner_calls& calls, const char* way) {
    const tried got = try_with(calls, bytes);
    EXPECT_EQ(got.text, "hello");
    EXPECT_TRUE(got.how.ends_with(way)) << got.how;
  };
  expect_way(system_owner_calls(), "by pidfd_getfd");
  expect_way(without_pidfd(), "by /proc");
  expect_way(without_getfd(), "by /proc");
  expect_way(by_socket_only(), "by its socket");
}

// One that lets nobody look at it belongs to the administrator, as the kernel lists it.
TEST(owner_link_test, fetch__an_owner_that_lets_nobody_look_serves) {
  owner_process owner([](talk t) {
    ASSERT_EQ(prctl(PR_SET_DUMPABLE, 0), 0);
    offer(t, true);
  });
  const std::string bytes = owner.with().hear();
  EXPECT_EQ(try_with(by_socket_only(), bytes).text, "hello");
}

TEST(owner_link_test, fetch__no_way_is_named_with_its_remedy) {
  owner_process owner([](talk t) { offer(t, false); });
  const std::string bytes = owner.with().hear();
  const test::leak_guard guard;
  try {
    try_with(by_socket_only(), bytes);
    FAIL();
  } catch (const buffer_error& error) {
    EXPECT_EQ(error.fault(), buffer_fault::unreachable);
    EXPECT_NE(std::strstr(error.what(), "ptrace_scope"), nullptr) << error.what();
    EXPECT_NE(std::strstr(error.what(), "buffer::serve()"), nullptr) << error.what();
  }
}

TEST(owner_link_test, fetch__what_went_wrong_is_the_fault) {
  owner_process owner([](talk t) { offer(t, false); });
  const std::string bytes = owner.with().hear();
  const test::leak_guard guard;
  const auto fault = [&](int (*fetch)(int, int)) {
    owner_calls calls = system_owner_calls();
    calls.fetch = fetch;
    return fault_of([&] { try_with(calls, bytes); });
  };
  EXPECT_EQ(fault(&fails<ESRCH>), buffer_fault::owner_gone);
  EXPECT_EQ(fault(&fails<EMFILE>), buffer_fault::no_room);
  EXPECT_EQ(fault(&fails<EBADF>), buffer_fault::forged);
}

// However few are free, by each way: never another fault. Once there are enough it succeeds.
TEST(owner_link_test, fetch__too_few_free_descriptors_are_no_room) {
  owner_process owner([](talk t) { offer(t, true); });
  const std::string bytes = owner.with().hear();
  owner_process importer([&](talk) {
    for (const owner_calls& calls :
         {system_owner_calls(), without_pidfd(), without_getfd(), by_socket_only()}) {
      bool is_done = false;
      for (std::size_t left = 0; left < 10 && !is_done; ++left) {
        const full_descriptors full(left);
        try {
          EXPECT_EQ(try_with(calls, bytes).text, "hello");
          is_done = true;
        } catch (const buffer_error& error) {
          EXPECT_EQ(error.fault(), buffer_fault::no_room) << left << ": " << error.what();
        }
      }
      EXPECT_TRUE(is_done);
    }
  });
}

// The number was closed and is another's by the time that it is fetched.
TEST(owner_link_test, take_memory__withdrawn_meanwhile) {
  static owner_process* current = nullptr;
  owner_process owner([](talk t) { offer(t, false); });
  current = &owner;
  const std::string bytes = owner.with().hear();
  static int calls_made = 0;
  calls_made = 0;
  owner_calls calls = system_owner_calls();
  calls.fetch = [](int process, int number) {
    if (++calls_made == 2) {
      current->with().say("revoke");
      current->with().hear();
    }
    return system_owner_calls().fetch(process, number);
  };
  EXPECT_EQ(fault_of([&] { try_with(calls, bytes); }), buffer_fault::stale);
  EXPECT_EQ(calls_made, 2);
}

// By the time that the memory is fetched its owner has started another program, which also shares
// buffers: every number names a descriptor of that one.
TEST(owner_link_test, take_memory__of_another_program) {
  static const published_page* of_another = nullptr;
  static int calls_made = 0;
  owner_process owner([](talk t) { offer(t, false); });
  const std::string bytes = owner.with().hear();
  const published_page other;
  of_another = &other;
  calls_made = 0;
  owner_calls calls = system_owner_calls();
  calls.fetch = [](int process, int number) {
    if (++calls_made == 3) return fcntl(of_another->fd(), F_DUPFD_CLOEXEC, 0);
    return system_owner_calls().fetch(process, number);
  };
  const test::leak_guard guard;
  EXPECT_EQ(fault_of([&] { try_with(calls, bytes); }), buffer_fault::forged);
  EXPECT_EQ(calls_made, 3);
}

// Before each of the steps of an import, by each way.
TEST(owner_link_test, open__an_owner_that_ends_at_each_step) {
  static owner_process* current = nullptr;
  static int step = 0, last = 0;
  static const auto pass = [] {
    if (++step == last) current->kill();
  };
  owner_calls direct = system_owner_calls(), around = system_owner_calls();
  direct.open_process = [](int pid) {
    pass();
    return system_owner_calls().open_process(pid);
  };
  direct.fetch = [](int process, int number) {
    pass();
    return system_owner_calls().fetch(process, number);
  };
  around.open_process = &fails<ENOSYS>;
  around.open_file = [](int pid, int number) {
    pass();
    return system_owner_calls().open_file(pid, number);
  };
  owner_calls served = around;
  served.open_file = [](int, int) {
    pass();
    errno = EACCES;
    return -1;
  };
  for (const owner_calls* const calls : {&direct, &around, &served}) {
    for (last = 1; last <= (calls == &direct ? 4 : 3); ++last) {
      owner_process owner([&](talk t) { offer(t, calls == &served); });
      current = &owner;
      step = 0;
      const std::string bytes = owner.with().hear();
      const test::leak_guard guard;
      const std::size_t mapped = count_mappings();
      EXPECT_EQ(fault_of([&] { try_with(*calls, bytes); }), buffer_fault::owner_gone) << last;
      EXPECT_EQ(step, last);
      EXPECT_EQ(count_mappings(), mapped);
    }
  }
}

// What is opened by its place in /proc is nothing that could wait or have effects.
TEST(owner_link_test, open_file__only_our_files) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const base::descriptor out(ends[0]), in(ends[1]);
  const base::descriptor null(open("/dev/null", O_RDWR | O_CLOEXEC));
  for (const int fd : {out.get(), in.get(), null.get(), 100000})
    EXPECT_EQ(system_owner_calls().open_file(getpid(), fd), -1);
}

TEST(owner_link_test, is_alive__without_process_descriptors) {
  owner_process owner([](talk t) { offer(t, false); });
  const std::string bytes = owner.with().hear();
  const owner_calls calls = without_pidfd();
  const auto link = owner_link::open(handle::decode(bytes), calls);
  EXPECT_TRUE(link->is_alive());
  owner.kill();
  EXPECT_FALSE(link->is_alive());
}

}  // namespace
}  // namespace lci::share
