// The network without a card that LCI_TEST_NETWORK names, for tests that let its calls fail. The
// library is found by LD_LIBRARY_PATH, as the backend finds it. Threads: single.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace lci::test {

class fake_network {
 public:
  // Of both libraries, that make something or change it; others would only be asked again.
  static const std::vector<std::string> CALLS;

  // Null: the variable is not set. Aborts where there is no such library, or another one.
  static std::unique_ptr<fake_network> wanted();
  virtual ~fake_network() = default;

  virtual const char* name() const = 0;      // of the backend
  virtual std::size_t live() const = 0;      // objects
  bool has_shm() const { return has_shm_; }  // beside it
  // Runs `action` while the n-th call of that name fails. True: it did.
  bool fail(const std::string& call, std::uint64_t n, const std::function<void()>& action);

 protected:
  virtual void arm(const std::string& call, int n) = 0;
  virtual void disarm(const std::string& call) = 0;
  virtual std::size_t count(const std::string& call) const = 0;

 private:
  bool has_shm_ = false;
};

}  // namespace lci::test
