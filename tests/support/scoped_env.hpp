// Environment variables for the length of a test.
// Threads: single; nobody else may read the environment meanwhile.
// Always true: every variable that was touched has its former value afterwards.
#pragma once

#include <cstdlib>
#include <map>
#include <optional>
#include <string>

namespace lci::test {

class scoped_env {
 public:
  scoped_env() = default;
  scoped_env(const scoped_env&) = delete;
  scoped_env& operator=(const scoped_env&) = delete;
  ~scoped_env() {
    for (const auto& [name, value] : before_) {
      if (value)
        ::setenv(name.c_str(), value->c_str(), 1);
      else
        ::unsetenv(name.c_str());
    }
  }
  void set(const std::string& name, const std::string& value) {
    remember(name);
    ::setenv(name.c_str(), value.c_str(), 1);
  }
  void unset(const std::string& name) {
    remember(name);
    ::unsetenv(name.c_str());
  }

 private:
  void remember(const std::string& name) {
    const char* now = std::getenv(name.c_str());
    before_.emplace(name, now != nullptr ? std::optional<std::string>(now) : std::nullopt);
  }
  std::map<std::string, std::optional<std::string>> before_;
};

}  // namespace lci::test
