// What happens when the network has something: the sink that a device hands to its backend's
// poll(). Threads: runs in the polling thread, on_message_beside() in others that share the device;
// each may re-enter through a handler that calls progress. Always true: no code of the program runs
// before the bytes of the message are where they belong, since that code may poll, and their place
// is the network's again then.
#pragma once

#include "lci/net/backend.hpp"
#include "lci/proto/host/host_context.hpp"

namespace lci::proto {

class arrival_sink : public net::sink {
 public:
  // depth: of the handlers that it runs.
  arrival_sink(host_context& host, std::uint32_t depth) noexcept : host_(host), depth_(depth) {}
  // Has to be called once nothing more arrives. Not a destructor: with one, each round of progress
  // would write its table of virtual functions once more.
  void end() noexcept {
    if (spare_ != nullptr) give_home();
  }
  arrival_sink(const arrival_sink&) = delete;
  arrival_sink& operator=(const arrival_sink&) = delete;

  net::verdict on_message(const net::arrival& message) noexcept final;
  net::verdict on_message_beside(const net::arrival& message) noexcept final;
  // A message that has waited for its turn, for a completion object.
  LCI_COLD net::verdict deliver_in_turn(const net::arrival& from, rcomp_t rcomp,
                                        tag_t tag) noexcept;
  void on_immediate(int rank, std::uint32_t imm) noexcept final;
  void on_complete(void* context) noexcept final;
  void on_error(int rank, void* context, std::string_view reason) noexcept final;
  void on_peer_ended(int rank, bool orderly, std::string_view reason) noexcept final;

 private:
  net::verdict deliver(const net::arrival& from, rcomp_t rcomp, tag_t tag) noexcept;
  [[gnu::noinline]] net::verdict deliver_am(comp_impl_t& to, const net::arrival& from,
                                            tag_t tag) noexcept;
  [[gnu::noinline]] net::verdict deliver_any_am(comp_impl_t& to, const net::arrival& from,
                                                tag_t tag) noexcept;
  net::verdict deliver_copy(comp_impl_t& to, int rank, const std::byte* data, std::size_t size,
                            tag_t tag) noexcept;
  // Whether what is for that object has to wait for its turn.
  bool has_to_wait(const comp_impl_t& to) const noexcept {
    return depth_ > host_.engine.handlers.open_to() && comp::runs_user_code(to);
  }
  LCI_COLD net::verdict put_off(const net::arrival& from, rcomp_t rcomp, tag_t tag) noexcept;
  LCI_COLD void put_off(comp_impl_t& to, const status_t& status) noexcept;
  LCI_COLD net::verdict on_control(const net::arrival& message) noexcept;
  LCI_COLD net::verdict drop_unknown(int rank, rcomp_t rcomp) noexcept;

  mem::packet* take_packet_at_hand() noexcept;
  [[gnu::noinline]] void give_home() noexcept;

  void run(const comp_impl_t& to, int rank, tag_t tag, void* buffer, std::size_t size) noexcept;
  void signal(comp_impl_t& to, int rank, tag_t tag, void* buffer, std::size_t size) noexcept;

  host_context& host_;
  // The packet that the last handler gave back, for the next message: it saves two visits to the
  // pool. Marked as pooled; goes home at the end, so others wait for it no longer than a poll
  // takes.
  mem::packet* spare_ = nullptr;
  const std::uint32_t depth_;
};

// For what arrives in another way than through a poll.
class single_arrival final : public arrival_sink {
 public:
  explicit single_arrival(host_context& host) noexcept : arrival_sink(host, handler_depth::now()) {}
  ~single_arrival() { end(); }
};

// The immediate data of a put has arrived, in whatever way: signals whom it names.
void notify(host_context& host, int rank, std::uint32_t imm) noexcept;
// The same in a message.
void on_signal(host_context& host, int rank, const wire::signal_body& body) noexcept;

}  // namespace lci::proto
