// What makes a TCP connection one of this job: both ends prove that they know the job's key, and
// every byte after that is sealed, so that no one between them can read, change, repeat or omit
// any.
//
//   both      greeting: magic "LCIK", version (1), 3 bytes of zero, 32 random bytes;
//             the joiner's comes first
//   then      records: length of what follows (4, little endian), sealed bytes,
//             16 bytes of tag
//
// The keys of the two directions are hashes of the job's key and both ends' random bytes (BLAKE2b);
// records are sealed with ChaCha20-Poly1305 and numbered, all by libsodium. Callers: kv_client and
// kv_service, for tcp; key_exchange, which agrees on the keys in another way. Threads: single; the
// key is immutable. Always true: a record that does not open is passed to no one; before the first
// record has opened, a stranger makes us hold no more than one short record.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lci::boot {

class job_key {
 public:
  static constexpr std::size_t LEAST = 16;  // bytes of a secret that cannot be guessed
  // Throws argument_error for a secret that is too short, backend_error in a build without
  // libsodium.
  explicit job_key(std::string_view secret);
  const unsigned char* bytes() const noexcept { return bytes_.data(); }

 private:
  std::array<unsigned char, 32> bytes_{};
};

// Why keys cannot be used in this build, or nothing if they can.
std::optional<std::string> keys_unavailable();
// A secret for a new job: 64 hexadecimal digits.
std::string make_secret();

// The keys of the two directions of one connection, and what both ends know of no other: what is
// shown for one connection counts for no other.
struct session_keys {
  std::array<unsigned char, 32> send, receive, binding;
};

class sealed_stream {
 public:
  enum class side { joiner, root };
  static constexpr std::size_t GREETING = 40;
  static constexpr std::size_t MAX_RECORD = 16 * 1024;  // bytes inside
  static constexpr std::size_t MAX_FIRST = 64;          // sealed bytes of a stranger's first record

  sealed_stream(const job_key& key, side which);
  // Without greetings: the two ends have agreed on these keys before.
  sealed_stream(const job_key& key, side which, const session_keys& keys);

  // Send it before anything else; the root sends its own after it has received the joiner's.
  const std::string& greeting() const noexcept { return greeting_; }
  // True once the other side's greeting has come: seal() may be used.
  bool is_greeted() const noexcept { return greeted_; }
  // True once a record of the other side has opened: it knows the key.
  bool is_proven() const noexcept { return received_ > 0; }
  // After it, open() of this many bytes does not lose any, if `plain` has room for as many as this
  // returns. Throws std::bad_alloc.
  std::size_t make_room(std::size_t bytes) {
    buffer_.reserve(buffer_.size() + bytes);
    return buffer_.capacity();
  }
  // Takes bytes off the wire and appends the contents of their records to `plain`. False when they
  // are not from the other side; then why() gives the reason, and the stream cannot be used any
  // more.
  bool open(std::string_view bytes, std::string& plain);
  const std::string& why() const noexcept { return why_; }
  // Of session_keys.
  const std::array<unsigned char, 32>& binding() const noexcept { return binding_; }
  std::string seal(std::string_view plain);

 private:
  bool take_greeting();
  bool take_record(std::string& plain, bool& more);
  bool refuse(const char* why);

  const job_key key_;
  const side which_;
  std::string greeting_, buffer_, why_;
  bool greeted_ = false;
  std::array<unsigned char, 32> send_key_{}, receive_key_{}, binding_{};
  std::uint64_t sent_ = 0, received_ = 0;  // records: their numbers
};

}  // namespace lci::boot
