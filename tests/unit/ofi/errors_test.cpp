#include "backends/ofi/errors.hpp"

#include <gtest/gtest.h>
#include <rdma/fi_errno.h>

#include <cerrno>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "lci/errors.hpp"

namespace lci::ofi {
namespace {

// One of each meaning, and those that share it.
const std::vector<std::vector<int>> MEANINGS = {
    {0},
    {FI_ECONNREFUSED},
    {FI_ECONNRESET, EPIPE, FI_ESHUTDOWN},
    {FI_ECONNABORTED},
    {FI_ENOTCONN},
    {FI_EHOSTUNREACH, FI_EHOSTDOWN, FI_ENETUNREACH, FI_ENETDOWN},
    {FI_ETIMEDOUT},
    {FI_ECANCELED},
    {FI_ETRUNC},
    {FI_EOVERRUN},
    {FI_ENORX},
    {FI_EACCES, FI_EPERM},
    {FI_EKEYREJECTED, FI_ENOKEY, FI_EINVAL},
    {FI_EADDRNOTAVAIL, FI_ENOAV},
    {FI_EIO, FI_EREMOTEIO},
    {FI_EMSGSIZE},
    {FI_ENOMEM, FI_ENOBUFS},
    {12345}};

TEST(errors, meaning_of__is_the_same_for_the_same_cause_and_differs_otherwise) {
  std::set<std::string_view> seen;
  for (const auto& codes : MEANINGS) {
    const std::string_view meaning = meaning_of(codes.front());
    EXPECT_TRUE(seen.insert(meaning).second) << meaning;
    for (const int code : codes) EXPECT_EQ(meaning_of(code), meaning) << code;
  }
}

TEST(errors, is_again__of_what_changes_by_itself_only) {
  for (const long code : {FI_EAGAIN, FI_ENOMEM, FI_ENOBUFS}) EXPECT_TRUE(is_again(-code)) << code;
  for (const long code : {0, FI_EINVAL, FI_EIO, FI_ECONNRESET})
    EXPECT_FALSE(is_again(-code)) << code;
}

TEST(errors, throw_error__names_call_and_object_whatever_the_sign) {
  for (const long code : {FI_EINVAL, -FI_EINVAL}) {
    try {
      throw_error("fi_endpoint", "tcp eth0", code);
    } catch (const backend_error& e) {
      EXPECT_EQ(std::string(e.what()).rfind("ofi: fi_endpoint on tcp eth0: ", 0), 0u) << e.what();
      continue;
    }
    ADD_FAILURE() << code;
  }
}

}  // namespace
}  // namespace lci::ofi
