// What a program says that starts in another environment: a library is loaded once in a process.
// Threads: one, of a program that has no others.
#pragma once

#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>

#include "tests/support/scoped_env.hpp"

namespace lci::test {

// Runs the disabled test *says_what_it_finds of this program where the loader looks in the folder
// of that library first; what it prints behind "said: ".
inline std::string said_beside(const std::string& library) {
  scoped_env environment;
  environment.set("LD_LIBRARY_PATH", std::filesystem::path(library).parent_path().string());
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  FILE* const pipe = popen(
      (self + " --gtest_also_run_disabled_tests --gtest_filter=*says_what_it_finds 2>&1").c_str(),
      "r");
  std::string out;
  char line[512];
  while (pipe != nullptr && std::fgets(line, sizeof(line), pipe) != nullptr)
    if (std::string_view(line).starts_with("said: ")) out += line + 6;
  if (pipe != nullptr) pclose(pipe);
  return out;
}

}  // namespace lci::test
