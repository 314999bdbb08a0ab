// A gdrcopy without a GPU, for memory of the mock driver: a shared library called libgdrapi.so.2
// that is loaded like the real one. What a test wants to know or to set goes through this
// interface, which the same library hands out (lci_mock_gdr()).
//
// The model: a mapping is an address range that nobody can touch; the copies look at each call for
// the memory behind it. Memory that was freed since it was pinned, allocated anew or not, ends the
// program, where the real mapping would raise SIGBUS. Threads: shared, one lock; two threads in
// calls that the real library does not protect end the program too.
// Always true: every call is counted by name; every pin and mapping is known until it is undone.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace lci::test {

class mock_gdr {
 public:
  // Everything as at the start.
  virtual void reset() = 0;
  virtual void set_version(int major, int minor) = 0;
  virtual void set_module_loaded(bool loaded) = 0;
  // The n-th call from now (1 = the next one) of that name answers `code` (gdr_open: null).
  virtual void fail_nth(const std::string& call, int n, int code) = 0;
  virtual std::size_t count(const std::string& call) = 0;
  virtual void forget_counts() = 0;
  virtual std::size_t pinned_bytes() = 0;
  // One line per thing that is still held: opened modules, pins, mappings.
  virtual std::vector<std::string> leaks() = 0;

 protected:
  ~mock_gdr() = default;
};

// Loads the library from `path`, or finds the one that the process has loaded already (empty). Null
// when there is none, or it is no mock.
mock_gdr* load_mock_gdr(const std::string& path);

}  // namespace lci::test
