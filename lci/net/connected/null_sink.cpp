#include "lci/net/connected/null_sink.hpp"

#include <cstdint>
#include <string_view>

namespace lci::net::connected {
namespace {

class dropping_sink final : public sink {
  verdict on_message(const arrival&) noexcept override { return verdict::taken; }
  void on_immediate(int, std::uint32_t) noexcept override {}
  void on_complete(void*) noexcept override {}
  void on_error(int, void*, std::string_view) noexcept override {}
  void on_peer_ended(int, bool, std::string_view) noexcept override {}
};

}  // namespace

sink& null_sink() noexcept {
  static constinit dropping_sink one;
  return one;
}

}  // namespace lci::net::connected
