#include "lci/boot/file_directory.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "lci/errors.hpp"
#include "tests/support/must_fire.hpp"
#include "tests/unit/boot/ranks.hpp"

namespace lci::boot {
namespace {

namespace fs = std::filesystem;

class file_directory_test : public testing::Test {
 protected:
  file_directory_test() {
    std::string pattern = testing::TempDir() + "lci_file_directory_XXXXXX";
    dir_ = mkdtemp(pattern.data());
  }
  ~file_directory_test() override { fs::remove_all(dir_); }

  file_job join() const {
    return file_job::join(meet(), 2, -1, "", deadline::in(std::chrono::seconds(30)));
  }
  // Both ranks of a job, which meet and end.
  void run_job() const {
    const file_job first = join(), second = join();
    EXPECT_EQ(first.folder(), second.folder());
    EXPECT_TRUE(first.is_full());
    second.write("r1.0", "value");
    EXPECT_EQ(first.read("r1.0"), "value");
  }
  std::string meet() const { return dir_ / "meet"; }
  // A file in a folder that only its owner may use, as lci makes them.
  fs::path make_file(const std::string& folder, const std::string& name) const {
    const fs::path in = dir_ / folder;
    fs::create_directories(in);
    for (const fs::path& path : {in.parent_path(), in}) fs::permissions(path, fs::perms::owner_all);
    std::ofstream(in / name) << "content";
    return in / name;
  }
  fs::path dir_;
};

// A user may keep anything else in the directory, also under similar names.
TEST_F(file_directory_test, clean_up__removes_nothing_that_lci_has_not_written) {
  const fs::path kept[] = {make_file("meet/job-results", "m1"),
                           make_file("meet/job-0123456789abcdef", "data"),
                           make_file("meet/job-0123456789abcdef", "m1.h5"),
                           make_file("meet/job-0123456789ABCDEF", "full"),
                           make_file("meet/job-x", "m.txt"),
                           make_file("meet/job-fedcba9876543210", "m1")};
  // Others may read this one, so lci has not made it.
  fs::permissions(kept[5].parent_path(), fs::perms(0755));
  const fs::path left_over = make_file("meet/job-0123456789abcdef", "r1.0.tmp.17");
  run_job();
  for (const fs::path& file : kept) EXPECT_TRUE(fs::exists(file)) << file;
  EXPECT_FALSE(fs::exists(left_over));
}

TEST_F(file_directory_test, clean_up__removes_all_that_a_killed_job_has_written) {
  for (const char* name : {"m0", "new.4711", "full", "full.tmp.4711", "left0", "left0.tmp.4711",
                           "r0.0", "r0.1.tmp.4711"})
    make_file("meet/job-0123456789abcdef", name);
  run_job();
  EXPECT_FALSE(fs::exists(dir_ / "meet/job-0123456789abcdef"));
}

TEST_F(file_directory_test, join__goes_through_no_link_and_to_no_other_folder) {
  const fs::path file = make_file("elsewhere", "m7");
  fs::create_directory(meet());
  fs::permissions(meet(), fs::perms::owner_all);
  fs::create_symlink(dir_ / "elsewhere", dir_ / "meet/job-0123456789abcdef");
  for (const char* pointer : {"../elsewhere", "job-0123456789abcdef", "."}) {
    std::ofstream(dir_ / "meet/open-2") << pointer;
    run_job();
    EXPECT_TRUE(fs::exists(file)) << pointer;
    for (const char* name : {"m0", "m1", "full"}) {
      EXPECT_FALSE(fs::exists(dir_ / "elsewhere" / name)) << pointer;
      EXPECT_FALSE(fs::exists(dir_ / "meet" / name)) << pointer;
    }
  }
}

TEST_F(file_directory_test, join__where_others_may_write_is_refused) {
  fs::create_directory(meet());
  for (const unsigned mode : {0770u, 0702u, 01777u}) {
    fs::permissions(meet(), fs::perms(mode));
    EXPECT_TRUE(
        test::throws_with<backend_error>([&] { join(); }, {"file: ", meet(), "chmod go-w"}));
  }
  EXPECT_TRUE(fs::is_empty(meet()));
  fs::permissions(meet(), fs::perms(0755));
  run_job();
}

TEST_F(file_directory_test, write__what_cannot_be_written_leaves_nothing) {
  const auto results = run_ranks(1, [&](int) {
    const file_job job = join();
    rlimit most{};
    ::getrlimit(RLIMIT_FSIZE, &most);
    most.rlim_cur = 10;
    ::setrlimit(RLIMIT_FSIZE, &most);
    ::signal(SIGXFSZ, SIG_IGN);  // so that it is write() that fails
    std::string text;
    try {
      job.write("r0.0", std::string(11, 'x'));
    } catch (const backend_error& error) {
      text = error.what();
    }
    for (const auto& entry : fs::directory_iterator(job.folder()))
      text += " " + entry.path().filename().string() + ";";
    return text;
  });
  const std::string& text = results[0].text;
  EXPECT_TRUE(text.starts_with("file: writing ")) << text;
  EXPECT_TRUE(text.ends_with(" m0;")) << text;
  EXPECT_EQ(text.find(';'), text.size() - 1) << text;
}

}  // namespace
}  // namespace lci::boot
