#include "backends/ibv/wire.hpp"

#include "lci/net/connected/address_text.hpp"

namespace lci::ibv {
namespace {

constexpr std::string_view PREFIX = "ibv1:";

}  // namespace

std::string fabric_address::text() const {
  return net::connected::text_of(PREFIX, this, sizeof(*this));
}

bool fabric_address::parse(std::string_view text, fabric_address& out) noexcept {
  return net::connected::bytes_of(PREFIX, text, &out, sizeof(out)) == sizeof(out) && out.qpn != 0;
}

}  // namespace lci::ibv
