// Keys between two transports: what they allow, how they end, and what forged ones do.
#include <algorithm>
#include <chrono>
#include <future>
#include <random>

#include "both_ends.hpp"

namespace transport_test {
namespace {

struct keys : testing::Test, both_ends {
  keys() : there(4096), here(4096, 9), target(there.data(), 4096), local(here.data(), 4096) {}
  void SetUp() override { connect(); }
  // The end of a write from a to the memory of b.
  std::exception_ptr write(const lci::remote_buffer& to) {
    std::exception_ptr end;
    const lci::transfer done = a.write(local.view(0, to.size()), to);
    done.on_done([&](std::exception_ptr problem) { end = problem; });
    EXPECT_TRUE(run_both(done));
    return end;
  }
  // What b has said.
  void hear() {
    for (int i = 0; i < 10; ++i) a.process();
  }
  static std::string text_of(std::exception_ptr problem) {
    if (problem == nullptr) return "";
    try {
      std::rethrow_exception(problem);
    } catch (const lci::argument_error& e) {
      return e.what();
    }
  }
  bool was_refused(const lci::remote_buffer& to, const char* why) {
    const std::string text = text_of(write(to));
    EXPECT_NE(text.find(why), std::string::npos) << text;
    return !text.empty();
  }
  std::vector<std::uint8_t> there, here;
  lci::memory target, local;
};

TEST_F(keys, travel_as_text) {
  const lci::remote_buffer part = target.remote().slice(100, 50);
  const lci::remote_buffer same = lci::remote_buffer::parse(part.to_string());
  EXPECT_EQ(same.address(), part.address());
  EXPECT_EQ(same.size(), 50u);
  EXPECT_EQ(write(same), nullptr);
  EXPECT_EQ(there[99], 0);
  EXPECT_EQ(there[100], 9);
  EXPECT_EQ(there[149], 9);
  EXPECT_EQ(there[150], 0);
  EXPECT_EQ(write(lci::remote_buffer::of_key(target.remote_key())), nullptr);
  EXPECT_EQ(there, here);
}

TEST_F(keys, overlong__refused_at_once) {
  const lci::remote_buffer good = target.remote();
  const lci::remote_buffer bad(good.address(), 8, std::string(70'000, 'a'));
  EXPECT_THROW(a.write(local.view(0, 8), bad), lci::argument_error);
  EXPECT_EQ(write(good), nullptr);
  EXPECT_TRUE(a.connected());
}

TEST_F(keys, rights) {
  lci::key_options read_only;
  read_only.can_write = false;
  EXPECT_TRUE(was_refused(target.remote(read_only), "does not allow writing"));
  lci::key_options write_only;
  write_only.can_read = false;
  const lci::transfer read = a.read(local.view(), target.remote(write_only));
  ASSERT_TRUE(run_both(read));
  EXPECT_THROW(read.get(), lci::argument_error);
  EXPECT_EQ(there[0], 0);
  EXPECT_TRUE(a.connected());
}

TEST_F(keys, revoked__one_of_two) {
  lci::key_options lasting, limited;
  limited.valid_s = 3600;
  const lci::remote_buffer first = target.remote(limited), second = target.remote(lasting);
  EXPECT_EQ(write(first), nullptr);
  EXPECT_EQ(write(second), nullptr);
  target.revoke(first.key());
  hear();
  EXPECT_TRUE(was_refused(first, "was revoked"));
  EXPECT_EQ(write(second), nullptr);
  target.revoke();
  hear();
  EXPECT_TRUE(was_refused(second, "was revoked"));
  EXPECT_EQ(write(target.remote()), nullptr);
  EXPECT_THROW(local.revoke(second.key()), lci::argument_error);
}

TEST_F(keys, revoke_and_wait__until_the_peer_has_released_it) {
  EXPECT_EQ(write(target.remote()), nullptr);
  EXPECT_FALSE(target.revoke_and_wait(0));  // the other side is in this thread
  for (int i = 0; i < 10; ++i) a.process();
  EXPECT_TRUE(target.revoke_and_wait(10));
}

// The peer says nothing, and only the thread moves the owner.
TEST(keys_of_a_thread, revoke_and_wait__ends_with_the_time_of_a_silent_peer) {
  std::vector<std::uint8_t> there(8), here(8, 9);
  lci::transport_options options = usual();
  options.progress_thread = true;
  lci::transport owner(options), user(usual());
  lci::memory target(there.data(), there.size()), local(here.data(), here.size());
  user.connect(owner.bind());
  const lci::transfer done = user.write(local.view(), target.remote());
  ASSERT_TRUE(run({&user}, [&] { return done.is_done(); }));
  done.get();
  std::future<bool> over =
      std::async(std::launch::async, [&] { return target.revoke_and_wait(-1); });
  EXPECT_EQ(over.wait_for(std::chrono::minutes(2)), std::future_status::ready);
  user.close();  // it ends in any case
  EXPECT_TRUE(over.get());
}

// Writes to two memories, of which one is revoked while the notification is not sent.
struct revoked_early : keys {
  revoked_early()
      : others(8 << 20),
        large(8 << 20, 7),
        other(others.data(), others.size()),
        source(large.data(), large.size()) {}
  void SetUp() override {
    keys::SetUp();
    // Both keys are known.
    ASSERT_EQ(write(target.remote().slice(0, 8)), nullptr);
    ASSERT_EQ(write(other.remote().slice(0, 8)), nullptr);
    std::fill(there.begin(), there.end(), 0);
  }
  // It has come, or failed: not both lost and told.
  void check(const lci::transfer& told, std::size_t size) {
    target.revoke();
    hear();
    ASSERT_TRUE(run_both(told));
    told.get();
    EXPECT_EQ(note_of(b).tag, 70'000u);
    EXPECT_EQ(std::count(there.begin(), there.end(), 9), static_cast<std::ptrdiff_t>(size));
  }
  std::vector<std::uint8_t> others, large;
  lci::memory other, source;
};

TEST_F(revoked_early, between_pieces__what_is_told_is_there) {
  lci::transport::batch all;
  for (std::size_t i = 0; i < 8; ++i)
    all.write(local.view(8 * i, 8), target.remote().slice(8 * i, 8));
  // More than there is room for at once.
  for (std::size_t i = 0; i < 5000; ++i)
    all.write(source.view(8 * i, 8), other.remote().slice(8 * i, 8));
  lci::transfer_options options;
  options.notify = true;
  options.tag = 70'000;
  check(a.submit(all, options), 64);
}

TEST_F(revoked_early, behind_a_write_that_goes_on__what_is_told_is_there) {
  const lci::transfer first = a.write(source.view(), other.remote());
  check(a.write(local.view(0, 8), target.remote().slice(0, 8), true, 70'000), 8);
  ASSERT_TRUE(run_both(first));
}

TEST_F(keys, end_with_their_memory) {
  std::vector<std::uint8_t> bytes(100);
  lci::remote_buffer remote;
  {
    lci::memory gone(bytes.data(), bytes.size());
    remote = gone.remote();
    EXPECT_EQ(write(remote), nullptr);
  }
  hear();
  EXPECT_TRUE(was_refused(remote, "memory has ended"));
  EXPECT_EQ(write(target.remote()), nullptr);
}

TEST_F(keys, ended_here__is_no_refusal_of_the_peer) {
  lci::transfer done;
  {
    lci::memory gone(here.data(), 8);
    done = a.write(gone.view(), target.remote().slice(0, 8));
  }
  std::exception_ptr end;
  done.on_done([&](std::exception_ptr problem) { end = problem; });
  ASSERT_TRUE(run_both(done));
  EXPECT_EQ(text_of(end), "write: the memory of the local view has ended");
}

TEST_F(keys, refused_in_a_batch__the_part_is_named) {
  lci::key_options only_write;
  only_write.can_read = false;
  const lci::remote_buffer remote = target.remote(only_write);
  lci::transport::batch all;
  all.write(local.view(), remote).read(local.view(), remote);
  std::exception_ptr end;
  const lci::transfer done = a.submit(all);
  done.on_done([&](std::exception_ptr problem) { end = problem; });
  ASSERT_TRUE(run_both(done));
  EXPECT_TRUE(text_of(end).starts_with("read: ")) << text_of(end);
}

// More than the control connection holds, of a peer that makes no progress meanwhile.
TEST_F(keys, more_than_the_peer_reads__wait) {
  const int count = lci::test::IS_SANITIZED ? 20'000 : 80'000;
  lci::key_options another;
  another.valid_s = 1e6;
  std::vector<lci::transfer> all;
  for (int i = 0; i < count; ++i)
    all.push_back(a.write(local.view(0, 8), target.remote(another).slice(0, 8)));
  ASSERT_TRUE(run_both(all.back()));
  EXPECT_TRUE(a.connected());
  for (const lci::transfer& one : all) one.get();
}

// Else their ends take so long that the connection is given up.
TEST_F(keys, many_memories__come_and_go) {
  const std::size_t count = lci::test::IS_SANITIZED ? 2000 : 20'000;
  std::vector<std::uint8_t> bytes(count);
  {
    std::vector<lci::memory> memories;
    std::vector<lci::transfer> all;
    for (std::uint8_t& one : bytes) memories.emplace_back(&one, 1);
    for (const lci::memory& one : memories) all.push_back(a.write(local.view(0, 1), one.remote()));
    ASSERT_TRUE(run_both(all.back()));
    for (const lci::transfer& one : all) one.get();
  }
  EXPECT_EQ(write(target.remote()), nullptr);
}

TEST_F(keys, end_in_time) {
  lci::key_options short_lived;
  short_lived.valid_s = 0.05;
  const lci::remote_buffer remote = target.remote(short_lived);
  while (write(remote) == nullptr) {
  }
  EXPECT_TRUE(was_refused(remote, "time is over"));
}

// Of transfers that have all ended.
int count_refused(const std::vector<lci::transfer>& all) {
  int refused = 0;
  for (const lci::transfer& one : all) {
    try {
      one.get();
    } catch (const lci::argument_error&) {
      ++refused;
    }
  }
  return refused;
}

TEST_F(keys, out_of_range__nothing_is_written) {
  std::mt19937_64 random(1);
  const lci::remote_buffer good = target.remote();
  const int rounds = 10000;
  std::vector<lci::transfer> all;
  for (int i = 0; i < rounds; ++i) {
    const std::size_t size = 1 + random() % 64;
    std::uint64_t address = random();
    if (i % 3 == 0) address = good.address() - 1 - random() % 64;
    if (i % 3 == 1) address = good.address() + 4096 - size + 1 + random() % 64;
    all.push_back(a.write(local.view(0, size), lci::remote_buffer(address, size, good.key())));
  }
  ASSERT_TRUE(run_both(all.back()));
  EXPECT_EQ(count_refused(all), rounds);
  EXPECT_EQ(there, std::vector<std::uint8_t>(4096));
  EXPECT_EQ(write(good), nullptr);
}

TEST_F(keys, forged__none_is_accepted) {
  std::mt19937_64 random(2);
  const std::string good = target.remote_key();
  int refused = 0;
  const int rounds = lci::test::IS_SANITIZED ? 10000 : 100000;
  std::vector<lci::transfer> all;
  for (int i = 0; i < rounds; ++i) {
    std::string bad = good;
    for (std::uint64_t n = 1 + random() % 3; n > 0; --n) {
      char& digit = bad[6 + random() % (bad.size() - 6)];
      const char was = digit;
      while (digit == was) digit = "0123456789abcdef"[random() % 16];
    }
    if (bad == good) bad[10] = bad[10] == 'a' ? 'b' : 'a';
    all.push_back(a.write(local.view(0, 8), lci::remote_buffer(target.remote().address(), 8, bad)));
    if (all.size() == 1000) {
      ASSERT_TRUE(run_both(all.back()));
      refused += count_refused(all);
      all.clear();
    }
  }
  EXPECT_EQ(refused, rounds);
  EXPECT_EQ(there, std::vector<std::uint8_t>(4096));
  EXPECT_EQ(write(target.remote()), nullptr);
}

}  // namespace
}  // namespace transport_test
