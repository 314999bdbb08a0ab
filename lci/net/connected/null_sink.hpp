// A sink for whoever polls and does not want to hear anything any more, as at the end. Callers:
// backends. Threads: any. Always true: what it is told is dropped; a message counts as taken.
#pragma once

#include <cstdint>
#include <string_view>

#include "lci/net/backend.hpp"

namespace lci::net::connected {

class null_sink final : public sink {
  verdict on_message(const arrival&) noexcept override { return verdict::taken; }
  void on_immediate(int, std::uint32_t) noexcept override {}
  void on_complete(void*) noexcept override {}
  void on_error(int, void*, std::string_view) noexcept override {}
  void on_peer_gone(int, bool, std::string_view) noexcept override {}
};

}  // namespace lci::net::connected
