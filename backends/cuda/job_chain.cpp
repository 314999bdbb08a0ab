#include "backends/cuda/job_chain.hpp"

namespace lci::cuda {

void job_chain::add(mem::copy_job& job) noexcept {
  job.next = nullptr;
  append({&job, &job, 1});
}

void job_chain::append(job_chain other) noexcept {
  if (other.first == nullptr) return;
  (first == nullptr ? first : last->next) = other.first;
  last = other.last;
  count += other.count;
}

void job_chain::prepend(job_chain other) noexcept {
  other.append(*this);
  *this = other;
}

mem::copy_job* job_chain::take_first() noexcept {
  mem::copy_job* const job = first;
  if (job == nullptr) return nullptr;
  first = job->next;
  if (first == nullptr) last = nullptr;
  --count;
  job->next = nullptr;
  return job;
}

std::size_t job_chain::tell(std::string_view error) noexcept {
  std::size_t told = 0;
  while (mem::copy_job* const job = take_first()) {
    job->on_copied(error);
    ++told;
  }
  return told;
}

}  // namespace lci::cuda
