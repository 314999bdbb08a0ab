#include "lci/api/post_run.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <string>
#include <utility>

#include "lci/errors.hpp"

namespace lci::api {

void throw_no_answer_allowed() {
  throw argument_error(
      "allow_done and allow_posted are both false: no result is left for a finished operation");
}

void throw_bad_rank(const char* who, int rank, int n) {
  throw argument_error(std::string(who) + ": rank " + std::to_string(rank) + " is not in 0.." +
                       std::to_string(n - 1));
}

void throw_bad_policy(const post_args& a) {
  throw argument_error("matching_policy " +
                       std::to_string(static_cast<unsigned>(a.matching_policy)) +
                       " is not in 0..3");
}

void throw_bad_semantic(comp_semantic_t semantic) {
  throw argument_error("comp_semantic " + std::to_string(static_cast<int>(semantic)) +
                       " is out of range; legal are memory (0) and network (1)");
}

void throw_too_wide(const post_args& a, const proto::core& core) {
  throw argument_error(
      "tag " + std::to_string(a.tag) + " and remote_comp " + std::to_string(a.remote_comp) +
      " do not fit the notification of a put; the largest are " +
      std::to_string(core.imm.max_tag()) + " and " + std::to_string(core.imm.max_rcomp()));
}

void throw_get_with_number(const post_args& a) {
  throw argument_error("remote_comp " + std::to_string(a.remote_comp) +
                       " with a get: not supported");
}

void look_at_number(const char* who, rcomp_t number, const proto::core& core) {
  const std::string said = std::string(who) + ": remote_comp " + std::to_string(number);
  if (number == 0)
    throw argument_error(said + " names nothing; legal are numbers from register_rcomp()");
  if (core.rcomps.is_of_engine(number))
    throw argument_error(said +
                         " belongs to a matching engine, to which post_send() sends; legal "
                         "are numbers from register_rcomp()");
}

namespace {

void progress_and_keep(waiting& wait, const proto::waiter* w, int rank, std::exception_ptr& kept) {
  wait.progress_and_keep(
      [&]() noexcept {
        return base::waiting_call{BLOCKING_POST, w, rank};
      },
      kept);
}

// Ends the call if what it waits for is lost: its peer or, for ANY_SOURCE, any rank.
void check_source(proto::device_queues& queues, int rank, waiting& wait) {
  if (rank >= 0)
    check_peer(queues, rank);
  else
    wait.check();
}

// What the call waits for will not come from that rank. What a rank sent before it left may still
// be on its way over any device, so a receive goes on until all of it is in.
bool is_given_up(proto::progress_engine& engine, int rank, bool is_receive) {
  if (!engine.watch.has_ended(rank)) [[likely]]
    return false;
  return !is_receive || engine.shared.peers.has_failed(rank) || engine.watch.is_all_in(rank);
}

// No handler can run here. If only this process itself can be the peer of the operation, or if the
// program allows no longer wait, the operation ends, unless a message has met it.
LCI_COLD void end_if_held_up(proto::waiter* w, proto::device_queues& queues, int rank,
                             waiting& wait, proto::matcher* filed_in, bool& is_met) {
  const bool is_with_us = rank == queues.engine().shared.me || queues.engine().shared.n == 1;
  if (!is_met && wait.has_to_end(is_with_us)) {
    if (filed_in == nullptr)
      w->abandon();
    else if (filed_in->take_back(*w))
      queues.engine().shared.waiters.put(w);
    else
      is_met = true;
  }
  // An operation that has met a message ends by itself.
  if (!is_met) wait.tell_held_up(BLOCKING_POST, is_with_us);
}

// Throws where the operation has ended otherwise; nothing of it is under way then.
void wait_until_over(proto::waiter* w, proto::device_queues& queues, int rank, waiting& wait,
                     proto::matcher* filed_in, std::exception_ptr& kept) {
  bool is_met = false;  // by a message, so that it comes to an end by itself
  while (!w->is_over()) {
    progress_and_keep(wait, w, rank, kept);
    if (w->is_over()) break;
    if (wait.is_held_up()) [[unlikely]]
      end_if_held_up(w, queues, rank, wait, filed_in, is_met);
    const bool is_lost =
        rank >= 0 ? is_given_up(queues.engine(), rank, filed_in != nullptr) : wait.has_loss();
    if (!is_lost || is_met) continue;
    if (filed_in != nullptr && filed_in->take_back(*w)) {
      queues.engine().shared.waiters.put(w);
    } else if (filed_in != nullptr) {
      is_met = true;
      continue;
    } else {
      w->abandon();
    }
    check_source(queues, rank, wait);
  }
}

// The operation has failed. What other things have thrown, the next call of progress throws.
[[noreturn]] LCI_COLD void throw_failed(proto::waiter* w, proto::device_queues& queues, int rank,
                                        waiting& wait, std::exception_ptr& kept) {
  const int lost_rank = w->lost_rank();
  const std::exception_ptr why = w->take_why();
  queues.engine().shared.waiters.put(w);
  // A receive from any source may have met the request of a rank that was lost before the call, and
  // that this device has not counted yet.
  if (lost_rank >= 0) wait.end_for(lost_rank);
  // Before the source is looked at: it may have left behind a message that does not fit.
  if (why) {
    queues.engine().errors.take_away(why);
    if (kept == why) kept = nullptr;
    std::rethrow_exception(why);
  }
  check_source(queues, rank, wait);
  wait.throw_failed(std::exchange(kept, nullptr));
}

}  // namespace

bool is_taken_back(proto::waiter* w, proto::device_queues& queues, waiting& wait,
                   proto::matcher& filed_in) {
  // An exception from progress may end the call only if nothing is under way any more.
  std::exception_ptr kept;
  progress_and_keep(wait, w, base::waiting_call::ANYBODY, kept);
  const bool is_back = !w->is_over() && filed_in.take_back(*w);
  if (is_back) queues.engine().shared.waiters.put(w);
  if (kept && is_back) std::rethrow_exception(kept);
  if (kept) queues.engine().errors.keep(kept);
  return is_back;
}

status_t wait_for(proto::waiter* w, proto::device_queues& queues, int rank, waiting& wait,
                  proto::matcher* filed_in) {
  std::exception_ptr kept;
  status_t result;
  try {
    wait_until_over(w, queues, rank, wait, filed_in, kept);
    if (w->has_failed()) [[unlikely]]
      throw_failed(w, queues, rank, wait, kept);
    result = w->result();
    queues.engine().shared.waiters.put(w);
  } catch (...) {
    // The next call of progress throws it.
    if (kept) queues.engine().errors.keep(kept);
    throw;
  }
  if (kept) std::rethrow_exception(kept);
  return result;
}

namespace {

// The buffer may be in a packet. If the packet's payload is apart, the packet gives its place: the
// caller need not.
LCI_COLD void find_packet(const post_args& a, const proto::core& core, proto::outgoing& out) {
  out.packet = mem::packet_pool::held(core.arena, a.local_buffer);
  if (out.packet == nullptr || a.size > out.packet->capacity) [[unlikely]]
    check_packet_room("local_buffer", a.local_buffer, a.size, core.arena);
  const mem::far_packet* near = mem::find_near(core.arena.payloads(), a.local_buffer);
  if (out.is_apart()) {
    auto& mine = static_cast<mem::far_packet&>(*out.packet);
    mem::home_of(mine).enter_operation(mine);
    near = &mine;
  } else if (near == nullptr || a.mr.p_impl != nullptr) {
    return;
  } else if (near->place->kind != mem::mem_kind::host) {
    throw argument_error(
        "local_buffer is GPU memory of a packet pool, but not the start of a packet that the "
        "program owns");
  }
  out.has_mr = true;
  out.kind = a.size != 0 ? near->place->kind : mem::mem_kind::host;
  out.gpu = near->place->device;
  if (out.kind != mem::mem_kind::host) out.host.accelerator->use(*near->place->domain);
}

}  // namespace

status_t refused(const post_args& a, proto::device_queues& queues, errorcode_t why) noexcept {
  queues.engine().refuse(a.rank, why);
  return status_t(why);
}

void spent_packet::begin() noexcept {
  if (packet_->state.load(std::memory_order_relaxed) == mem::packet_state::out)
    packet_->state.store(mem::packet_state::posted, std::memory_order_relaxed);
  else
    packet_ = nullptr;
}

void spent_packet::end() noexcept {
  packet_->state.store(mem::packet_state::out, std::memory_order_relaxed);
}

proto::outgoing describe(const post_args& a, endpoint_impl_t& end, const proto::user_side& user,
                         bool may_retry) {
  packet_pool_impl_t* pool = &end.device.pool;
  std::size_t bcopy_limit = end.bcopy_limit;
  if (a.packet_pool.p_impl != nullptr) {
    packet_pool_impl_t* const given = a.packet_pool.p_impl;
    if (given->payloads == nullptr) pool = given;
    bcopy_limit = std::min(bcopy_limit, pool->max_bcopy());
  }
  proto::outgoing out{*end.queue, end.device.queues.host, pool->packets};
  out.inject_limit = end.inject_limit;
  out.bcopy_limit = bcopy_limit;
  out.rank = a.rank;
  out.buffer = a.local_buffer;
  out.size = a.size;
  out.tag = a.tag;
  out.user = user;
  out.wants_network = a.comp_semantic == comp_semantic_t::network;
  out.may_retry = may_retry;
  if (a.mr.p_impl != nullptr) {
    out.has_mr = true;
    if (a.mr.is_empty()) {
      // MR_DEVICE or MR_UNKNOWN.
      const mem::memory_place place =
          find_place("local_buffer", a.local_buffer, a.size, a.mr, end.device.owner().shared);
      out.kind = place.kind;
      out.gpu = place.device;
    } else {
      const mr_impl_t& mr = *a.mr.p_impl;
      out.kind = mr.place.kind;
      out.gpu = mr.place.device;
      out.local_key = mr.key.get();
      out.off_network = mr.key.is_off();
    }
    if (a.size == 0) out.kind = mem::mem_kind::host;  // there is nothing to read
  }
  if (end.core.arena.packet_window().covers(a.local_buffer)) find_packet(a, end.core, out);
  if (end.checks_pointers && out.packet == nullptr)
    check_pointer("local_buffer", a.local_buffer, a.size, a.mr);
  return out;
}

}  // namespace lci::api
