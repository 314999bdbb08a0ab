// A function that is called in the thread that signals. Immutable; thread safety is up to the
// function.
#pragma once

#include "lci/comp/kind.hpp"
#include "lci/errors.hpp"

namespace lci::comp {

class handler final : public of_kind<attr_comp_type_t::handler>, public base::live_object<handler> {
 public:
  using tombstone = freed;
  using orphan = forked;
  static constexpr std::size_t QUARANTINE = COMP_QUARANTINE;

  // Throws argument_error without a function.
  handler(const comp_attr_t& given, comp_handler_t function) : of_kind(given), function_(function) {
    if (function == nullptr)
      throw argument_error("alloc_handler: argument handler is null; expected a function");
  }

  comp_handler_t callee() const noexcept { return function_; }
  // Throws what the function throws.
  void run(const status_t& status) { function_(status); }

  void signal(status_t status) override { run(status); }

 private:
  const comp_handler_t function_;
};

}  // namespace lci::comp
