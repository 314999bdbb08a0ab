// Connections of other users to the service of a job: refused, counted, and few are said. Members
// of the host get what is large in memory that they share.
#include "lci/boot/kv_service.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "lci/boot/kv_client.hpp"
#include "lci/errors.hpp"
#include "tests/support/descriptor_passing.hpp"

namespace lci::boot::kv {
namespace {

// A listening socket that the system names.
lci::base::descriptor listen_somewhere(sockaddr_un& where, socklen_t& length) {
  lci::base::descriptor out(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  where = {};
  where.sun_family = AF_UNIX;
  EXPECT_EQ(::bind(out.get(), reinterpret_cast<sockaddr*>(&where), sizeof(sa_family_t)), 0);
  length = sizeof where;
  EXPECT_EQ(::getsockname(out.get(), reinterpret_cast<sockaddr*>(&where), &length), 0);
  EXPECT_EQ(::listen(out.get(), 512), 0);
  return out;
}

int mapped_files() {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);)
    count += line.find("memfd:lci-set-up") != std::string::npos;
  return count;
}

// Serves ranks that are threads of this process, each with its client, and answers what each of
// them says.
template <class Rank>
void serve(int ranks, std::optional<uid_t> only_uid, Rank&& body) {
  sockaddr_un where;
  socklen_t length;
  service all(listen_somewhere(where, length), ranks, only_uid);
  std::atomic<int> running{ranks};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      lci::base::descriptor fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
      EXPECT_EQ(::connect(fd.get(), reinterpret_cast<sockaddr*>(&where), length), 0);
      client mine("test", std::move(fd), rank, ranks, std::chrono::milliseconds(0));
      EXPECT_TRUE(mine.join());
      body(mine, rank);
      running.fetch_sub(1);  // edge kv_service_test.running
    });
  while (running.load() != 0) {  // edge kv_service_test.running
    std::vector<pollfd> set;
    all.add_to(set);
    ::poll(set.data(), set.size(), 10);
    all.handle(set);
  }
  for (std::thread& one : threads) one.join();
}

}  // namespace

// In turn rounds that are large and small; what a rank has put last counts.
TEST(service, values__of_a_large_round_are_shared) {
  constexpr int RANKS = 3, ROUNDS = 20;
  for (const bool is_local : {true, false}) {
    std::atomic<int> most_files{0};
    const int before = mapped_files();
    serve(RANKS, is_local ? std::optional<uid_t>(::geteuid()) : std::nullopt,
          [&](client& mine, int rank) {
            for (int round = 0; round < ROUNDS; ++round) {
              const auto value = [&](int r) {
                return std::string(round % 2 == 0 ? service::MIN_SHARED / 2 : 9,
                                   static_cast<char>('a' + r + round));
              };
              mine.put("k", value(rank));
              if (round == 0) mine.put("first", "of " + std::to_string(rank));
              mine.fence();
              for (int r = 0; r < RANKS; ++r) EXPECT_EQ(mine.get(r, "k"), value(r)) << round;
            }
            EXPECT_EQ(mine.get(1, "first"), "of 1");
            if (rank == 0) most_files = mapped_files() - before;  // edge kv_service_test.files
          });
    // What is put again is copied, so that each rank keeps the first file only.
    EXPECT_EQ(most_files.load() >= 1, is_local) << most_files.load();
    EXPECT_LE(most_files.load(), RANKS);  // edge kv_service_test.files
    EXPECT_EQ(mapped_files(), before);
  }
}

// Messages of a whole job, from both sides: none of them is for one of n * n.
TEST(service, messages__of_a_large_job_are_as_many_for_each_rank) {
  for (const int ranks : {16, 64, 256, 1024}) {
    server all(ranks);
    std::size_t sent = 0;
    const auto each = [&](const auto& encode) {
      for (int rank = 0; rank < ranks; ++rank) {
        std::string bytes;
        encode(bytes, rank);
        all.received(rank, bytes);
      }
      sent += all.take_outputs().size();
    };
    for (int rank = 0; rank < ranks; ++rank) all.opened(rank);
    each([&](std::string& out, int rank) { encode_hello(out, rank, ranks); });
    EXPECT_EQ(sent, static_cast<std::size_t>(ranks)) << "welcome";
    for (std::uint32_t round = 0; round < 2; ++round)
      each([&](std::string& out, int) {
        encode_put(out, "address", std::string(130, 'a'));
        encode_arrive(out, round);
      });
    EXPECT_EQ(sent, 3 * static_cast<std::size_t>(ranks)) << "one for each fence";
    each([](std::string& out, int) { encode_leave(out); });
    for (int rank = 0; rank < ranks; ++rank) {
      all.closed(rank);
      sent += all.take_outputs().size();
    }
    EXPECT_EQ(sent, 3 * static_cast<std::size_t>(ranks)) << "nobody is told who else leaves";
  }
}

// A service of three ranks that have joined, which speak for themselves.
struct three_ranks {
  static constexpr int RANKS = 3;

  explicit three_ranks(bool hold_news)
      : all(listen_somewhere(where, length), RANKS, ::geteuid(), hold_news) {
    for (int rank = 0; rank < RANKS; ++rank) {
      ranks.emplace_back(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
      EXPECT_EQ(::connect(ranks.back().get(), reinterpret_cast<sockaddr*>(&where), length), 0);
      std::string hello;
      encode_hello(hello, rank, RANKS);
      say(rank, hello);
    }
    settle();
    EXPECT_TRUE(all.core().all_joined());
  }
  // How many have something for the service.
  int look() {
    set.clear();
    all.add_to(set);
    return ::poll(set.data(), set.size(), 0);
  }
  void settle() {
    while (look() > 0) all.handle(set);
  }
  void say(int rank, const std::string& bytes) {
    EXPECT_EQ(::send(of(rank).get(), bytes.data(), bytes.size(), 0),
              static_cast<ssize_t>(bytes.size()));
  }
  void leave(int rank) {
    std::string bytes;
    encode_leave(bytes);
    say(rank, bytes);
    of(rank).reset();
  }
  lci::base::descriptor& of(int rank) { return ranks[static_cast<std::size_t>(rank)]; }

  sockaddr_un where;
  socklen_t length;
  service all;
  std::vector<pollfd> set;
  std::vector<lci::base::descriptor> ranks;
};

// Two ranks leave at once. The second has hung up when it is to be told of the first, and is not
// taken for one that died.
TEST(service, leave__of_one_that_hung_up_before_its_news) {
  three_ranks job(true);
  job.leave(0);
  ASSERT_EQ(job.look(), 1);
  job.leave(1);
  job.all.handle(job.set);
  job.settle();
  job.all.tell_failures();
  char bytes[4096];
  const ssize_t n = ::recv(job.of(2).get(), bytes, sizeof bytes, MSG_DONTWAIT);
  ASSERT_GT(n, 0);
  splitter told;
  told.feed({bytes, static_cast<std::size_t>(n)});
  std::vector<int> left;
  while (const auto f = told.next()) {
    EXPECT_NE(f->type, frame_type::gone) << f->body;
    if (f->type != frame_type::left) continue;
    const std::vector<int> also = decode_left(f->body).value();
    left.insert(left.end(), also.begin(), also.end());
  }
  EXPECT_EQ(left, (std::vector<int>{0, 1}));
  for (const int rank : {0, 1}) EXPECT_FALSE(job.all.core().has_departed(rank)) << rank;
}

// The same with two frames for it: why its fence fails, and who has died.
TEST(service, leave__of_one_that_hung_up_before_several_news) {
  three_ranks job(false);
  std::string arrive;
  encode_arrive(arrive, 0);
  job.say(1, arrive);
  job.settle();
  job.of(0).reset();
  ASSERT_EQ(job.look(), 1);
  job.leave(1);
  job.all.handle(job.set);
  job.settle();
  EXPECT_TRUE(job.all.core().has_departed(0));
  EXPECT_FALSE(job.all.core().has_departed(1));
}

// In a process of a user that may have few descriptors on their way, all of which are: the members
// get bytes.
bool gets_bytes_where_no_file_can_be_sent() {
  constexpr rlimit FEW{64, 64};
  if (::geteuid() == 0 && ::setresuid(65534, 65534, 65534) != 0) return false;
  if (::setrlimit(RLIMIT_NOFILE, &FEW) != 0) return false;
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) != 0) return false;
  three_ranks job(true);
  std::string puts;
  encode_put(puts, "k", std::string(service::MIN_SHARED / 2, 'v'));
  encode_arrive(puts, 0);
  for (int rank = 0; rank < three_ranks::RANKS; ++rank) job.say(rank, puts);
  const std::array<std::byte, 1> one{};
  int sent = 0;
  while (test::try_with_descriptor(pair[0], one, pair[0]) == 1) ++sent;
  EXPECT_EQ(errno, ETOOMANYREFS) << sent;
  splitter told;
  int values = 0, released = 0;
  for (int tries = 0; released == 0 && tries < 1000; ++tries) {
    job.settle();
    std::array<char, 65536> bytes;
    const ssize_t n = ::recv(job.of(1).get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (n == 0) break;
    if (n > 0) told.feed({bytes.data(), static_cast<std::size_t>(n)});
    while (const auto f = told.next()) {
      EXPECT_NE(f->type, frame_type::shared);
      values += f->type == frame_type::value;
      released += f->type == frame_type::released;
    }
  }
  EXPECT_EQ(values, three_ranks::RANKS);
  EXPECT_EQ(released, 1);
  return !testing::Test::HasFailure();
}

TEST(service, shared__bytes_where_no_file_can_be_sent) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(gets_bytes_where_no_file_can_be_sent() ? 0 : 1);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// A member whose table of descriptors is full is told so.
TEST(client, shared__no_descriptor_is_left) {
  int pair[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
  const lci::base::descriptor server_side(pair[1]);
  client mine("test", lci::base::descriptor(pair[0]), 0, 1, std::chrono::milliseconds(0));
  mine.greet();
  std::string content, welcome, frame;
  encode_value(content, 0, "k", "v");
  encode_released(content, 0);
  encode_welcome(welcome, 0, 1);
  encode_shared(frame, content.size());
  const lci::base::descriptor file = share(content);
  ASSERT_EQ(::send(pair[1], welcome.data(), welcome.size(), 0),
            static_cast<ssize_t>(welcome.size()));
  ASSERT_TRUE(test::send_with_descriptor(pair[1], std::as_bytes(std::span(frame)), file.get()));
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit none = before;
  none.rlim_cur = static_cast<rlim_t>(lci::base::descriptor(::dup(0)).get());
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  std::string why;
  try {
    mine.fence();
  } catch (const backend_error& e) {
    why = e.what();
  }
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_NE(why.find("no descriptor is left"), std::string::npos) << why;
}

TEST(service, strangers__are_counted_and_few_are_said) {
  constexpr std::size_t CALLS = 300;
  sockaddr_un where;
  socklen_t length;
  // This test is the foreigner.
  service of_another(listen_somewhere(where, length), 1, ::geteuid() + 1);
  std::vector<lci::base::descriptor> callers;
  for (std::size_t i = 0; i < CALLS; ++i) {
    callers.emplace_back(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::connect(callers.back().get(), reinterpret_cast<sockaddr*>(&where), length), 0) << i;
  }
  testing::internal::CaptureStderr();
  while (of_another.refused() < CALLS) {
    std::vector<pollfd> set;
    of_another.add_to(set);
    ASSERT_EQ(::poll(set.data(), set.size(), 0), 1) << "somebody still waits";
    const std::size_t before = of_another.refused();
    of_another.handle(set);
    ASSERT_GT(of_another.refused(), before);
    ASSERT_LE(of_another.refused(), before + service::MAX_ACCEPTS);
  }
  const std::string lines = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'),
            static_cast<std::ptrdiff_t>(service::MOST_WARNINGS) + 1)
      << lines;
  EXPECT_NE(lines.find("further refusals will not be shown"), std::string::npos);
}

}  // namespace lci::boot::kv
