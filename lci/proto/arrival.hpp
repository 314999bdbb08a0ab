// What happens when the network has something: the sink that a channel hands to its backend's
// poll(). Threads: runs in the polling thread, which may re-enter through a handler that calls
// progress.
#pragma once

#include "lci/net/backend.hpp"
#include "lci/proto/channel.hpp"

namespace lci::proto {

class arrival_sink final : public net::sink {
 public:
  explicit arrival_sink(channel& via) noexcept : via_(via) {}

  net::verdict on_message(const net::arrival& message) noexcept override;
  void on_immediate(int rank, std::uint32_t imm) noexcept override;
  void on_complete(void* context) noexcept override;
  void on_error(int rank, void* context, std::string_view reason) noexcept override;
  void on_peer_gone(int rank, bool orderly, std::string_view reason) noexcept override;

 private:
  net::verdict deliver(const net::arrival& from, const std::byte* data, std::size_t size,
                       rcomp_t rcomp, tag_t tag) noexcept;
  net::verdict deliver_am(comp_impl_t& to, const net::arrival& from, const std::byte* data,
                          std::size_t size, tag_t tag) noexcept;
  LCI_COLD net::verdict on_control(const net::arrival& message) noexcept;
  LCI_COLD void on_rts(int rank, const wire::rts& request);
  LCI_COLD net::verdict drop_unknown(int rank, rcomp_t rcomp) noexcept;

  channel& via_;
};

// Status of an active message or a put with signal at its target.
status_t arrival_status(int rank, tag_t tag, void* buffer, std::size_t size) noexcept;

}  // namespace lci::proto
