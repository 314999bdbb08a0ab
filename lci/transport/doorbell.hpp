// Who polls when, for one connection: whether this side may sleep on its descriptors, and what it
// has to say so that the peer never sleeps over something that needs it.
//
// A side is asleep unless it has said that it is awake. The side that starts operations toward a
// side that is asleep says so on the control connection once, and once more when they have ended,
// with the number of notifications sent so far. In between, and until it has received as many, the
// sleeper polls. A side that spins says once that it is awake and is told nothing from then on.
// Before it sleeps again it says so and polls until the peer has acknowledged that.
//
// Callers: link. Threads: single. Always true: when must_poll() is false and the peer has sent what
// it has to say, nothing of the peer's is on its way to this side's device.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

namespace lci::transports {

// What one side tells the other about itself.
struct bell {
  bool is_under_way = false;     // operations have begun whose progress may need the other side
  bool is_awake = false;         // it polls without being told
  std::uint32_t turn = 0;        // how often is_awake has changed
  std::uint32_t heard_turn = 0;  // the last turn of the other side that it knows
  std::uint64_t notes = 0;       // notifications sent since the connection began
  bool operator==(const bell&) const = default;
};

class doorbell {
 public:
  // What this side does.
  void begin() noexcept { ++begun_; }
  void end() noexcept { --begun_; }
  void sent_note() noexcept { ++own_.notes; }
  void received_note() noexcept { ++received_; }
  void wake() noexcept { turn_to(true); }
  void sleep() noexcept { turn_to(false); }
  bool is_awake() const noexcept { return own_.is_awake; }
  bool is_under_way() const noexcept { return begun_ != 0; }

  void hear(const bell& from_peer) noexcept { peer_ = from_peer; }
  // What the peer has to be told now; it counts as told.
  std::optional<bell> to_tell() noexcept;
  // The last thing it is told: what is under way here ends, and so many notifications were sent.
  bell last() noexcept;
  // Notifications that the peer has spoken of are on their way.
  bool is_missing_notes() const noexcept { return received_ < peer_.notes; }

  // Whether this side has to poll its device, spinning or by a timer with a short period.
  bool must_poll() const noexcept {
    return is_under_way() || peer_.is_under_way || is_missing_notes();
  }
  // Whether the peer may not know yet that this side is asleep: poll now and then.
  bool is_falling_asleep() const noexcept {
    return !own_.is_awake && peer_.heard_turn != own_.turn;
  }
  std::uint64_t received() const noexcept { return received_; }
  std::uint64_t sent() const noexcept { return own_.notes; }
  // For tests: all that it knows.
  std::array<bell, 3> states() const noexcept { return {own_, told_, peer_}; }

 private:
  void turn_to(bool awake) noexcept {
    if (own_.is_awake == awake) return;
    own_.is_awake = awake;
    ++own_.turn;
  }

  bell own_, told_, peer_;
  std::uint64_t begun_ = 0;     // operations that have begun and not ended
  std::uint64_t received_ = 0;  // notifications
};

}  // namespace lci::transports
