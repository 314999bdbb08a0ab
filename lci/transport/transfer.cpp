// The public class of an operation under way.
#include "lci/transfer.hpp"

#include "lci/comp/signal.hpp"
#include "lci/errors.hpp"
#include "lci/transport/core.hpp"
#include "lci/transport/memory_table.hpp"

namespace lci {

namespace {

const transports::operation& checked(const std::shared_ptr<transports::operation>& op) {
  if (op == nullptr) throw argument_error("the transfer is not valid");
  return *op;
}

}  // namespace

bool transfer::is_done() const { return checked(op_).is_done(); }
bool transfer::is_in_use() const { return !checked(op_).is_quiet(); }

bool transfer::wait(double limit_s) const {
  transports::check_limit("wait", limit_s);
  if (checked(op_).is_done()) return true;
  const auto core = op_->transport();
  // Without its transport it has ended, or is just ending in another thread.
  return core == nullptr ? op_->is_done()
                         : core->wait_until(limit_s, [this] { return op_->is_done(); });
}

void transfer::get() const {
  wait();
  if (!is_done()) throw cancelled_error("the transport of the operation has ended");
  if (op_->problem() != nullptr) std::rethrow_exception(op_->problem());
}

bool transfer::cancel() const {
  if (checked(op_).is_done()) return false;
  const auto core = op_->transport();
  return core != nullptr && core->cancel(*op_);
}

notification transfer::note() const {
  get();
  return op_->note();
}

void transfer::on_done(callback function) const {
  checked(op_);
  op_->follow(std::move(function));
}

void transfer::signal(comp_t comp, void* user_context) const {
  detail::check_comp("transfer::signal", comp);
  if (comp.is_empty()) throw argument_error("transfer::signal: comp is empty");
  const transports::operation& op = checked(op_);
  status_t status(errorcode_t::done);
  status.size = op.size();
  status.user_context = user_context;
  // The operation keeps the function, and must not keep itself.
  const std::weak_ptr<transports::operation> held = op_;
  on_done([=](const std::exception_ptr& problem) mutable {
    if (problem != nullptr) status.error = errorcode_t::fatal;
    if (const auto one = held.lock()) status.tag = one->tag;
    comp::signal(comp.p_impl, status);
  });
}

}  // namespace lci
