// This program once more, as the other process of a test: CUDA cannot be used after a fork.
// Threads: single.
#pragma once

#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/types.h>

#include <string>

extern char** environ;

namespace lci::cuda {

// Runs the disabled tests that the filter names, with `socket` as descriptor 3.
inline pid_t start_again(const std::string& tests, int socket) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, socket, 3);
  std::string name = "accelerator", filter = "--gtest_filter=" + tests,
              also = "--gtest_also_run_disabled_tests";
  char* arguments[] = {name.data(), filter.data(), also.data(), nullptr};
  pid_t child = -1;
  EXPECT_EQ(posix_spawn(&child, "/proc/self/exe", &actions, nullptr, arguments, environ), 0);
  posix_spawn_file_actions_destroy(&actions);
  return child;
}

}  // namespace lci::cuda
