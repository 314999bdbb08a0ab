// A counter of completions: the status is dropped, the number stays.
//
// Threads: shared; one locked instruction a signal, none to read.
//
// Always true: a thread that reads n sees what was written before each of the signals counted.
#pragma once

#include <atomic>
#include <cstdint>

#include "lci/comp/kind.hpp"

namespace lci::comp {

class counter final : public of_kind<attr_comp_type_t::counter>, public base::live_object<counter> {
 public:
  using tombstone = freed;
  using orphan = forked;
  static constexpr std::size_t QUARANTINE = COMP_QUARANTINE;

  explicit counter(const comp_attr_t& given) : of_kind(given) {}

  // edge counter.value, writer; additions after it keep the edge (a release sequence).
  void add_one() noexcept { value_.fetch_add(1, std::memory_order_release); }
  // edge counter.value, reader.
  std::int64_t get() const noexcept { return value_.load(std::memory_order_acquire); }
  // edge counter.value, writer.
  void set(std::int64_t value) noexcept { value_.store(value, std::memory_order_release); }

  void signal(status_t) override { add_one(); }

 private:
  std::atomic<std::int64_t> value_{0};
};

}  // namespace lci::comp
