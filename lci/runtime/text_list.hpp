// Many short texts, one after the other in one piece of memory: 4 bytes more than their own for
// each, where a vector of strings needs some 60. Callers: introductions, directory. Threads:
// single; readers may share one that no longer changes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lci::runtime {

class text_list {
 public:
  std::size_t size() const noexcept { return ends_.size(); }
  bool empty() const noexcept { return ends_.empty(); }
  // Together less than 4 GiB, as addresses of MAX_RANKS ranks are. Throws std::bad_alloc: then it
  // is not in the list.
  void add(std::string_view text) {
    const std::size_t before = bytes_.size();
    bytes_ += text;
    try {
      ends_.push_back(static_cast<std::uint32_t>(bytes_.size()));
    } catch (...) {
      bytes_.resize(before);
      throw;
    }
  }
  // Valid until the next add().
  std::string_view operator[](std::size_t i) const noexcept {
    const std::size_t begin = i == 0 ? 0 : ends_[i - 1];
    return std::string_view(bytes_).substr(begin, ends_[i] - begin);
  }

 private:
  std::string bytes_;
  std::vector<std::uint32_t> ends_;
};

}  // namespace lci::runtime
