// Messages of kernels: see lci/gpu/message.hpp.
#include <cstring>
#include <exception>

#include "lci/errors.hpp"
#include "lci/proxy/proxy_world.hpp"

namespace lci::proxy {

using device::answer;
using device::failed;
using wqe::syndrome;

answer proxy_world::send(wqe::opcode op, const device::local_data& from, std::uint32_t imm,
                         bool) noexcept {
  if (aborted_.load(std::memory_order_relaxed)) return failed(syndrome::flushed);
  gpu::message_head head;
  if (op != wqe::opcode::send_imm || imm != gpu::MESSAGE || from.count != 1 ||
      from.pieces[0].key != 0 || !gpu::read_head(from.pieces[0].at, from.length, &head))
    return refuse(syndrome::local_qp_operation, "a send that is no message of an endpoint");
  message_ = from.pieces;
  doing_ = doing::message;
  return poll_message();
}

answer proxy_world::poll_message() noexcept {
  if (aborted_.load(std::memory_order_relaxed)) return failed(syndrome::flushed);
  gpu::message_head head;
  gpu::read_head(message_->at, message_->length, &head);
  if (head.kind == gpu::message_kind::recv) return receive(head);
  if (sends_.was_any_lost()) return lost("a message was lost");
  void* at = nullptr;
  std::size_t size = head.inline_length;
  mr_t mr = MR_HOST;
  if (head.length != 0) {
    at = keys_.own().resolve(head.lkey, head.laddr, head.length, device::READ);
    if (at == nullptr)
      return refuse(syndrome::local_protection, "the message is not inside the region of its key");
    size = head.length;
    mr = region_of(head.lkey);
  }
  open_sends::record* const record = sends_.take();
  if (record == nullptr) return UNDER_WAY;
  if (head.length == 0) {
    std::memcpy(record->bytes, message_->at + sizeof(head), size);
    at = record->bytes;
  }
  try {
    if (!post_message(head, *record, at, size, mr)) return UNDER_WAY;
  } catch (...) {
    open_sends::put(*record);
    return caught();
  }
  doing_ = doing::nothing;
  return {};
}

// False: not now.
bool proxy_world::post_message(const gpu::message_head& head, open_sends::record& record, void* at,
                               std::size_t size, mr_t mr) {
  const device_t device(&device_);
  const comp_t end(&record);
  const status_t status =
      head.kind == gpu::message_kind::send
          ? post_send_x(rank_, at, size, head.tag, end).device(device).mr(mr).call()
          : post_am_x(rank_, at, size, end, head.rcomp).tag(head.tag).device(device).mr(mr).call();
  if (!status.is_posted()) open_sends::put(record);
  return !status.is_retry();
}

answer proxy_world::receive(const gpu::message_head& head) noexcept {
  void* at = nullptr;
  if (head.length != 0) {
    at = keys_.own().resolve(head.lkey, head.laddr, head.length, device::WRITE);
    if (at == nullptr)
      return refuse(syndrome::local_protection, "the room of a receive is not inside its region");
  }
  open_receives::record* const record = receives_.take(head.rcomp);
  if (record == nullptr)
    return refuse(syndrome::local_qp_operation, "a receive without a slot for its result");
  record->rank = head.rank;
  const mr_t mr = head.length != 0 ? region_of(head.lkey) : MR_HOST;
  try {
    const status_t status = post_recv_x(head.rank < 0 ? ANY_SOURCE : head.rank, at, head.length,
                                        head.tag, comp_t(record))
                                .device(device_t(&device_))
                                .mr(mr)
                                .call();
    if (status.is_done()) record->end(gpu::status::ok, status);
  } catch (const truncation_error&) {
    // As for a message that comes later.
    device_.queues.engine().errors.keep(std::current_exception());
    record->end(gpu::status::too_long, status_t());
  } catch (const peer_failure_error&) {
    record->end(gpu::status::peer_lost, status_t());
  } catch (...) {
    open_receives::put(*record);
    return caught();
  }
  doing_ = doing::nothing;
  return {};
}

}  // namespace lci::proxy
