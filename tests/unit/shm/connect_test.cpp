#include "backends/shm/connect.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "lci/errors.hpp"
#include "tests/support/scoped_env.hpp"
#include "tests/support/seed.hpp"

namespace lci::shm {
namespace {

std::span<const std::byte> bytes_of(const auto& what) { return std::as_bytes(std::span(&what, 1)); }

fabric_id some_id(std::uint8_t first) {
  fabric_id id = address::make().id;
  id[0] = first;
  return id;
}

// A connected pair of sockets of the kind that fabrics use.
struct link_pair {
  explicit link_pair(const fabric_id& id) : listener(listen_at(id)) {
    EXPECT_EQ(connect_to(id, caller), 0);
    callee.reset(accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    EXPECT_TRUE(callee);
  }
  lci::base::descriptor listener, caller, callee;
};

}  // namespace

TEST(address, text__comes_back_and_is_short) {
  const address a = address::make();
  EXPECT_LE(a.text().size(), 200u);
  const auto back = address::parse(a.text());
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->id, a.id);
  EXPECT_EQ(back->host, a.host);
  EXPECT_EQ(back->network_ns, a.network_ns);
  EXPECT_NE(address::make().id, a.id);
}

TEST(address, parse__refuses_what_is_no_address) {
  for (const char* wrong :
       {"", "shm1", "shm1 00 host 1", "shm2 00112233445566778899aabbccddeeff host 1",
        "shm1 00112233445566778899aabbccddeegg host 1",
        "shm1 00112233445566778899aabbccddeeff host",
        "shm1 00112233445566778899aabbccddeeff host x"}) {
    EXPECT_FALSE(address::parse(wrong).has_value()) << wrong;
  }
}

TEST(place, here__is_kernel_namespaces_and_user_or_what_is_said) {
  lci::test::scoped_env env;
  env.unset("LCI_HOST_ID");
  const std::string place = place_here();
  const address here = address::make();
  EXPECT_EQ(place, place_here());
  EXPECT_TRUE(place.starts_with(here.host + "." + std::to_string(here.network_ns) + ".")) << place;
  EXPECT_TRUE(place.ends_with("." + std::to_string(geteuid()))) << place;
  EXPECT_EQ(place.find(' '), std::string::npos);
  env.set("LCI_HOST_ID", "left.2");
  EXPECT_EQ(place_here(), here.host + ".left.2");
}

TEST(place, host_id_that_makes_no_sense__is_refused_by_name) {
  lci::test::scoped_env env;
  for (const std::string& wrong :
       {std::string("two words"), std::string("tab\t"), std::string(65, 'x')}) {
    env.set("LCI_HOST_ID", wrong);
    try {
      place_here();
      ADD_FAILURE() << "accepted: " << wrong;
    } catch (const argument_error& why) {
      EXPECT_NE(std::string(why.what()).find("LCI_HOST_ID"), std::string::npos);
    }
  }
}

TEST(address, why_unreachable__names_the_cause) {
  const address here = address::make();
  address there = address::make();
  EXPECT_EQ(there.why_unreachable(here), "");
  there.network_ns = here.network_ns + 1;
  EXPECT_NE(there.why_unreachable(here).find("network namespace"), std::string::npos);
  there.host = "another";
  EXPECT_NE(there.why_unreachable(here).find("another host"), std::string::npos);
}

TEST(decode_hello, good__every_field_comes_back) {
  hello said;
  said.rank = 7;
  said.control = 4096;
  said.probe_value = 99;
  const auto [what, why] = decode_hello(bytes_of(said));
  EXPECT_EQ(why, "");
  EXPECT_EQ(what.rank, 7);
  EXPECT_EQ(what.control, 4096u);
  EXPECT_EQ(what.probe_value, 99u);
}

TEST(decode_hello, wrong__each_kind_has_its_reason) {
  const hello good;
  hello wrong = good;
  wrong.magic = 1;
  EXPECT_NE(decode_hello(bytes_of(wrong)).why.find("not a hello"), std::string::npos);
  wrong = good;
  wrong.version = WIRE_VERSION + 1;
  EXPECT_NE(decode_hello(bytes_of(wrong)).why.find("version"), std::string::npos);
  wrong = good;
  wrong.bytes = 12;
  EXPECT_NE(decode_hello(bytes_of(wrong)).why, "");
  for (std::size_t size = 0; size < sizeof(hello); ++size) {
    EXPECT_NE(decode_hello(bytes_of(good).first(size)).why, "") << size;
  }
}

TEST(decode_hello, noise__never_passes_and_never_reads_past_the_end) {
  auto random = lci::test::seeded(1);
  for (int i = 0; i < 2000; ++i) {
    std::vector<std::byte> noise(random() % 200);
    for (std::byte& b : noise) b = static_cast<std::byte>(random());
    EXPECT_NE(decode_hello(noise).why, "");
    EXPECT_FALSE(is_bye(noise));
  }
}

TEST(is_bye, just_a_bye) {
  const bye farewell;
  EXPECT_TRUE(is_bye(bytes_of(farewell)));
  EXPECT_FALSE(is_bye(bytes_of(farewell).first(7)));
  EXPECT_FALSE(is_bye(bytes_of(hello{})));
}

TEST(connect_to, nobody_there__is_refused) {
  lci::base::descriptor caller;
  EXPECT_EQ(connect_to(some_id(1), caller), ECONNREFUSED);
  EXPECT_FALSE(caller);
}

TEST(connect_to, needs_no_accept_and_names_the_peer) {
  const fabric_id id = some_id(2);
  const lci::base::descriptor listener = listen_at(id);
  lci::base::descriptor caller;
  ASSERT_EQ(connect_to(id, caller), 0);
  EXPECT_EQ(peer_of(caller.get()).uid, geteuid());
  EXPECT_EQ(peer_of(caller.get()).pid, getpid());
}

TEST(records, a_descriptor_travels_along) {
  link_pair l(some_id(3));
  const int file = memfd_create("lci-test", MFD_CLOEXEC);
  ASSERT_EQ(write(file, "abc", 3), 3);
  const hello said;
  ASSERT_EQ(send_record(l.caller.get(), bytes_of(said), file), 0);
  close(file);
  received got = receive_record(l.callee.get());
  EXPECT_EQ(got.error, 0);
  EXPECT_EQ(got.size, sizeof(hello));
  ASSERT_TRUE(got.passed);
  char text[3] = {};
  EXPECT_EQ(pread(got.passed.get(), text, 3, 0), 3);
  EXPECT_EQ(std::memcmp(text, "abc", 3), 0);
}

TEST(records, nothing_there_and_the_end_are_told_apart) {
  link_pair l(some_id(4));
  EXPECT_EQ(receive_record(l.callee.get()).error, EAGAIN);
  ASSERT_EQ(send_record(l.caller.get(), bytes_of(bye{}), -1), 0);
  l.caller.reset();
  const received last = receive_record(l.callee.get());
  EXPECT_TRUE(is_bye({last.bytes.data(), last.size})) << "what was said before the end arrives";
  const received end = receive_record(l.callee.get());
  EXPECT_EQ(end.error, 0);
  EXPECT_EQ(end.size, 0u);
  EXPECT_EQ(send_record(l.callee.get(), bytes_of(bye{}), -1), EPIPE);
}

}  // namespace lci::shm
