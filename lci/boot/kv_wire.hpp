// What travels between the members of a job and the server that joins them (lcrun, or rank 0 over
// TCP), and how a byte stream is split into frames.
//
// A frame is an 8-byte header {body length, 4 bytes little endian; type, 1 byte; 3 bytes zero}
// and a body:
//   hello     member: magic "LCIB", version (2), 0 (2), rank (4), size (4)
//   welcome   server: rank (4), size (4); all members have joined
//   put       member: key length (2), key, value
//   arrive    member: round (4): everything before belongs to this fence
//   value     server: rank (4), key length (2), key, value
//   released  server: round (4): all ranks arrived, all values were sent
//   fail      server: text; the job cannot go on
//   leave     member: it leaves in an orderly way; server: the process that it lives in does
//   gone      server: rank (4), text: that member left without announcing it
//   left      server: rank (4), once or more: those members left after announcing it
//   shared    server: size (8): what follows is so many bytes of the file that came with this frame
// Threads: single. Always true: nothing is read past the bytes that were given, and what does not
// parse is rejected; the caller drops the connection.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lci/boot/bootstrap.hpp"

namespace lci::boot::kv {

enum class frame_type : std::uint8_t {
  hello = 1,
  welcome,
  put,
  arrive,
  value,
  released,
  fail,
  leave,
  gone,
  left,
  shared
};

inline constexpr std::size_t HEADER = 8;
inline constexpr std::size_t MAX_TEXT = 4096;                     // of a fail or gone frame
inline constexpr std::size_t MAX_BODY = 6 + MAX_KEY + MAX_VALUE;  // a value frame, the largest
inline constexpr std::size_t MAX_LEFT = 1024;                     // ranks of a left frame
inline constexpr std::uint16_t VERSION = 4;

struct hello_body {
  int rank;
  int size;
};
struct value_body {
  int rank;  // 0 in a put: the server knows who sent it
  std::string_view key;
  std::string_view value;  // views into the bytes that were decoded
};

struct ended_body {
  int rank;
  std::string_view why;  // a view into the bytes that were decoded
};

// Each appends one whole frame to `out`.
void encode_hello(std::string& out, int rank, int size);
void encode_welcome(std::string& out, int rank, int size);
void encode_put(std::string& out, std::string_view key, std::string_view value);
void encode_arrive(std::string& out, std::uint32_t round);
void encode_value(std::string& out, int rank, std::string_view key, std::string_view value);
void encode_released(std::string& out, std::uint32_t round);
void encode_fail(std::string& out, std::string_view text);
void encode_leave(std::string& out);
void encode_ended(std::string& out, int rank, std::string_view why);
// Several frames, if there are more than MAX_LEFT.
void encode_left(std::string& out, std::span<const int> ranks);
void encode_shared(std::string& out, std::uint64_t size);

// Decode bodies; nothing when the bytes are not such a body.
std::optional<hello_body> decode_hello(std::string_view body) noexcept;
std::optional<hello_body> decode_welcome(std::string_view body) noexcept;
std::optional<value_body> decode_put(std::string_view body) noexcept;
std::optional<value_body> decode_value(std::string_view body) noexcept;
std::optional<std::uint32_t> decode_round(std::string_view body) noexcept;
std::optional<ended_body> decode_ended(std::string_view body) noexcept;
std::optional<std::vector<int>> decode_left(std::string_view body);
std::optional<std::uint64_t> decode_shared(std::string_view body) noexcept;

struct frame {
  frame_type type;
  std::string_view body;  // valid until the next call on the splitter
};

// The first whole frame of `bytes`, which is removed from them. Nothing: more bytes are needed, or,
// with `is_broken` set, a header is none that a peer of lci would send.
std::optional<frame> take_frame(std::string_view& bytes, bool& is_broken) noexcept;

// Splits a stream into frames. Feed it what was read, then take frames until none is left.
class splitter {
 public:
  // After it, feed() of this many bytes does not fail. Throws std::bad_alloc.
  void make_room(std::size_t bytes);
  void feed(std::string_view bytes);
  // The next whole frame, or nothing: then either more bytes are needed or is_broken().
  std::optional<frame> next() noexcept;
  // next() returns the frame that it has just returned once more.
  void again(const frame& last) noexcept;
  // True if a header was seen that no peer of lci would send; the stream cannot be used any more.
  bool is_broken() const noexcept { return broken_; }

 private:
  std::string buffer_;
  std::size_t taken_ = 0;  // bytes of buffer_ that were handed out
  bool broken_ = false;
};

}  // namespace lci::boot::kv
