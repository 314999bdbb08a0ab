// The control connection of a pair: a socket, sealed, that carries frames in order, both ways.
//
//   frame     type (1), length of the body (4, little endian), body
//
// Frames are cut into sealed records and put together again. Callers: pair. Threads: single.
// Always true: no call blocks; what is kept is limited, both ways: a peer that does not read makes
// put() refuse, and one frame at a time is put together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lci/base/unshared.hpp"
#include "lci/boot/fd.hpp"
#include "lci/boot/seal.hpp"

namespace lci::transports {

enum class frame_type : std::uint8_t {
  join = 1,  // joiner: ids of both hubs, number of the connection between them
  welcome,   // root: you are in
  yield,     // root: we have called you; that connection counts
  refusal,   // root: why not
  settings,  // both: that it is the hub it says; providers allowed
  round,     // both: what a rank says in a round of opening networks
  ready,     // both: the device is there
  message,   // both: of the program
  leave,     // both: the end, orderly
  failure    // both: the end, and why
};

class control_stream {
 public:
  static constexpr std::size_t HEAD = 5;
  static constexpr std::size_t MOST_BODY = 64 * 1024;
  static constexpr std::size_t MOST_QUEUED = 1024 * 1024;  // sealed bytes

  struct frame {
    frame_type type;
    std::string body;
  };

  control_stream(base::descriptor socket, boot::sealed_stream&& seal);

  int fd() const noexcept { return fd_.get(); }
  const boot::sealed_stream& seal() const noexcept { return seal_; }
  // False: the peer has not read what is there; nothing was done. What a set-up says always fits.
  bool put(frame_type type, std::string_view body);
  // As much as the socket takes. False: it is broken, why() says how.
  bool flush() noexcept;
  bool wants_write() const noexcept { return !out_.empty(); }
  // For tests: sealed bytes that take memory here, sent ones among them.
  std::size_t kept() const noexcept { return out_.size(); }
  // Nothing more will be put. What came and was not read is dropped, since the system would answer
  // it by a reset that overtakes what was put.
  void end() noexcept;
  // What has come so far: some of it, if there is much. False: nothing more will, why() says why.
  bool read();
  // Bytes that came before this stream was made. False: as read().
  bool take_in(std::string_view sealed);
  // The next whole frame. A frame that is too long, or of no known type, ends the stream:
  // is_broken().
  std::optional<frame> next();
  bool is_broken() const noexcept { return !why_.empty(); }
  const std::string& why() const noexcept { return why_; }

 private:
  bool refuse(std::string why);

  base::descriptor fd_;
  base::unshared is_ours_;  // fd_: it closes when this process ends
  boot::sealed_stream seal_;
  std::string out_, in_, why_;
  std::size_t sent_ = 0;  // of out_
};

}  // namespace lci::transports
