#include "lci/boot/file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "lci/errors.hpp"
#include "tests/support/leak_guard.hpp"
#include "tests/support/scoped_env.hpp"
#include "tests/unit/boot/ranks.hpp"
#include "tests/unit/boot/rounds.hpp"

namespace lci::boot {
namespace {

class file_test : public testing::Test {
 protected:
  file_test() {
    std::string pattern = testing::TempDir() + "lci_file_XXXXXX";
    dir_ = mkdtemp(pattern.data());
  }
  ~file_test() override { std::filesystem::remove_all(dir_); }

  file_variables variables(int size, int limit_ms = 30'000, int rank = -1) const {
    file_variables v;
    v.size = size;
    v.rank = rank;
    v.directory = dir_ + "/meet";
    v.limit = std::chrono::milliseconds(limit_ms);
    return v;
  }
  // Joins, exchanges, and answers with the rank it was given.
  static std::string exchange(const file_variables& v, int rounds = 3) {
    file_bootstrap boot(v);
    for (int i = 0; i < rounds; ++i) {
      boot.put("k" + std::to_string(i),
               std::string(static_cast<std::size_t>(1000 * i), '\0') + std::to_string(boot.rank()));
      boot.fence();
      for (int r = 0; r < boot.size(); ++r) {
        const std::string value = boot.get(r, "k" + std::to_string(i));
        if (!value.ends_with(std::to_string(r))) throw std::runtime_error("wrong value");
      }
    }
    return std::to_string(boot.rank());
  }
  std::vector<std::string> jobs() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(dir_ + "/meet")) {
      const std::string name = entry.path().filename();
      if (name.starts_with("job-")) names.push_back(name);
    }
    return names;
  }
  std::string dir_;
};

void expect_ranks(const std::vector<rank_result>& results, int size) {
  std::multiset<std::string> ranks, expected;
  for (const rank_result& r : results) {
    EXPECT_EQ(r.status, 0) << r.text;
    ranks.insert(r.text);
  }
  for (int r = 0; r < size; ++r) expected.insert(std::to_string(r));
  EXPECT_EQ(ranks, expected);
}

TEST_F(file_test, exchange__first_come_first_ranked_and_nothing_stays) {
  expect_ranks(run_ranks(5, [&](int) { return exchange(variables(5)); }), 5);
  EXPECT_TRUE(jobs().empty());
}

TEST_F(file_test, exchange__given_ranks_are_kept) {
  const auto results = run_ranks(4, [&](int r) { return exchange(variables(4, 30'000, 3 - r)); });
  for (int r = 0; r < 4; ++r) {
    EXPECT_EQ(results[static_cast<std::size_t>(r)].status, 0);
    EXPECT_EQ(results[static_cast<std::size_t>(r)].text, std::to_string(3 - r));
  }
}

TEST_F(file_test, join__rank_given_twice_is_an_error_with_the_rank) {
  file_variables v = variables(3, 500, 1);
  const auto results = run_ranks(2, [&](int) { return exchange(v); });
  const auto named = std::count_if(results.begin(), results.end(), [](const rank_result& r) {
    return r.status == 1 && r.text.find("rank 1 has already joined") != std::string::npos;
  });
  EXPECT_EQ(named, 1) << results[0].text << "\n" << results[1].text;
}

TEST_F(file_test, join__missing_ranks_are_named_when_time_is_up) {
  const auto results = run_ranks(1, [&](int) { return exchange(variables(3, 300)); });
  EXPECT_EQ(results[0].status, 1);
  for (const char* part : {"rank 0", "3 processes", "missing ranks: 1 2", dir_.c_str()})
    EXPECT_NE(results[0].text.find(part), std::string::npos) << results[0].text;
}

TEST_F(file_test, join__jobs_of_different_sizes_do_not_meet) {
  const auto results = run_ranks(5, [&](int r) { return exchange(variables(r < 2 ? 2 : 3)); });
  std::multiset<std::string> ranks;
  for (const rank_result& r : results) {
    EXPECT_EQ(r.status, 0) << r.text;
    ranks.insert(r.text);
  }
  EXPECT_EQ(ranks, (std::multiset<std::string>{"0", "0", "1", "1", "2"}));
}

// Killed while waiting for the others: its half-open job must not swallow the next one.
TEST_F(file_test, join__crash_before_all_have_joined_does_not_hang_the_next_job) {
  const auto crashed = run_ranks(1, [&](int) {
    const file_job job =
        file_job::join(variables(3).directory, 3, -1, "", deadline::in(std::chrono::seconds(5)));
    ::raise(SIGKILL);
    return std::string();
  });
  ASSERT_EQ(crashed[0].status, 128 + SIGKILL);
  EXPECT_EQ(jobs().size(), 1u);
  expect_ranks(run_ranks(3, [&](int) { return exchange(variables(3)); }), 3);
  EXPECT_TRUE(jobs().empty());
}

TEST_F(file_test, join__crash_of_a_whole_job_leaves_nothing_for_the_next) {
  run_ranks(3, [&](int) {
    file_bootstrap boot(variables(3));
    boot.put("k", "of the crashed job");
    boot.fence();
    ::raise(SIGKILL);
    return std::string();
  });
  EXPECT_EQ(jobs().size(), 1u);
  const auto results = run_ranks(3, [&](int) {
    file_bootstrap boot(variables(3));
    boot.fence();
    try {
      boot.get(0, "k");
    } catch (const argument_error&) {
      return std::string("clean");
    }
    return std::string("saw the other job");
  });
  for (const rank_result& r : results) EXPECT_EQ(r.text, "clean");
  EXPECT_TRUE(jobs().empty());
}

TEST_F(file_test, join__death_of_a_waiting_member_is_told_to_the_others) {
  const auto results = run_ranks(2, [&](int r) {
    if (r == 0) return exchange(variables(3));
    const file_job job =
        file_job::join(variables(3).directory, 3, 2, "", deadline::in(std::chrono::seconds(5)));
    while (job.missing().size() > 1) ::usleep(1000);
    ::raise(SIGKILL);
    return std::string();
  });
  EXPECT_EQ(results[0].status, 1);
  EXPECT_NE(results[0].text.find("rank 2 died"), std::string::npos) << results[0].text;
}

TEST_F(file_test, fence_with__rounds_are_made_while_it_waits) {
  const late_rank other(1);
  for (const rank_result& r : run_ranks(2, [&](int rank) {
         file_bootstrap boot(variables(2, 20'000, rank));
         return other.fence(boot);
       }))
    EXPECT_EQ(r.text, "ok");
}

TEST_F(file_test, fence__rank_that_left_is_named) {
  const auto results = run_ranks(3, [&](int r) {
    file_bootstrap boot(variables(3, 30'000, r));
    boot.fence();
    if (r == 1) return std::string("gone");
    boot.fence();
    return std::string("not reached");
  });
  EXPECT_EQ(results[1].status, 0);
  for (const std::size_t r : {0u, 2u}) {
    EXPECT_EQ(results[r].status, 1);
    EXPECT_NE(results[r].text.find("rank 1 left the job before fence 1"), std::string::npos)
        << results[r].text;
  }
}

// What was heard of the others when so many of them have ended.
std::string news_of(bootstrap& boot, int count) {
  std::string out;
  for (int i = 0; i < 3000 && std::count(out.begin(), out.end(), ';') < count; ++i) {
    for (const departure& one : boot.news())
      out += std::to_string(one.rank) + " " + one.why + (one.orderly ? ", orderly;" : ";");
    ::usleep(1000);
  }
  return out;
}

TEST_F(file_test, news__who_ends_is_news_once_and_how) {
  const auto results = run_ranks(4, [&](int r) {
    file_bootstrap boot(variables(4, 30'000, r));
    boot.fence();
    if (r == 1) ::raise(SIGKILL);
    if (r == 2) {
      boot.leave();
      return std::string();
    }
    std::string out = news_of(boot, 2);
    out += news_of(boot, 1);  // long enough, and there is nothing, or the end of the other one
    boot.leave();
    return out;
  });
  for (const int r : {0, 3}) {
    std::string text = results[static_cast<std::size_t>(r)].text;
    const std::string others = std::to_string(3 - r) + " it has left the job, orderly;";
    if (const auto at = text.find(others); at != std::string::npos) text.erase(at, others.size());
    const std::string dead = "1 rank 1 ended without leaving the job;",
                      left = "2 it has left the job, orderly;";
    EXPECT_TRUE(text == dead + left || text == left + dead) << text;
  }
}

// More than are looked at in one go.
TEST_F(file_test, news__of_many_ranks_all_are_heard) {
  constexpr int SIZE = 20;
  const auto results = run_ranks(SIZE, [&](int r) {
    file_bootstrap boot(variables(SIZE, 30'000, r));
    boot.fence();
    if (r != 0) ::raise(SIGKILL);
    const std::string heard = news_of(boot, SIZE - 1);
    return std::to_string(std::count(heard.begin(), heard.end(), ';'));
  });
  EXPECT_EQ(results[0].text, std::to_string(SIZE - 1));
}

TEST_F(file_test, reopen__one_process_may_join_again_and_again) {
  expect_ranks(run_ranks(3,
                         [&](int r) {
                           for (int i = 0; i < 5; ++i) exchange(variables(3, 30'000, r), 1);
                           return std::to_string(r);
                         }),
               3);
  EXPECT_TRUE(jobs().empty());
}

TEST_F(file_test, fence__leaks_no_descriptor) {
  const auto results = run_ranks(2, [&](int) {
    file_bootstrap boot(variables(2));
    boot.fence();
    const std::size_t before = test::open_descriptors().size();
    for (int i = 0; i < 20; ++i) boot.fence();
    return std::to_string(test::open_descriptors().size() - before);
  });
  for (const rank_result& r : results) EXPECT_EQ(r.text, "0");
}

TEST_F(file_test, fence__damaged_file_is_named) {
  const auto results = run_ranks(2, [&](int r) {
    file_bootstrap boot(variables(2, 5000, r));
    boot.fence();
    if (r == 1) {
      // Rank 1 answers fence 1 with something else than frames, and leaves.
      for (const auto& entry : std::filesystem::directory_iterator(dir_ + "/meet")) {
        if (!entry.is_directory()) continue;
        std::ofstream(entry.path() / "tmp") << "garbage";
        std::filesystem::rename(entry.path() / "tmp", entry.path() / "r1.1");
      }
      return std::string();
    }
    boot.fence();
    return std::string("not reached");
  });
  EXPECT_NE(results[0].text.find("r1.1 does not parse"), std::string::npos) << results[0].text;
}

TEST_F(file_test, open__directory_of_somebody_else_is_refused) {
  file_variables v = variables(2, 100);
  v.directory = "/";
  if (::geteuid() == 0) {
    v.directory = dir_ + "/foreign";
    std::filesystem::create_directory(v.directory);
    ASSERT_EQ(::chown(v.directory.c_str(), 12345, 12345), 0);
  }
  const auto results = run_ranks(1, [&](int) { return exchange(v); });
  EXPECT_NE(results[0].text.find("not a directory of user"), std::string::npos) << results[0].text;
}

class file_variables_test : public testing::Test {
 protected:
  file_variables_test() {
    for (const char* name : {"LCT_PMI_FILE_NRANKS", "LCT_PMI_FILE_RANK", "LCT_PMI_FILE_DIR",
                             "LCT_PMI_FILE_TIMEOUT_SEC", "SLURM_NTASKS", "SLURM_STEP_ID",
                             "SLURM_STEP_NUM_TASKS", "SLURM_JOBID", "LCI_INIT_ATTACH_DEBUGGER"})
      vars_.unset(name);
    vars_.set("HOME", "/home/x");
  }
  test::scoped_env vars_;
  std::string why_;
};

TEST_F(file_variables_test, read__nothing_set) {
  EXPECT_FALSE(read_file_variables(why_));
  EXPECT_NE(why_.find("LCT_PMI_FILE_NRANKS is not set"), std::string::npos);
}

TEST_F(file_variables_test, read__default_directory) {
  vars_.set("LCT_PMI_FILE_NRANKS", "4");
  const auto v = read_file_variables(why_);
  ASSERT_TRUE(v) << why_;
  EXPECT_EQ(v->size, 4);
  EXPECT_EQ(v->rank, -1);
  EXPECT_EQ(v->directory, "/home/x/.tmp/lct_pmi_file-0");
  vars_.set("SLURM_JOBID", "77");
  EXPECT_EQ(read_file_variables(why_)->directory, "/home/x/.tmp/lct_pmi_file-77");
  vars_.set("LCT_PMI_FILE_DIR", "/scratch/d");
  EXPECT_EQ(read_file_variables(why_)->directory, "/scratch/d");
}

TEST_F(file_variables_test, read__timeout_is_a_minute_or_as_of_tcp) {
  vars_.set("LCT_PMI_FILE_NRANKS", "4");
  EXPECT_EQ(read_file_variables(why_)->limit, std::chrono::minutes(1));
  vars_.set("LCI_INIT_ATTACH_DEBUGGER", "1");
  EXPECT_EQ(read_file_variables(why_)->limit, std::chrono::hours(24));
  vars_.set("LCT_PMI_FILE_TIMEOUT_SEC", "7");
  EXPECT_EQ(read_file_variables(why_)->limit, std::chrono::seconds(7));
}

TEST_F(file_variables_test, read__one_rank_is_not_for_us) {
  vars_.set("LCT_PMI_FILE_NRANKS", "1");
  EXPECT_FALSE(read_file_variables(why_));
}

// A shell inside an allocation has SLURM_NTASKS; a program started there is alone all the same.
TEST_F(file_variables_test, read__slurm_counts_only_inside_a_step) {
  vars_.set("SLURM_NTASKS", "8");
  EXPECT_FALSE(read_file_variables(why_));
  vars_.set("SLURM_STEP_ID", "2");
  const auto v = read_file_variables(why_);
  ASSERT_TRUE(v) << why_;
  EXPECT_EQ(v->size, 8);
  EXPECT_EQ(v->step, "-2");
  vars_.set("SLURM_STEP_NUM_TASKS", "3");
  EXPECT_EQ(read_file_variables(why_)->size, 3);
}

TEST_F(file_variables_test, read__nonsense_is_named) {
  vars_.set("LCT_PMI_FILE_NRANKS", "four");
  EXPECT_FALSE(read_file_variables(why_));
  EXPECT_NE(why_.find("LCT_PMI_FILE_NRANKS is \"four\""), std::string::npos) << why_;
  vars_.set("LCT_PMI_FILE_NRANKS", "4");
  vars_.set("LCT_PMI_FILE_RANK", "4");
  EXPECT_FALSE(read_file_variables(why_));
  EXPECT_NE(why_.find("from 0 to 3"), std::string::npos) << why_;
}

TEST_F(file_variables_test, read__no_home) {
  vars_.set("LCT_PMI_FILE_NRANKS", "4");
  vars_.unset("HOME");
  EXPECT_FALSE(read_file_variables(why_));
  EXPECT_NE(why_.find("HOME"), std::string::npos) << why_;
}

}  // namespace
}  // namespace lci::boot
