#include "backends/shm/bulk_stream.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "backends/shm/single_copy.hpp"
#include "tests/unit/shm/by_way.hpp"
#include "tests/unit/shm/pair.hpp"

namespace lci::shm {
namespace {

// Two pieces of whole pages, together large enough for the kernel's copy.
constexpr std::size_t PIECE = 8192;  // two are enough for every operation to be measured

// They follow each other: the second one is copied by processors, and not by the kernel, as memory
// of a device is.
struct half_for_processors {
  half_for_processors() {
    const int fd = static_cast<int>(::syscall(SYS_memfd_secret, 0));
    if (fd < 0) return;
    void* const all =
        ::mmap(nullptr, 2 * PIECE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all != MAP_FAILED) at = static_cast<char*>(all);
    const bool is_there = at != nullptr && ::ftruncate(fd, PIECE) == 0 &&
                          ::mmap(at + PIECE, PIECE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                                 fd, 0) != MAP_FAILED;
    ::close(fd);
    if (is_there) std::memset(at, '.', 2 * PIECE);
    is_made = is_there;
  }
  ~half_for_processors() {
    if (at != nullptr) ::munmap(at, 2 * PIECE);
  }
  half_for_processors(const half_for_processors&) = delete;
  half_for_processors& operator=(const half_for_processors&) = delete;
  char* at = nullptr;
  bool is_made = false;
};

using test::by_way;
using test::pair;
using test::pattern;

}  // namespace

TEST(bulk_stream_kernel, by_kernel__takes_its_turns) {
  by_way w;
  if (!w.may_copy) GTEST_SKIP() << "the system forbids copies between processes";
  w.p.a.poll();  // this thread polls, so the post does the first turn
  w.put(copy_way::kernel);
  EXPECT_EQ(w.memory[bulk_stream::KERNEL_TURN - 1], w.text[bulk_stream::KERNEL_TURN - 1]);
  EXPECT_EQ(w.memory.substr(bulk_stream::KERNEL_TURN),
            std::string(w.text.size() - bulk_stream::KERNEL_TURN, '.'));
  w.p.a.poll();
  w.p.a.poll();
  EXPECT_EQ(w.memory, w.text);
  w.finish();
  EXPECT_EQ(w.p.a.seen.completed.size(), 1u);
}

TEST(bulk_stream_kernel, by_both__the_target_reads_what_is_left_for_it) {
  by_way w;
  if (!w.may_copy) GTEST_SKIP() << "the system forbids copies between processes";
  w.put(copy_way::both, bulk_stream::kind::put_imm);
  for (int i = 0; i < 10; ++i) w.p.a.poll();
  // The origin has done all but what it asked the target to read, which is at the end.
  EXPECT_EQ(w.memory[w.text.size() / 2], w.text[w.text.size() / 2]);
  EXPECT_EQ(w.memory.back(), '.');
  EXPECT_TRUE(w.p.a.seen.completed.empty());
  EXPECT_TRUE(w.p.b.seen.immediates.empty());
  w.finish();
  w.p.until([&] { return !w.p.b.seen.immediates.empty(); });
  EXPECT_EQ(w.memory, w.text);
  EXPECT_EQ(w.p.a.seen.completed.size(), 1u);
  EXPECT_EQ(w.p.b.seen.immediates, std::vector<std::uint32_t>{7});
}

TEST(bulk_stream_kernel, by_both__a_target_that_may_not_read_gets_it_all_the_same) {
  by_way w;
  if (!w.may_copy) GTEST_SKIP() << "the system forbids copies between processes";
  w.p.b.net->connections().find(0)->single_copy.store(false);
  w.put(copy_way::both, bulk_stream::kind::put_imm);
  w.finish();
  w.p.until([&] { return !w.p.b.seen.immediates.empty(); });
  EXPECT_EQ(w.memory, w.text);
  EXPECT_TRUE(w.p.a.seen.errors.empty());
  EXPECT_EQ(w.p.b.seen.immediates, std::vector<std::uint32_t>{7});
}

TEST(bulk_stream_kernel, by_both__nobody_may_copy_and_it_takes_the_pipeline) {
  by_way w;
  if (!w.may_copy) GTEST_SKIP() << "the system forbids copies between processes";
  w.put(copy_way::both, bulk_stream::kind::put_imm);
  w.p.a.poll();
  w.p.b.net->connections().find(0)->single_copy.store(false);
  w.p.a.net->connections().find(1)->single_copy.store(false);
  w.finish();
  w.p.until([&] { return !w.p.b.seen.immediates.empty(); });
  EXPECT_EQ(w.memory, w.text);
  EXPECT_EQ(w.p.b.seen.immediates, std::vector<std::uint32_t>{7});
}

TEST(bulk_stream_kernel, by_both__a_registration_that_ends_is_an_error) {
  by_way w;
  if (!w.may_copy) GTEST_SKIP() << "the system forbids copies between processes";
  w.put(copy_way::both, bulk_stream::kind::put_imm);
  ASSERT_TRUE(w.p.b.regions.erase({w.key.slot, w.key.generation}));
  w.finish();
  for (int i = 0; i < 10; ++i) w.p.b.poll();
  ASSERT_EQ(w.p.a.seen.errors.size(), 1u);
  EXPECT_EQ(w.p.a.seen.errors[0].reason, reason_of(copied::unknown));
  EXPECT_TRUE(w.p.a.seen.completed.empty());
  EXPECT_TRUE(w.p.b.seen.immediates.empty());
}

TEST(bulk_stream_kernel, by_both__a_peer_that_goes_ends_it_once) {
  by_way w;
  if (!w.may_copy) GTEST_SKIP() << "the system forbids copies between processes";
  w.put(copy_way::both);
  w.p.a.poll();
  w.p.b.close();
  w.p.until([&] { return !w.p.a.seen.gone.empty(); });
  EXPECT_EQ(w.p.a.seen.errors.size() + w.p.a.seen.completed.size(), 1u);
  w.finish();
}

// Whichever way the chooser tries, and it tries all of them at first.
TEST(bulk_stream_kernel, chosen__every_message_arrives) {
  by_way w;
  unsigned posted = 0;
  const auto take = [&](errorcode_t answer) {
    posted += answer == errorcode_t::posted;
    return answer == errorcode_t::posted || answer == errorcode_t::done;
  };
  for (const std::size_t size : {std::size_t{50000}, std::size_t{300001}}) {
    const int first = way_chooser::WAYS * way_chooser::FIRST_ROUNDS *
                      static_cast<int>(way_chooser::stretch(way_chooser::class_of(size)));
    for (int i = 0; i < first + 8; ++i) {
      std::string text = pattern(size, i);
      net::net_op o;
      o.rank = 1;
      o.buffer = text.data();
      o.size = size;
      o.remote = w.key;
      o.remote_offset = static_cast<std::uint64_t>(i);
      o.imm = static_cast<std::uint32_t>(i);
      o.context = &o;
      ASSERT_TRUE(take(w.p.a.out->put_imm(o)));
      w.p.until([&] { return w.p.a.dev->is_drained() && !w.p.b.seen.immediates.empty(); });
      EXPECT_EQ(w.p.b.seen.immediates, std::vector<std::uint32_t>{o.imm});
      w.p.b.seen.immediates.clear();
      EXPECT_EQ(w.memory.substr(o.remote_offset, size), text);
      std::string got(size, '.');
      o.buffer = got.data();
      ASSERT_TRUE(take(w.p.a.out->get(o)));
      w.p.until([&] { return w.p.a.dev->is_drained(); });
      EXPECT_EQ(got, text);
    }
  }
  EXPECT_EQ(w.p.a.seen.completed.size(), posted);
}

// What the chooser spares is copied in the call that posts it, and goes another way where the
// kernel may not copy.
TEST(bulk_stream_kernel, unmeasured__the_poster_copies) {
  by_way w;
  if (!w.may_copy) GTEST_SKIP() << "the system forbids copies between the processes";
  constexpr std::size_t SIZE = 50000;
  peer& who = *w.p.a.net->connections().find(1);
  for (auto& classes : who.unmeasured.by_kernel) classes[way_chooser::class_of(SIZE)].store(1);
  const std::string text = pattern(SIZE, 3);
  std::string out = text, got(SIZE, '.');
  net::net_op o;
  o.rank = 1;
  o.buffer = out.data();
  o.size = SIZE;
  o.remote = w.key;
  o.imm = 5;
  o.context = &o;
  EXPECT_EQ(w.p.a.out->put_imm(o), errorcode_t::done);
  EXPECT_EQ(w.memory.substr(0, SIZE), text);
  w.p.until([&] { return !w.p.b.seen.immediates.empty(); });
  o.buffer = got.data();
  EXPECT_EQ(w.p.a.out->get(o), errorcode_t::done);
  EXPECT_EQ(got, text);
  EXPECT_TRUE(w.p.a.seen.completed.empty());
  // Once each.
  got.assign(SIZE, '.');
  EXPECT_EQ(w.p.a.out->get(o), errorcode_t::posted);
  w.p.until([&] { return w.p.a.dev->is_drained(); });
  EXPECT_EQ(got, text);
  got.assign(SIZE, '.');
  who.unmeasured.by_kernel[1][way_chooser::class_of(SIZE)].store(1);
  who.single_copy.store(false);
  EXPECT_EQ(w.p.a.out->get(o), errorcode_t::posted);
  w.finish();
  EXPECT_EQ(got, text);
}

// Who waits for each get has it copied by the call where that takes less, but for one in 31; who
// has several under way does not.
TEST(bulk_stream_kernel, small_get__is_copied_at_once_for_who_waits_for_each) {
  by_way w;
  if (!w.may_copy) GTEST_SKIP() << "the system forbids copies between the processes";
  constexpr std::size_t SIZE = 2048;
  std::string there = pattern(SIZE, 5), got(SIZE, '.');
  net::net_op o;
  o.rank = 1;
  o.buffer = got.data();
  o.size = SIZE;
  o.remote = w.p.b.expose(there.data(), SIZE);
  o.context = &o;
  copy_in_post& choice = w.p.a.net->connections().find(1)->unmeasured.in_post_of(true, SIZE);
  choice.fix(1, 2);
  // Answers whether it was done at once, and right.
  const auto get_and_wait = [&] {
    got.assign(SIZE, '.');
    const errorcode_t answer = w.p.a.out->get(o);
    if (answer == errorcode_t::posted) w.p.until([&] { return w.p.a.dev->is_drained(); });
    w.p.a.poll();
    EXPECT_EQ(got, there);
    return answer == errorcode_t::done;
  };
  int at_once = 0;
  for (int i = 0; i < 7; ++i) at_once += get_and_wait();
  EXPECT_EQ(at_once, 0);
  for (int i = 7; i < 202 + 7; ++i) at_once += get_and_wait();
  EXPECT_EQ(at_once, 200);
  choice.fix(2, 1);
  for (int i = 0; i < 64; ++i) EXPECT_FALSE(get_and_wait());
  choice.fix(1, 2);
  // Two of them are under way at a time, as soon as one is sent to the target (of 101 one).
  for (int i = 0; i < 102; ++i) {
    at_once = 0;
    at_once += w.p.a.out->get(o) == errorcode_t::done;
    at_once += w.p.a.out->get(o) == errorcode_t::done;
    w.p.until([&] { return w.p.a.dev->is_drained(); });
    w.p.a.poll();
  }
  EXPECT_EQ(at_once, 0);
  // Smaller ones never.
  o.size = 512;
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(w.p.a.out->get(o), errorcode_t::posted);
    w.p.until([&] { return w.p.a.dev->is_drained(); });
    w.p.a.poll();
  }
}

// What both ways take is measured while they are used.
TEST(bulk_stream_kernel, small_get_and_medium_put__both_ways_are_timed) {
  by_way w;
  if (!w.may_copy) GTEST_SKIP() << "the system forbids copies between the processes";
  std::string there(8192, '.'), out(8192, 'x');
  net::net_op o;
  o.rank = 1;
  o.buffer = out.data();
  o.size = out.size();
  o.remote = w.p.b.expose(there.data(), there.size());
  o.imm = 5;
  for (const bool is_get : {true, false}) {
    copy_in_post& choice = w.p.a.net->connections().find(1)->unmeasured.in_post_of(is_get, o.size);
    std::uint32_t n = 0;
    const auto one = [&] {
      for (int i = 0; i < 8; ++i) w.p.a.poll();
      EXPECT_NE(w.p.post([&] { return is_get ? w.p.a.out->get(o) : w.p.a.out->put_imm(o); }),
                errorcode_t::fatal);
      w.p.until([&] { return w.p.a.dev->is_drained(); });
      w.p.b.poll();
      w.p.b.poll();
      ++n;
    };
    while (n < copy_in_post::SURE_AFTER - 1) one();
    EXPECT_NE(choice.cost_of(copy_in_post::way::target), 0u);
    EXPECT_EQ(choice.cost_of(copy_in_post::way::post), 0u);
    // Of a put it is known at the next one.
    while (n < copy_in_post::SURE_AFTER + copy_in_post::WINDOW) one();
    EXPECT_NE(choice.cost_of(copy_in_post::way::post), 0u);
  }
}

// Puts of a few KiB that are seldom are where they belong when the call returns; those that come
// one upon the other wait for the target.
TEST(bulk_stream_kernel, medium_put__is_copied_at_once_where_such_are_seldom) {
  by_way w;
  if (!w.may_copy) GTEST_SKIP() << "the system forbids copies between the processes";
  constexpr std::size_t SIZE = 8192;
  std::string out = pattern(SIZE, 6), there(SIZE, '.');
  net::net_op o;
  o.rank = 1;
  o.buffer = out.data();
  o.size = SIZE;
  o.remote = w.p.b.expose(there.data(), SIZE);
  o.imm = 5;
  copy_in_post& choice = w.p.a.net->connections().find(1)->unmeasured.in_post_of(false, SIZE);
  choice.fix(1, 2);
  // Answers whether the data was there before the target polled.
  const auto put_behind = [&](int polls) {
    for (int i = 0; i < polls; ++i) w.p.a.poll();
    there.assign(SIZE, '.');
    w.p.b.seen.immediates.clear();
    EXPECT_EQ(w.p.a.out->put_imm(o), errorcode_t::done);
    const auto is_there = [&] { return there.substr(0, o.size) == out.substr(0, o.size); };
    const bool was_there = is_there();
    w.p.until([&] { return !w.p.b.seen.immediates.empty(); }, {&w.p.b});
    w.p.b.poll();  // gives the slot back
    EXPECT_TRUE(is_there());
    return was_there;
  };
  for (int i = 0; i < 7; ++i) EXPECT_FALSE(put_behind(8)) << i;
  for (int i = 0; i < 7; ++i) EXPECT_TRUE(put_behind(8)) << i;
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(put_behind(1)) << i;
  for (int i = 0; i < 7; ++i) EXPECT_FALSE(put_behind(8)) << i;
  EXPECT_TRUE(put_behind(8));
  choice.fix(2, 1);
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(put_behind(8)) << i;
  choice.fix(1, 2);
  EXPECT_TRUE(put_behind(8));
  // Those of up to 4 KiB are measured apart, and smaller ones never go so.
  w.p.a.net->connections().find(1)->unmeasured.in_post_of(false, 4096).fix(1, 2);
  o.size = 4096;
  for (int i = 0; i < 7; ++i) EXPECT_FALSE(put_behind(8)) << i;
  EXPECT_TRUE(put_behind(8));
  o.size = 2048;
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(put_behind(8)) << i;
}

// The kernel breaks off in the middle. The post says so to nobody: the pipeline does all of it.
TEST(bulk_stream_kernel, unmeasured__a_copy_that_breaks_off_goes_another_way) {
  by_way w;
  if (!w.may_copy) GTEST_SKIP() << "the system forbids copies between the processes";
  half_for_processors there;
  if (!there.is_made) GTEST_SKIP() << "the system has no memfd_secret";
  constexpr std::size_t SIZE = 2 * PIECE;
  peer& who = *w.p.a.net->connections().find(1);
  const auto spare_one = [&] {
    for (auto& classes : who.unmeasured.by_kernel) classes[way_chooser::class_of(SIZE)].store(1);
  };
  const std::string text = pattern(SIZE, 4);
  std::string out = text, got(SIZE, '.');
  net::net_op o;
  o.rank = 1;
  o.buffer = out.data();
  o.size = SIZE;
  o.remote = w.p.b.expose(there.at, SIZE);
  o.imm = 5;
  o.context = &o;
  spare_one();
  EXPECT_EQ(w.p.a.out->put_imm(o), errorcode_t::posted);
  // It was tried: what the contract allows a post that answers retry as well.
  EXPECT_TRUE(std::string(there.at, PIECE) == text.substr(0, PIECE));
  EXPECT_TRUE(std::string(there.at + PIECE, PIECE) == std::string(PIECE, '.'));
  EXPECT_TRUE(w.p.b.seen.immediates.empty());
  w.p.until([&] { return !w.p.b.seen.immediates.empty() && w.p.a.dev->is_drained(); });
  EXPECT_TRUE(std::string(there.at, SIZE) == text);
  o.buffer = got.data();
  spare_one();
  EXPECT_EQ(w.p.a.out->get(o), errorcode_t::posted);
  EXPECT_TRUE(got.substr(0, PIECE) == text.substr(0, PIECE));
  w.p.until([&] { return w.p.a.dev->is_drained(); });
  EXPECT_TRUE(got == text);
  EXPECT_TRUE(w.p.a.seen.errors.empty());
  EXPECT_EQ(w.p.a.seen.completed.size(), 2u);
  EXPECT_EQ(w.p.b.seen.immediates, std::vector<std::uint32_t>{5});
  EXPECT_TRUE(who.single_copy.load()) << "it is this memory, and not the peer";
}

}  // namespace lci::shm
