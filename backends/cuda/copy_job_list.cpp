#include "backends/cuda/copy_job_list.hpp"

namespace lci::cuda {

void copy_job_list::add(mem::copy_job& job) noexcept {
  job.next = nullptr;
  append({&job, &job, 1});
}

void copy_job_list::append(copy_job_list other) noexcept {
  if (other.first == nullptr) return;
  (first == nullptr ? first : last->next) = other.first;
  last = other.last;
  count += other.count;
}

void copy_job_list::prepend(copy_job_list other) noexcept {
  other.append(*this);
  *this = other;
}

mem::copy_job* copy_job_list::take_first() noexcept {
  mem::copy_job* const job = first;
  if (job == nullptr) return nullptr;
  first = job->next;
  if (first == nullptr) last = nullptr;
  --count;
  job->next = nullptr;
  return job;
}

std::size_t copy_job_list::tell(std::string_view error) noexcept {
  std::size_t told = 0;
  while (mem::copy_job* const job = take_first()) {
    job->on_copied(error);
    ++told;
  }
  return told;
}

}  // namespace lci::cuda
