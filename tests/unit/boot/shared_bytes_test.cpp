#include "lci/boot/shared_bytes.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <new>
#include <string>

#include "lci/boot/kv_member.hpp"
#include "lci/errors.hpp"
#include "tests/support/alloc_counter.hpp"

namespace lci::boot {
namespace {

TEST(shared_bytes, view__is_what_was_shared) {
  std::string bytes(300000, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7);
  lci::base::descriptor file = share(bytes);
  ASSERT_TRUE(file);
  const shared_bytes all(file, bytes.size()), some(file, 5000);
  file.reset();
  EXPECT_EQ(all.view(), bytes);
  EXPECT_EQ(some.view(), bytes.substr(0, 5000));
}

TEST(shared_bytes, share__cannot_be_changed) {
  const lci::base::descriptor file = share("abc");
  EXPECT_EQ(::pwrite(file.get(), "x", 1, 0), -1);
  EXPECT_EQ(::ftruncate(file.get(), 1), -1);
  EXPECT_EQ(shared_bytes(file, 3).view(), "abc");
}

TEST(shared_bytes, shared_bytes__of_a_file_that_could_change) {
  const lci::base::descriptor file(::memfd_create("lci-test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::write(file.get(), "abc", 3), 3);
  EXPECT_THROW(shared_bytes(file, 3), backend_error);
  ASSERT_EQ(::fcntl(file.get(), F_ADD_SEALS, F_SEAL_WRITE), 0);
  EXPECT_THROW(shared_bytes(file, 3), backend_error);
  ASSERT_EQ(::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  EXPECT_EQ(shared_bytes(file, 3).view(), "abc");
}

TEST(shared_bytes, shared_bytes__of_what_is_too_short_or_no_file) {
  const lci::base::descriptor file = share("abc");
  EXPECT_THROW(shared_bytes(file, 4), backend_error);
  EXPECT_THROW(shared_bytes(file, 0), backend_error);
  EXPECT_THROW(shared_bytes(lci::base::descriptor(), 1), backend_error);
}

// One member that gets a frame, and a file with these bytes if there are any.
std::string told(std::uint64_t size, const std::string& content, bool has_file = true) {
  kv::member one("test", 0, 2);
  std::string frame;
  kv::encode_shared(frame, size);
  try {
    if (has_file) one.take_file(share(content));
    one.receive(frame);
  } catch (const backend_error& why) {
    return why.what();
  }
  return "value " + std::string(one.get(1, "k"));
}

TEST(member, shared__values_come_from_the_file) {
  std::string content;
  kv::encode_value(content, 1, "k", "v");
  EXPECT_EQ(told(content.size(), content), "value v");
}

TEST(member, shared__of_what_is_not_of_this_protocol) {
  std::string content, nested, stranger;
  kv::encode_value(content, 1, "k", "v");
  kv::encode_shared(nested, 3);
  kv::encode_value(stranger, 2, "k", "v");
  for (const std::string& answer :
       {told(content.size(), content, false), told(content.size() + 1, content),
        told(content.size() - 1, content), told(0, content), told(~std::uint64_t{0}, content),
        told(nested.size(), nested), told(stranger.size(), stranger), told(9, "something")})
    EXPECT_EQ(answer.rfind("test: rank 0 of 2: ", 0), 0u) << answer;
}

TEST(member, take_file__two_for_one_frame) {
  kv::member one("test", 0, 2);
  one.take_file(share("a"));
  EXPECT_THROW(one.take_file(share("b")), backend_error);
}

// What came in a file and what came as bytes are one store.
TEST(member, shared__a_later_value_replaces_it) {
  std::string content, frame, later;
  kv::encode_value(content, 1, "k", "first");
  kv::encode_value(content, 1, "other", "stays");
  kv::encode_shared(frame, content.size());
  kv::encode_value(later, 1, "k", "");
  kv::member one("test", 0, 2);
  one.take_file(share(content));
  one.receive(frame);
  EXPECT_EQ(one.get(1, "k"), "first");
  one.receive(later);
  EXPECT_EQ(one.get(1, "k"), "");
  later.clear();
  kv::encode_value(later, 1, "k", "the second one");
  one.receive(later);
  EXPECT_EQ(one.get(1, "k"), "the second one");
  one.take_file(share(content));
  one.receive(frame);
  EXPECT_EQ(one.get(1, "k"), "first");
  EXPECT_EQ(one.get(1, "other"), "stays");
}

// The call after the one that ran out of memory handles what is left.
TEST(member, shared__each_allocation_may_fail) {
  if (!test::has_alloc_counter()) GTEST_SKIP() << test::ALLOC_COUNTER_MISSING;
  std::string content, frame;
  for (int i = 0; i < 40; ++i) kv::encode_value(content, 1, "k" + std::to_string(i), "v");
  kv::encode_shared(frame, content.size());
  std::uint64_t n = 0;
  for (bool has_fired = true; has_fired;) {
    kv::member one("test", 0, 2);
    one.take_file(share(content));
    one.make_room(frame.size());
    ++n;
    try {
      const test::fail_nth_allocation failing(n);
      try {
        one.receive(frame);
      } catch (...) {
        has_fired = failing.fired();
        throw;
      }
      has_fired = failing.fired();
    } catch (const std::bad_alloc&) {
      one.receive({});
    }
    for (int i = 0; i < 40; ++i) ASSERT_EQ(one.get(1, "k" + std::to_string(i)), "v") << n;
  }
  EXPECT_GT(n, 40u);
}

}  // namespace
}  // namespace lci::boot
