// The polling of a device's queues: what the provider reports becomes calls of the sink. Owned by
// fabric. Threads: as connected::event_queue says.
#pragma once

#include <string_view>

#include "backends/ofi/connector.hpp"
#include "backends/ofi/device_queues.hpp"
#include "backends/ofi/key_cache.hpp"
#include "lci/net/connected/event_queue.hpp"

namespace lci::ofi {

class event_queue;
using base_queue =
    net::connected::event_queue<event_queue, device_queues, fi_cq_data_entry, connector, key_cache>;

class event_queue final : public base_queue {
 public:
  static constexpr std::uint64_t LOOK_MS = 100;  // between two looks for silent or missed peers
  // A provider sends the last message at once, or the peer is not reading.
  static constexpr std::uint64_t LEAVE_MS = 2000;

  using base_queue::base_queue;
  std::size_t poll(net::sink& to, std::size_t max) noexcept;

 private:
  friend base_queue;
  // Inlined in any case: the way of each message.
  [[gnu::always_inline]] bool fetch(net::sink& to) noexcept;
  [[gnu::always_inline]] bool present(net::sink& to, std::size_t& count) noexcept;
  [[gnu::always_inline]] std::size_t present_some(net::sink& to, std::size_t max) noexcept;
  [[gnu::always_inline]] bool receive(net::sink& to, const fi_cq_data_entry& what, place& into,
                                      std::size_t& count) noexcept;
  void immediate(net::sink& to, const fi_cq_data_entry& what) noexcept;
  bool take_ours(net::sink& to, const std::byte* data, std::size_t size, connection& from) noexcept;
  void take_note(net::sink& to, const note& what, connection& from) noexcept;
  bool may_pass(const fi_cq_data_entry& one) const noexcept;
  void present_what_may_pass(net::sink& to, std::size_t max, std::size_t& count) noexcept;
  void dealt_with(connection& from) noexcept;
  void read_error(net::sink& to) noexcept;
  void finish(net::sink& to, work& one, int error) noexcept;
  void tell_end(net::sink& to, connection& on, const holding& one, std::string_view error) noexcept;
  void tell_user(net::sink& to, connection& on, const holding& one,
                 std::string_view error) noexcept;
  void flush(work& one) noexcept;
  void flushed(net::sink& to, connection& from, std::uint64_t count) noexcept;
  void drop_posted(net::sink& to, connection& on, std::string_view reason) noexcept;
  void drop(net::sink& to, connection& on, std::string_view reason, bool all) noexcept;
  void drop_late(net::sink& to) noexcept;
  void break_off(net::sink& to, connection& on, int error) noexcept;
  void look(net::sink& to) noexcept;
  void tell_broken() noexcept;
  void look_at(net::sink& to, connection& on) noexcept;
  std::string_view why_over(const connection& on) const noexcept;
  connection::moment this_moment() const noexcept { return {now_, polls_, dry_}; }
  bool is_read_out(const connection::moment& since) const noexcept;
  void keep_alive(connection& on) noexcept;
  bool say_disconnect(connection& on, bool says_so) noexcept;
  bool must_wait_for_writes(connection& on) const noexcept;

  std::uint32_t dry_ = 0;  // polls that found nothing
  int broken_ = 0;         // connections whose peer is to be told that they failed here
  int unfinished_ = 0;     // that have ended, and users wait for the provider
};

}  // namespace lci::ofi
