// Making a completion queue.
#include "lci/comp/queue.hpp"

#include <string>

#include "lci/errors.hpp"

namespace lci::comp {

std::size_t queue::first_capacity(const comp_attr_t& attr) {
  if (attr.cq_default_length < 1 || attr.cq_default_length > MAX_LENGTH)
    throw argument_error("alloc_cq: argument default_length is " +
                         std::to_string(attr.cq_default_length) + "; legal are 1 to " +
                         std::to_string(MAX_LENGTH));
  switch (attr.cq_type) {
    case attr_cq_type_t::array_atomic:
      return static_cast<std::size_t>(attr.cq_default_length);
    case attr_cq_type_t::lcrq:
      return data::mpmc_queue<status_t>::FIRST_CAPACITY;
    case attr_cq_type_t::per_thread:
      return 1;
  }
  throw argument_error("alloc_cq: argument cq_type is " +
                       std::to_string(static_cast<int>(attr.cq_type)) +
                       "; expected array_atomic (0), lcrq (1) or per_thread (2)");
}

queue::queue(const comp_attr_t& given)
    : of_kind(given),
      per_thread_(given.cq_type == attr_cq_type_t::per_thread ? new queue_per_thread : nullptr),
      statuses_(first_capacity(given)) {}

void queue::push_per_thread(const status_t& status) { per_thread_->push(status); }
void queue::pop_per_thread(status_t& status) noexcept { per_thread_->try_pop(status); }

}  // namespace lci::comp
