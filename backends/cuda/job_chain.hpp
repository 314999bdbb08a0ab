// Jobs in a row, linked through copy_job::next. Callers: copy_jobs, resident. Threads: single.
// Always true: a job is in one chain at most.
#pragma once

#include <cstddef>
#include <string_view>

#include "lci/mem/accelerator.hpp"

namespace lci::cuda {

struct job_chain {
  mem::copy_job* first = nullptr;
  mem::copy_job* last = nullptr;
  std::size_t count = 0;

  void add(mem::copy_job& job) noexcept;
  void append(job_chain other) noexcept;
  void prepend(job_chain other) noexcept;
  mem::copy_job* take_first() noexcept;  // null: none
  // Calls on_copied of each, in which the job may go; answers how many.
  std::size_t tell(std::string_view error) noexcept;
};

}  // namespace lci::cuda
