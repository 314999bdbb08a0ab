#include "lci/share/imports.hpp"

#include <fcntl.h>
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>

#include "lci/share/exports.hpp"
#include "tests/support/leak_guard.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/unit/share/owner_process.hpp"

namespace lci::share {
namespace {

// Offers one buffer and lives until the test ends.
void offer_one(talk t) {
  buffer b = buffer::create(3 * PAGE);
  buffer part = b.slice(100, 2 * PAGE);
  std::strcpy(static_cast<char*>(part.data()), "hello");
  t.say(part.export_handle());
  t.hear();
}

struct opened {
  std::shared_ptr<detail::buffer_memory> memory;
  std::size_t offset = 0, size = 0;
};
opened opened_by(imports& from, const std::string& bytes) {
  opened out;
  out.memory = from.open(bytes, out.offset, out.size);
  return out;
}

// The handle with one field changed and the checksum right.
template <class Change>
std::string forge(const std::string& bytes, Change&& change) {
  handle h = handle::decode(bytes);
  change(h);
  return h.encode();
}

TEST(imports_test, open__each_handle_once) {
  owner_process owner(&offer_one);
  const std::string bytes = owner.with().hear();
  imports all;
  const opened first = opened_by(all, bytes), second = opened_by(all, bytes);
  EXPECT_EQ(first.memory, second.memory);
  EXPECT_EQ(first.size, 2 * PAGE);
  EXPECT_STREQ(reinterpret_cast<char*>(first.memory->at), "hello");
  EXPECT_EQ(all.size(), 1u);
}

TEST(imports_test, open__each_forged_field_is_refused_by_its_fault) {
  owner_process owner(&offer_one);
  const std::string bytes = owner.with().hear();
  imports all;
  const test::leak_guard guard;
  const auto refused = [&](auto&& change) {
    return fault_of([&] { opened_by(all, forge(bytes, change)); });
  };
  EXPECT_EQ(refused([](handle& h) { h.boot[3] ^= 1; }), buffer_fault::other_machine);
  EXPECT_EQ(refused([](handle& h) { ++h.process_space; }), buffer_fault::other_machine);
  EXPECT_EQ(refused([](handle& h) { ++h.user; }), buffer_fault::other_user);
  EXPECT_EQ(refused([](handle& h) { ++h.start_time; }), buffer_fault::owner_gone);
  EXPECT_EQ(refused([](handle& h) { h.pid = 0x7ffffff0; }), buffer_fault::owner_gone);
  EXPECT_EQ(refused([](handle& h) { h.page_fd = 0; }), buffer_fault::forged);
  EXPECT_EQ(refused([](handle& h) { h.page_fd = 100000; }), buffer_fault::forged);
  EXPECT_EQ(refused([](handle& h) { h.page_fd = h.memory_fd; }), buffer_fault::forged);
  EXPECT_EQ(refused([](handle& h) { ++h.memory_fd; }), buffer_fault::forged);
  EXPECT_EQ(refused([](handle& h) { h.slot = 4095; }), buffer_fault::forged);
  EXPECT_EQ(refused([](handle& h) { h.slot = ~0u; }), buffer_fault::forged);
  EXPECT_EQ(refused([](handle& h) { ++h.serial; }), buffer_fault::forged);
  EXPECT_EQ(refused([](handle& h) { h.offset = 0; }), buffer_fault::forged);
  EXPECT_EQ(refused([](handle& h) { ++h.size; }), buffer_fault::forged);
  EXPECT_EQ(refused([](handle& h) { h.memory_size *= 2; }), buffer_fault::forged);
  EXPECT_EQ(refused([](handle& h) { h.tag[0] ^= 1; }), buffer_fault::forged);
  EXPECT_EQ(refused([](handle& h) { h.way = handle_way::gpu; }), buffer_fault::forged);
  EXPECT_EQ(refused([](handle& h) { h.socket ^= 1; }), buffer_fault::forged);
  EXPECT_EQ(all.size(), 0u);
}

// Somebody of this user who writes pages of his own can name only himself.
TEST(imports_test, open__another_process_cannot_be_named) {
  owner_process owner(&offer_one), other(&offer_one);
  const std::string bytes = owner.with().hear();
  const handle of_other = handle::decode(other.with().hear());
  imports all;
  EXPECT_EQ(fault_of([&] {
              opened_by(all, forge(bytes, [&](handle& h) {
                          h.pid = of_other.pid;
                          h.start_time = of_other.start_time;
                        }));
            }),
            buffer_fault::forged);
}

TEST(imports_test, open__process_of_another_user) {
  if (geteuid() != 0) GTEST_SKIP() << "only the administrator can become another user";
  owner_process owner(&offer_one);
  const std::string bytes = owner.with().hear();
  owner_process other([&](talk) {
    ASSERT_EQ(setresgid(65534, 65534, 65534), 0);
    ASSERT_EQ(setresuid(65534, 65534, 65534), 0);
    imports all;
    EXPECT_EQ(fault_of([&] { opened_by(all, bytes); }), buffer_fault::other_user);
    // One who says that it is his.
    EXPECT_EQ(fault_of([&] { opened_by(all, forge(bytes, [](handle& h) { h.user = 65534; })); }),
              buffer_fault::other_user);
  });
}

TEST(imports_test, open__not_the_memory_that_is_described) {
  // An owner that has published what it does not have: a file that can shrink.
  owner_process owner([](talk t) {
    const base::descriptor small(memfd_create("lci-buffer", MFD_CLOEXEC));
    ASSERT_EQ(ftruncate(small.get(), PAGE), 0);
    export_facts lie;
    lie.fields.way = handle_way::host_file;
    lie.fields.memory_fd = small.get();
    lie.fields.memory_size = lie.fields.size = 2 * PAGE;
    t.say(exports::of_process().publish(lie, nullptr, 0).encode());
    t.hear();
  });
  imports all;
  const std::string bytes = owner.with().hear();
  const test::leak_guard guard;
  EXPECT_EQ(fault_of([&] { opened_by(all, bytes); }), buffer_fault::forged);
}

// That nothing was learned for want of descriptors is not kept, and not taken for an answer:
// neither of this process, at its first import, nor of an owner.
TEST(imports_test, open__without_free_descriptors_is_no_room) {
  owner_process one(&offer_one), other(&offer_one);
  const std::string of_one = one.with().hear(), of_other = other.with().hear();
  owner_process importer([&](talk) {
    imports all;
    for (const std::string& bytes : {of_one, of_other}) {
      for (std::size_t left = 0; left < 2; ++left) {
        const full_descriptors full(left);
        EXPECT_EQ(fault_of([&] { opened_by(all, bytes); }), buffer_fault::no_room) << left;
      }
      EXPECT_EQ(opened_by(all, bytes).size, 2 * PAGE);
    }
    EXPECT_EQ(all.size(), 0u);
  });
}

TEST(imports_test, open__of_an_owner_that_ends_at_each_step) {
  for (const char* until : {"export", "import", "use"}) {
    owner_process owner(&offer_one);
    const std::string bytes = owner.with().hear();
    imports all;
    const test::leak_guard guard;
    const std::size_t mapped = count_mappings();
    if (until == std::string("export")) {
      owner.kill();
      EXPECT_EQ(fault_of([&] { opened_by(all, bytes); }), buffer_fault::owner_gone);
      continue;
    }
    {
      const opened one = opened_by(all, bytes);
      owner.kill();
      EXPECT_EQ(fault_of([&] { one.memory->check(); }), buffer_fault::owner_gone);
      EXPECT_EQ(fault_of([&] { opened_by(all, bytes); }), buffer_fault::owner_gone);
      if (until == std::string("use")) {
        std::memset(one.memory->at, 1, one.size);
      }
    }
    EXPECT_EQ(count_mappings(), mapped);
  }
}

TEST(imports_test, open__owner_that_starts_another_program) {
  owner_process owner([](talk t) {
    buffer b = buffer::create(PAGE);
    t.say(b.export_handle());
    t.hear();
    // The same process, as far as its number and start tell.
    execl("/bin/sleep", "sleep", "1000", nullptr);
  });
  const std::string bytes = owner.with().hear();
  imports all;
  const opened one = opened_by(all, bytes);
  const handle h = handle::decode(bytes);
  imports later;
  owner.with().say("go");
  // Seen in /proc: the descriptors are closed by the start.
  while (std::system(("test -e /proc/" + std::to_string(h.pid) + "/fd/" + std::to_string(h.page_fd))
                         .c_str()) == 0)
    usleep(1000);
  EXPECT_EQ(fault_of([&] { opened_by(later, bytes); }), buffer_fault::forged);
  owner.kill();
}

// The owner's socket, and the numbers of its page and its memory.
constexpr const char* SECOND_PROGRAM = "LCI_TEST_SECOND_PROGRAM";
constexpr int HIGH = 500;  // descriptors from here on are in nobody's way

// What the owner below starts: it has a page and memory of its own under the same numbers.
TEST(imports_test, DISABLED_second_program) {
  const char* const said = std::getenv(SECOND_PROGRAM);
  ASSERT_NE(said, nullptr);
  int socket = -1, page_fd = -1, memory_fd = -1;
  ASSERT_EQ(std::sscanf(said, "%d %d %d", &socket, &page_fd, &memory_fd), 3);
  buffer b = buffer::create(PAGE);
  const handle own = handle::decode(b.export_handle());
  const base::descriptor page(fcntl(own.page_fd, F_DUPFD_CLOEXEC, HIGH));
  const base::descriptor memory(fcntl(own.memory_fd, F_DUPFD_CLOEXEC, HIGH));
  ASSERT_EQ(dup2(page.get(), page_fd), page_fd);
  ASSERT_EQ(dup2(memory.get(), memory_fd), memory_fd);
  const talk t(socket);
  t.say("here");
  t.hear();
}

// What has been published once is compared with the page of the first program as long as that is
// mapped here, and would be found there.
TEST(imports_test, open__next_memory_of_an_owner_that_started_another_program) {
  owner_process owner([](talk t) {
    buffer one = buffer::create(PAGE), next = buffer::create(PAGE);
    t.say(one.export_handle());
    const std::string bytes = next.export_handle();
    t.say(bytes);
    t.hear();
    const handle h = handle::decode(bytes);
    const int socket = fcntl(t.number(), F_DUPFD, HIGH);
    const std::string told = std::to_string(socket) + " " + std::to_string(h.page_fd) + " " +
                             std::to_string(h.memory_fd);
    setenv(SECOND_PROGRAM, told.c_str(), 1);
    const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
    execl(self.c_str(), self.c_str(), "--gtest_also_run_disabled_tests",
          "--gtest_filter=imports_test.DISABLED_second_program", nullptr);
    _exit(2);
  });
  const std::string bytes = owner.with().hear(), next = owner.with().hear();
  imports all;
  const opened one = opened_by(all, bytes);
  owner.with().say("go");
  ASSERT_EQ(owner.with().hear(), "here");
  const test::leak_guard guard;
  const std::size_t mapped = count_mappings();
  EXPECT_EQ(fault_of([&] { opened_by(all, next); }), buffer_fault::forged);
  EXPECT_EQ(count_mappings(), mapped);
  EXPECT_EQ(all.size(), 1u);
}

TEST(imports_test, importer_that_dies__leaves_the_owner_as_it_was) {
  buffer b = buffer::create(PAGE);
  const std::string bytes = b.export_handle();
  const test::leak_guard guard;
  for (int step = 0; step < 2; ++step) {
    owner_process importer([&](talk t) {
      buffer mine;
      if (step == 1) mine = buffer::import(bytes);
      t.say("here");
      pause();
    });
    importer.with().hear();
    importer.kill();
  }
  std::memset(b.data(), 1, PAGE);
}

TEST(imports_test, open__a_thousand_rounds_leave_nothing) {
  owner_process owner([](talk t) {
    for (;;) {
      buffer b = buffer::create(PAGE);
      t.say(b.export_handle());
      if (t.hear().empty()) return;
    }
  });
  imports all;
  std::string bytes = owner.with().hear(), before = bytes;
  const test::leak_guard guard;
  const std::size_t mapped = count_mappings();
  for (int round = 0; round < (test::IS_SANITIZED ? 200 : 1000); ++round) {
    EXPECT_EQ(opened_by(all, bytes).size, PAGE);
    before = bytes;
    owner.with().say("next");
    bytes = owner.with().hear();
    ASSERT_EQ(fault_of([&] { opened_by(all, before); }), buffer_fault::stale);
  }
  EXPECT_EQ(all.size(), 0u);
  EXPECT_EQ(count_mappings(), mapped);
}

// Half of them with the right checksum, so that what is behind it is met as well.
TEST(imports_test, open__hundred_thousand_mutated_handles_are_refused) {
  owner_process owner(&offer_one);
  const std::string good = owner.with().hear();
  imports all;
  const test::leak_guard guard;
  std::minstd_rand random(7);
  const auto any = [&](std::size_t below) { return random() % below; };
  int refused = 0;
  constexpr int ROUNDS = test::IS_SANITIZED ? 10000 : 100000;
  for (int round = 0; round < ROUNDS; ++round) {
    std::string bad = good;
    const std::size_t changes = 1 + any(4);
    while (bad == good) {
      for (std::size_t i = 0; i < changes; ++i) bad[any(bad.size())] = static_cast<char>(any(256));
    }
    if (round % 2 == 0 && bad.substr(16) != good.substr(16)) {
      const std::uint64_t sum = checksum_of(bad.data() + 16, bad.size() - 16);
      std::memcpy(bad.data() + 8, &sum, sizeof(sum));
    } else if (round % 16 == 1) {
      bad.resize(any(bad.size()));
    }
    try {
      opened_by(all, bad);
      ADD_FAILURE() << "accepted in round " << round;
    } catch (const buffer_error&) {
      ++refused;
    }
  }
  EXPECT_EQ(refused, ROUNDS);
  EXPECT_EQ(opened_by(all, good).size, 2 * PAGE);
}

}  // namespace
}  // namespace lci::share
