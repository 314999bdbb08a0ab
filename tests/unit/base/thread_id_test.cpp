// Numbers of threads: dense, inherited after exit, shared above the ceiling.
#include "lci/base/thread_id.hpp"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <barrier>
#include <set>
#include <thread>
#include <vector>

namespace lci::base {
namespace {

std::uint32_t number_of_a_new_thread() {
  std::uint32_t id = 0;
  std::thread([&] { id = thread_id(); }).join();
  return id;
}

TEST(thread_id__stable, same_answer_in_one_thread) {
  const std::uint32_t first = thread_id();
  EXPECT_EQ(thread_id(), first);
  EXPECT_LT(first, MAX_THREADS);
}

TEST(thread_id__after_exit, next_thread_inherits_the_number) {
  thread_id();
  const std::uint32_t first = number_of_a_new_thread();
  EXPECT_NE(first, thread_id());
  for (int i = 0; i < 10; ++i) EXPECT_EQ(number_of_a_new_thread(), first);
}

TEST(thread_serial, is_never_given_twice) {
  const std::uint64_t mine = thread_serial();
  std::set<std::uint64_t> seen{0, mine};
  for (int i = 0; i < 10; ++i) {
    std::thread([&] {
      EXPECT_TRUE(seen.insert(thread_serial()).second);
      EXPECT_TRUE(seen.contains(thread_serial()));
    }).join();
  }
  EXPECT_EQ(thread_serial(), mine);
}

TEST(thread_id__only, until_another_thread_asks_and_after_it_has_ended) {
  EXPECT_TRUE(is_only_thread());
  std::barrier meeting(2);
  std::thread other([&] {
    meeting.arrive_and_wait();
    thread_id();
    meeting.arrive_and_wait();
    meeting.arrive_and_wait();
  });
  EXPECT_TRUE(is_only_thread()) << "it has not used anything yet";
  meeting.arrive_and_wait();
  meeting.arrive_and_wait();
  EXPECT_FALSE(is_only_thread());
  meeting.arrive_and_wait();
  other.join();
  EXPECT_TRUE(is_only_thread());
}

// A thread beyond the numbered ones counts like the others, also when it outlives them.
TEST(thread_id__only, not_while_a_thread_without_a_number_of_its_own_is_alive) {
  thread_id();
  constexpr int count = static_cast<int>(MAX_THREADS) - 1;
  std::barrier all_numbered(count + 1), may_end(count + 1), last(2);
  std::vector<std::thread> numbered;
  for (int i = 0; i < count; ++i) {
    numbered.emplace_back([&] {
      thread_id();
      all_numbered.arrive_and_wait();
      may_end.arrive_and_wait();
    });
  }
  all_numbered.arrive_and_wait();
  std::thread beyond([&] {
    EXPECT_EQ(thread_id(), OVERFLOW_THREAD);
    last.arrive_and_wait();
    last.arrive_and_wait();
    EXPECT_FALSE(is_only_thread());
    last.arrive_and_wait();
  });
  last.arrive_and_wait();
  may_end.arrive_and_wait();
  for (std::thread& one : numbered) one.join();
  EXPECT_FALSE(is_only_thread());
  last.arrive_and_wait();
  last.arrive_and_wait();
  beyond.join();
  EXPECT_TRUE(is_only_thread());
}

TEST(thread_id__handover, what_the_last_holder_wrote_is_seen) {
  // Plain memory on purpose: thread sanitizer reports a missing edge between the two holders, which
  // are not ordered by join().
  static int left_behind[MAX_THREADS + 1] = {};
  std::vector<std::thread> threads;
  for (int i = 0; i < 40; ++i) threads.emplace_back([] { ++left_behind[thread_id()]; });
  for (auto& t : threads) t.join();
  int sum = 0;
  for (const int n : left_behind) sum += n;
  EXPECT_EQ(sum, 40);
}

TEST(thread_id__many, numbers_are_dense_and_distinct_and_overflow_is_shared) {
  constexpr int extra = 4;
  thread_id();
  constexpr int count = static_cast<int>(MAX_THREADS) - 1 + extra;
  std::vector<std::uint32_t> ids(count);
  std::vector<detail::thread_record*> records(count);
  std::barrier all_here(count);
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      ids[i] = thread_id();
      records[i] = detail::thread_record_tls;
      all_here.arrive_and_wait();
    });
  }
  for (auto& t : threads) t.join();
  const std::set<std::uint32_t> distinct(ids.begin(), ids.end());
  EXPECT_EQ(distinct.size(), MAX_THREADS);  // all but this thread's, and OVERFLOW_THREAD
  EXPECT_EQ(std::count(ids.begin(), ids.end(), OVERFLOW_THREAD), extra);
  EXPECT_EQ(*distinct.rbegin(), OVERFLOW_THREAD);
  const std::set<detail::thread_record*> own(records.begin(), records.end());
  EXPECT_EQ(own.size(), static_cast<std::size_t>(count)) << "two live threads shared a record";
  EXPECT_LT(number_of_a_new_thread(), 2u) << "the lowest free number comes first";
}

TEST(thread_id__late, a_key_destructor_may_still_ask) {
  static pthread_key_t key;
  static std::uint32_t late;
  late = detail::NO_THREAD_ID;
  ASSERT_EQ(pthread_key_create(&key, [](void*) { late = thread_id(); }), 0);
  const std::uint32_t expected = number_of_a_new_thread();
  std::thread([] {
    thread_id();
    pthread_setspecific(key, &key);
  }).join();
  EXPECT_EQ(late, expected);
  EXPECT_EQ(number_of_a_new_thread(), expected) << "the number was not given back twice";
  pthread_key_delete(key);
}

// In a program of its own, in which nobody has asked yet. The first key of all may be that of
// another library.
TEST(thread_id__no_key, threads_share_a_number_and_no_value_of_others_changes) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    execl("/proc/self/exe", "unit_base", "--gtest_also_run_disabled_tests",
          "--gtest_filter=thread_id__no_key.DISABLED_here", nullptr);
    _exit(127);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST(thread_id__no_key, DISABLED_here) {
  ASSERT_FALSE(has_thread_id()) << "this test is to be the only one of its process";
  std::vector<pthread_key_t> keys;
  for (pthread_key_t made; pthread_key_create(&made, nullptr) == 0;) keys.push_back(made);
  ASSERT_FALSE(keys.empty());
  for (const pthread_key_t key : keys) ASSERT_EQ(pthread_setspecific(key, &keys), 0);
  const auto values = [&] {
    std::vector<const void*> all;
    for (pthread_key_t key = 0; key <= keys.back(); ++key) all.push_back(pthread_getspecific(key));
    return all;
  };
  const auto before = values();
  const std::uint32_t id = thread_id();
  EXPECT_EQ(values(), before);
  EXPECT_EQ(id, OVERFLOW_THREAD);
  EXPECT_EQ(detail::thread_record_tls, nullptr);
  EXPECT_FALSE(is_only_thread()) << "nobody knows";
  for (int i = 0; i < 3; ++i) EXPECT_EQ(number_of_a_new_thread(), OVERFLOW_THREAD);
}

}  // namespace
}  // namespace lci::base
