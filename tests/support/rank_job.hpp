// A job as one of its ranks sees it, whatever started it: children of a test, or processes of
// several machines. Threads: the rank's. Always true: what was published before a barrier is there
// behind it.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace lci::test {

class rank_job {
 public:
  virtual ~rank_job() = default;
  virtual int rank() const noexcept = 0;
  virtual int size() const noexcept = 0;
  // Puts text where the others can read it, for once per name.
  virtual void publish(std::string_view name, std::string_view text) = 0;
  virtual std::string lookup(int rank, std::string_view name) const = 0;
  // Calls `meanwhile` until all others, but for those in `except`, have reached the point too.
  virtual void barrier(std::string_view point, const std::function<void()>& meanwhile,
                       const std::vector<int>& except = {}) = 0;
};

}  // namespace lci::test
