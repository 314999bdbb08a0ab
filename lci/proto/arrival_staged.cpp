// The messages that only GPU memory needs, handed to those whom they concern.
#include "lci/proto/arrival.hpp"
#include "lci/proto/rendezvous.hpp"

namespace lci::proto {

namespace {

// Decodes a body and hands it on; false: it does not parse.
template <class Body, class F>
bool take(const std::byte* data, std::size_t size, F&& handle) {
  Body body;
  if (!wire::decode(data, size, body)) return false;
  handle(body);
  return true;
}

}  // namespace

bool arrival_sink::on_staged(int rank, wire::staged_kind what, const std::byte* data,
                             std::size_t size) {
  staged_transfers& to = via_.staged;
  switch (what) {
    case wire::staged_kind::put_request:
      return take<wire::put_request>(data, size,
                                     [&](const auto& body) { on_put_request(rank, body); });
    case wire::staged_kind::get_request:
      return take<wire::get_request>(data, size,
                                     [&](const auto& body) { to.on_get_request(rank, body); });
    case wire::staged_kind::piece:
      return take<wire::piece>(data, size, [&](const auto& body) { to.on_piece(rank, body); });
    case wire::staged_kind::credit:
      return take<wire::credit>(data, size, [&](const auto& body) { to.on_credit(rank, body); });
    case wire::staged_kind::ack:
      return take<wire::ack>(data, size, [&](const auto& body) { to.on_ack(rank, body.sender); });
    case wire::staged_kind::restage:
      return take<wire::restage>(data, size,
                                 [&](const auto& body) { on_restage(via_, rank, body); });
    case wire::staged_kind::drop_send:
      return take<wire::drop>(data, size, [&](const auto& body) {
        if (body.staged != 0)
          to.on_drop_send(rank, body.whose);
        else
          on_dropped_send(via_, rank, body.whose);
      });
    case wire::staged_kind::await_flag:
      return take<wire::await_flag>(data, size,
                                    [&](const auto& body) { via_.flags.on_await(rank, body); });
    case wire::staged_kind::landing:
      return take<wire::landing>(data, size,
                                 [&](const auto& body) { via_.flags.on_landing(rank, body); });
    case wire::staged_kind::offer:
      return take<wire::offer>(data, size,
                               [&](const auto& body) { via_.known_offers.on_offer(rank, body); });
    case wire::staged_kind::claim:
      return take<wire::claim>(data, size,
                               [&](const auto& body) { via_.offered.on_claim(rank, body); });
    case wire::staged_kind::offer_end:
      return take<wire::offer_end>(data, size,
                                   [&](const auto& body) { via_.offered.on_end(rank, body); });
    case wire::staged_kind::drop_receive:
      return take<wire::drop>(data, size, [&](const auto& body) {
        if (body.staged != 0)
          to.on_drop_receive(rank, body.whose);
        else
          on_dropped_receive(via_, rank, body.whose);
      });
  }
  return false;
}

void arrival_sink::on_put_request(int rank, const wire::put_request& request) {
  const auto to = via_.shared.find_range(request.region, request.offset, request.size);
  if (to.at == nullptr || request.size == 0)
    return via_.say(rank, wire::staged_kind::drop_send, wire::drop{request.sender, 0, 0});
  recv_plan plan;
  plan.rank = rank;
  plan.what = receiver::put;
  plan.user.status.buffer = to.at;
  plan.user.status.size = request.size;
  plan.kind = to.kind;
  plan.gpu = to.gpu;
  plan.imm = request.imm;
  via_.staged.receive(request.sender, plan);
}

}  // namespace lci::proto
