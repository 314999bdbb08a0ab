// run: see the header.
#include "lci/coll/run.hpp"

#include <atomic>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "lci/library_comp.hpp"

namespace lci::coll {
namespace {

// What a call that waits shares with its collective. If the call ends because a peer or a step has
// failed, this stays as long as the collective: transfers of the other ranks may still end.
struct waiting_t {
  // Without the defaults, which the program may have set for its own objects.
  explicit waiting_t(runtime_t runtime)
      : sync(alloc_sync_x().runtime(runtime).threshold(1).zero_copy_am(false)()) {}
  ~waiting_t() { free_comp(&sync); }
  waiting_t(const waiting_t&) = delete;
  waiting_t& operator=(const waiting_t&) = delete;

  comp_t sync;
  detail::collective_end_t end;  // written before sync is signalled
};

// One collective under way. It is the completion object of its own transfers: the last signal of a
// phase starts the next phase, in the thread that delivers it.
//
// Threads: shared. advance() runs in one thread at a time, because only the thread that takes
// pending_ to zero enters. Always true: the object deletes itself once no transfer refers to it,
// whether it finished or failed. If it is listed as unfinished when the runtime ends, the runtime
// deletes it.
class running_t final : public detail::library_comp_t, private detail::unfinished_t {
 public:
  // `name`: of the collective, for people.
  running_t(plan_t&& plan, const resources_t& resources, reduce_op_t op, comp_t comp,
            const char* name)
      : plan_(std::move(plan)), resources_(resources), op_(op), comp_(comp), name_(name) {
    unfinished_t::calls = &CALLS;
  }

  ~running_t() override {
    try {
      if (is_needing_all_) need_all(-1);
    } catch (const std::runtime_error&) {  // the device was freed before
    }
    detail::let_go(held_);
  }
  running_t(const running_t&) = delete;
  running_t& operator=(const running_t&) = delete;

  // No call waits for it: until it ends, callers of progress must be told of every loss.
  void need_all_from_now() {
    need_all(1);
    is_needing_all_ = true;
  }

  // And its object must not be freed before it is signalled.
  void hold_object() { held_ = detail::hold_comp(comp_, name_, resources_.runtime); }

  // This one is carried out first, and takes ownership of `next`; if ranks differ it throws.
  void precede(std::unique_ptr<running_t> next, std::shared_ptr<agreement_t> all) {
    next_collective_ = std::move(next);
    agreement_ = std::move(all);
  }

  // A call waits, and comp_ is its synchronizer.
  void keep(std::shared_ptr<waiting_t> call) { call_ = std::move(call); }

  // Takes its number among the collectives of the engine, which is in the tag bits above
  // NUMBER_BITS: 2^40 of them before a tag repeats. The last step before the start: all ranks
  // count alike, so a collective that could not begin for want of memory must not count.
  void take_number() {
    tag_base_ = detail::next_collective_sequence(resources_.engine) << NUMBER_BITS;
  }

  // Owns itself from here on. Throws what a post or the operator throws, unless a call waits.
  void start() {
    detail::list_unfinished(resources_.runtime, this);
    advance();
  }

  void signal(status_t) override {
    // edge collective.phase, both sides: the thread that takes pending_ to zero sees what every
    // other transfer of the phase brought, and is the only one to go on.
    if (pending_.fetch_sub(1, std::memory_order_acq_rel) == 1) advance();
  }

  // A transfer will never end, so neither will the collective. A call that waits ends by the loss.
  void lose() noexcept override {
    begin_to_fail();
    // edge collective.phase
    if (pending_.fetch_sub(1, std::memory_order_acq_rel) == 1) give_up();
  }

  void fail(std::exception_ptr why) noexcept override {
    tell_failed(std::move(why), true);
    lose();
  }

 private:
  void need_all(int change) const {
    detail::progress_args args;
    args.runtime = resources_.runtime;
    args.device = resources_.device;
    args.endpoint = resources_.endpoint;
    detail::need_all(args, change);
  }

  // True for the first caller that finds that the collective will not end well. What is left of
  // this phase may never end, so the object is released to the program at once.
  bool begin_to_fail() noexcept {
    // Relaxed: decides which caller goes on here; the subtraction that each caller makes after it
    // publishes it, and what was released, to the thread that enters.
    if (has_failed_.exchange(true, std::memory_order_relaxed)) return false;
    for (running_t* each = this; each != nullptr; each = each->next_collective_.get())
      detail::let_go(std::exchange(each->held_, nullptr));
    return true;
  }

  // A step has failed, and the call that waits ends at once: what is left of this phase may wait
  // for ranks that wait for us. A thread that carries out steps, which use the buffers, tells
  // behind them.
  void tell_failed(std::exception_ptr why, bool is_with_progress) noexcept {
    if (!begin_to_fail() || call_ == nullptr) return;
    call_->end.has_failed = true;
    call_->end.is_with_progress = is_with_progress;
    call_->end.why = std::move(why);
    // edge collective.end: what is told; partner is leave_steps().
    steps now = steps::carried_out;
    if (!steps_.compare_exchange_strong(now, steps::failed, std::memory_order_release,
                                        std::memory_order_relaxed))
      end_call();
  }

  // After it this thread uses the caller's buffers no more.
  void leave_steps() noexcept {
    // edge collective.end: partner is tell_failed().
    if (steps_.exchange(steps::none, std::memory_order_acquire) == steps::failed) end_call();
  }

  void end_call() noexcept { comp_signal(comp_, status_t(errorcode_t::done)); }

  void advance() {
    for (;;) {
      if (has_failed_.load(std::memory_order_relaxed) || next_ == plan_.steps().size())
        return finish();
      // One count for this loop, so that transfers that end early do not enter it a second time.
      // Relaxed: nothing of this phase is posted yet; a post publishes it to the signalling thread.
      pending_.store(1, std::memory_order_relaxed);
      steps_.store(steps::carried_out, std::memory_order_relaxed);
      try {
        run_phase();
        leave_steps();
      } catch (...) {
        // The transfers already posted still name this object. The last of them frees it, and if
        // there is none, this call does.
        const bool is_waited_for = call_ != nullptr;
        leave_steps();
        tell_failed(std::current_exception(), false);
        // edge collective.phase
        if (pending_.fetch_sub(1, std::memory_order_acq_rel) == 1) give_up();
        if (is_waited_for) return;
        throw;
      }
      // edge collective.phase
      if (pending_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    }
  }

  void run_phase() {
    while (next_ < plan_.steps().size()) {
      const step_t& step = plan_.steps()[next_++];
      switch (step.kind) {
        case step_t::kind_t::send:
        case step_t::kind_t::recv:
          transfer(step);
          break;
        case step_t::kind_t::copy:
          std::memcpy(step.into, step.from, step.amount);
          break;
        case step_t::kind_t::combine:
          op_(step.from, step.into, step.into, step.amount);
          break;
        case step_t::kind_t::join:
          return;
      }
    }
  }

  // Never returns retry: this may run inside progress(), where waiting is forbidden.
  void transfer(const step_t& step) {
    // Relaxed: raised above the 1 that this thread holds; the post below publishes it.
    pending_.fetch_add(1, std::memory_order_relaxed);
    const comp_t self(static_cast<void*>(static_cast<comp_impl_t*>(this)));
    const tag_t tag = tag_base_ + step.number;
    status_t status;
    try {
      if (step.kind == step_t::kind_t::send) {
        // The interface takes every buffer without const; a send only reads it.
        post_send_x op(step.peer, const_cast<void*>(step.from), step.amount, tag, self);
        status = post(op);
      } else {
        post_recv_x op(step.peer, step.into, step.amount, tag, self);
        status = post(op);
      }
    } catch (...) {
      // Relaxed: as above.
      pending_.fetch_sub(1, std::memory_order_relaxed);
      throw;
    }
    if (call_ != nullptr && status.error.errorcode == errorcode_t::done_backlog)
      note_backlog(step.peer);
    // Done at once: there will be no signal. Relaxed: never the last one, see advance().
    if (status.is_done()) pending_.fetch_sub(1, std::memory_order_relaxed);
  }

  // Without memory for it the call does not wait for that message.
  void note_backlog(int rank) noexcept {
    try {
      call_->end.backlogged.push_back(rank);
    } catch (const std::bad_alloc&) {
    }
  }

  template <class Op>
  status_t post(Op& op) const {
    op.allow_retry(false).matching_engine(resources_.engine).comp_semantic(resources_.semantic);
    // Not by the setters, which refuse an empty handle: here it means the default.
    op.args.runtime = resources_.runtime;
    op.args.device = resources_.device;
    op.args.endpoint = resources_.endpoint;
    return op();
  }

  // The devices no longer exist: there is nothing to undo on them.
  static void end_with_runtime(detail::unfinished_t* one) {
    const std::unique_ptr<running_t> self(static_cast<running_t*>(one));
    for (running_t* each = self.get(); each != nullptr; each = each->next_collective_.get())
      each->is_needing_all_ = false;
  }

  static detail::unfinished_text_t describe(const detail::unfinished_t* one) {
    const auto* const self = static_cast<const running_t*>(one);
    return {self->name_, self->tag_base_ >> NUMBER_BITS, self->resources_.engine.p_impl,
            self->comp_.p_impl, static_cast<const comp_impl_t*>(self)};
  }

  void give_up() noexcept {
    const std::unique_ptr<running_t> self(this);
    detail::unlist_unfinished(resources_.runtime, this);
  }

  void finish() {
    if (has_failed_.load(std::memory_order_relaxed)) return give_up();
    const std::unique_ptr<running_t> self(this);
    detail::unlist_unfinished(resources_.runtime, this);
    if (next_collective_ != nullptr) {
      agreement_->check();
      return next_collective_.release()->start();
    }
    // The receiver of the signal may free the object.
    detail::let_go(std::exchange(held_, nullptr));
    detail::check_comp(name_, comp_);
    // This may run at a depth at which the program's handlers may not.
    detail::comp_signal_args args;
    args.comp = comp_;
    args.status = status_t(errorcode_t::done);
    args.runtime = resources_.runtime;
    detail::signal_in_turn(args, resources_.device, resources_.endpoint);
  }

  static constexpr detail::unfinished_calls_t CALLS{&end_with_runtime, &describe};

  const plan_t plan_;
  std::shared_ptr<agreement_t> agreement_;  // used by the plan, if any
  std::unique_ptr<running_t> next_collective_;
  const resources_t resources_;
  const reduce_op_t op_;
  const comp_t comp_;   // signalled once, at the end
  tag_t tag_base_ = 0;  // tag of message number 0
  const char* const name_;
  detail::held_comp* held_ = nullptr;  // comp_, where the caller gave it
  std::shared_ptr<waiting_t> call_;    // that waits, if one does
  // Transfers of this phase under way, plus one while the phase is being posted.
  std::atomic<int> pending_{0};
  size_t next_ = 0;  // step to carry out; touched only by the thread that advances
  enum class steps : int { none, carried_out, failed };
  std::atomic<steps> steps_{steps::none};
  std::atomic<bool> has_failed_{false};  // an exception left a phase, or a transfer will not end
  bool is_needing_all_ = false;
};

// Carries out one plan and waits for its end. `uses`: an object that the plan uses, kept as long;
// then another plan of the same call follows.
void run_and_wait(plan_t&& plan, const resources_t& resources, reduce_op_t op, const char* name,
                  const std::shared_ptr<agreement_t>& uses) {
  const auto call = std::make_shared<waiting_t>(resources.runtime);
  auto running = std::make_unique<running_t>(std::move(plan), resources, op, call->sync, name);
  running->precede(nullptr, uses);
  running->keep(call);
  running->take_number();
  running.release()->start();
  detail::sync_args waited;
  waited.comp = call->sync;
  waited.runtime = resources.runtime;
  waited.device = resources.device;
  waited.endpoint = resources.endpoint;
  detail::wait_for_collective(waited, call->end, uses == nullptr);
}

}  // namespace

void run(plan_t&& plan, const resources_t& resources, reduce_op_t op, comp_t comp,
         const call_t& call) {
  detail::check_comp("collective", comp);
  if (comp.is_empty()) detail::check_may_wait();  // before the collective is counted
  // Even ranks that exchange nothing with the lost one wait for some that do, and these give up.
  detail::progress_args needed;
  needed.runtime = resources.runtime;
  needed.device = resources.device;
  needed.endpoint = resources.endpoint;
  detail::check_none_lost(needed);
  std::shared_ptr<agreement_t> all;
  std::optional<plan_t> first;
  if (is_agreement_checked()) {
    all = std::make_shared<agreement_t>(call, plan.me());
    all->write(first.emplace(plan.me(), plan.n()));
  }
  if (comp.is_empty()) {
    if (all != nullptr) {
      run_and_wait(std::move(*first), resources, &agreement_t::merge, call.operation, all);
      // Calls that do not wait have taken both numbers before they know, and all ranks count alike.
      if (all->has_difference()) detail::next_collective_sequence(resources.engine);
      all->check();
    }
    return run_and_wait(std::move(plan), resources, op, call.operation, nullptr);
  }
  auto running = std::make_unique<running_t>(std::move(plan), resources, op, comp, call.operation);
  running->hold_object();
  running->need_all_from_now();
  detail::check_none_lost(needed);  // for ranks lost before that
  if (all != nullptr) {
    auto before = std::make_unique<running_t>(std::move(*first), resources, &agreement_t::merge,
                                              comp_t(), call.operation);
    before->take_number();
    running->take_number();
    before->precede(std::move(running), std::move(all));
    running = std::move(before);
  } else {
    running->take_number();
  }
  running.release()->start();
}

resources_t resources_of(const detail::collective_args& args) {
  const runtime_t runtime = detail::runtime_of(args.runtime, args.device, args.endpoint);
  const matching_engine_t engine = args.matching_engine.is_empty()
                                       ? detail::get_collective_engine(runtime)
                                       : args.matching_engine;
  if (args.comp_semantic != comp_semantic_t::memory &&
      args.comp_semantic != comp_semantic_t::network)
    throw argument_error("collective: comp_semantic " +
                         std::to_string(static_cast<int>(args.comp_semantic)) +
                         " is out of range; legal are memory (0) and network (1)");
  return {runtime, args.device, args.endpoint, engine, args.comp_semantic};
}

}  // namespace lci::coll
