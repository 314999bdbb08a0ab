// Copy jobs in a list, linked through copy_job::next. Callers: copy_batcher, resident.
// Threads: single. Always true: a job is in one list at most.
#pragma once

#include <cstddef>
#include <string_view>

#include "lci/mem/accelerator.hpp"

namespace lci::cuda {

struct copy_job_list {
  mem::copy_job* first = nullptr;
  mem::copy_job* last = nullptr;
  std::size_t count = 0;

  void add(mem::copy_job& job) noexcept;
  void append(copy_job_list other) noexcept;
  void prepend(copy_job_list other) noexcept;
  mem::copy_job* take_first() noexcept;  // null: none
  // Calls on_copied of each, in which the job may go; answers how many.
  std::size_t tell(std::string_view error) noexcept;
};

}  // namespace lci::cuda
