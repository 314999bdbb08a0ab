// The polling of a device's queues: what the card reports becomes calls of the sink. Owned by
// fabric. Threads: as connected::event_queue says.
#pragma once

#include <memory>
#include <string_view>

#include "backends/ibv/connector.hpp"
#include "backends/ibv/device_queues.hpp"
#include "backends/ibv/key_cache.hpp"
#include "lci/net/connected/event_queue.hpp"

namespace lci::ibv {

class event_queue;
using base_queue =
    net::connected::event_queue<event_queue, device_queues, ibv_wc, connector, key_cache>;

class event_queue final : public base_queue {
 public:
  static constexpr std::uint64_t LOOK_MS = 200;    // between two looks for silent peers
  static constexpr std::uint64_t LEAVE_MS = 5000;  // a peer that is alive acknowledges at once

  using base_queue::base_queue;
  std::size_t poll(net::sink& to, std::size_t max) noexcept;

  // ---- the polling thread's, also for what goes over other cards ----
  using base_queue::fail;
  void fail_all(net::sink& to, std::string_view reason) noexcept;
  // The card is done with all up to number `last`, and with that one by `error`, if there was one.
  // False: all of them were the backend's own.
  bool finish_done(net::sink& to, connection& on, std::uint64_t last, const char* error) noexcept {
    send_record record;
    std::uint64_t number = 0;
    bool is_awaited = false;
    while (on.take_done(last, record, number))
      is_awaited |= finish(to, on, record, number == last ? error : nullptr);
    return is_awaited;
  }
  // What was posted there fails, since how it ended will not be known.
  void lose(net::sink& to, connection& on, const char* reason) noexcept;
  // At the next poll rail_queues::serve() is called. Threads: shared.
  void serve_rails_soon() noexcept { due_notices_.raise(); }

 private:
  friend base_queue;
  // Inlined in any case: the way of each message.
  [[gnu::always_inline]] bool fetch(net::sink& to) noexcept;
  [[gnu::always_inline]] bool present(net::sink& to, std::size_t& count) noexcept;
  [[gnu::always_inline]] std::size_t present_some(net::sink& to, std::size_t max) noexcept;
  [[gnu::always_inline]] bool receive(net::sink& to, const ibv_wc& what, connection& from) noexcept;
  void present_completions(net::sink& to, std::size_t max, std::size_t& count) noexcept;
  void take_ours(net::sink& to, place& into, std::uint32_t size, connection& from) noexcept;
  void failed_receive(net::sink& to, const ibv_wc& what, connection* on) noexcept;
  void put_back_message(const net::arrival& what, const place& into,
                        const connection& from) noexcept;
  [[gnu::always_inline]] bool sent(net::sink& to, const ibv_wc& what, connection& on) noexcept;
  // False: only the backend itself waits for that one: it asked for a sign of life.
  bool finish(net::sink& to, connection& on, const send_record& record, const char* error) noexcept;
  void stop(connection& on) noexcept;
  void drop_posted(net::sink& to, connection& on, std::string_view reason) noexcept;
  void take_note(const note& what, const connection& from) noexcept;
  void serve_pending(net::sink& to) noexcept;
  void look(net::sink&) noexcept { receives_.post(); }
  void look_at_all(net::sink& to) noexcept;
  void look_at(net::sink& to, connection& on) noexcept;
  const char* find_failure(connection& on) noexcept;
  bool is_read_out(int& looks) const noexcept;
  bool say_disconnect(connection& on, bool says_so) noexcept;
  void fail_card(net::sink& to, const char* reason) noexcept;
  void lose_all(net::sink& to, const char* reason) noexcept;
  bool is_beyond_hope(const connection& on) noexcept;
  bool has_died(connection& on) noexcept;

  int failed_looks_ = 0;          // that have found a card failed
  bool was_card_failed_ = false;  // and all peers with it
  bool is_dry_ = false;           // since the last look the card had nothing more at least once
};

}  // namespace lci::ibv
