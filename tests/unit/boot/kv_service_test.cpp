// Connections of other users to the service of a job: refused, counted, and few are said.
#include "lci/boot/kv_service.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace lci::boot::kv {
namespace {

// A listening socket that the system names.
unique_fd listen_somewhere(sockaddr_un& where, socklen_t& length) {
  unique_fd out(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  where = {};
  where.sun_family = AF_UNIX;
  EXPECT_EQ(::bind(out.get(), reinterpret_cast<sockaddr*>(&where), sizeof(sa_family_t)), 0);
  length = sizeof where;
  EXPECT_EQ(::getsockname(out.get(), reinterpret_cast<sockaddr*>(&where), &length), 0);
  EXPECT_EQ(::listen(out.get(), 512), 0);
  return out;
}

}  // namespace

TEST(service, strangers__are_counted_and_few_are_said) {
  constexpr std::size_t CALLS = 300;
  sockaddr_un where;
  socklen_t length;
  // This test is the foreigner.
  service of_another(listen_somewhere(where, length), 1, ::geteuid() + 1);
  std::vector<unique_fd> callers;
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
  EXPECT_NE(lines.find("more refusals will not be shown"), std::string::npos);
}

}  // namespace lci::boot::kv
