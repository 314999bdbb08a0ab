#include "lci/boot/seal.hpp"

#include "lci/errors.hpp"

#if LCI_HAVE_SODIUM
#include <sodium.h>

#include <algorithm>
#include <cstddef>
#endif

namespace lci::boot {

#if LCI_HAVE_SODIUM

namespace {

constexpr std::string_view SEAL_START{"LCIK\1\0\0\0", 8};
constexpr std::size_t SEAL_LENGTH = 4;
constexpr std::size_t SEAL_TAG = crypto_aead_chacha20poly1305_IETF_ABYTES;
constexpr std::string_view TO_ROOT = "lci boot to root", TO_JOINER = "lci boot to joiner";

const unsigned char* as_bytes(std::string_view text) noexcept {
  return reinterpret_cast<const unsigned char*>(text.data());
}

void start_sodium() {
  if (::sodium_init() < 0) throw backend_error("tcp: libsodium cannot be initialized");
}

void derive(std::array<unsigned char, 32>& out, const job_key& key, std::string_view purpose,
            std::string_view joiner, std::string_view root) {
  std::string input(purpose);
  input.append(joiner).append(root);
  ::crypto_generichash(out.data(), out.size(), as_bytes(input), input.size(), key.bytes(), 32);
}

// No number is used twice with one key: each direction has its own key, made from fresh random
// bytes.
struct record_number {
  explicit record_number(std::uint64_t n) noexcept {
    for (std::size_t i = 0; i < 8; ++i) bytes[i] = static_cast<unsigned char>(n >> (8 * i));
  }
  unsigned char bytes[crypto_aead_chacha20poly1305_IETF_NPUBBYTES] = {};
};

}  // namespace

std::optional<std::string> keys_unavailable() { return std::nullopt; }

std::string make_secret() {
  start_sodium();
  unsigned char random[32];
  ::randombytes_buf(random, sizeof random);
  char hex[2 * sizeof random + 1];
  ::sodium_bin2hex(hex, sizeof hex, random, sizeof random);
  return hex;
}

job_key::job_key(std::string_view secret) {
  if (secret.size() < LEAST) {
    throw argument_error("the key of the job has " + std::to_string(secret.size()) +
                         " bytes: expected " + std::to_string(LEAST) +
                         " or more, for example from `openssl rand -hex 32`");
  }
  start_sodium();
  ::crypto_generichash(bytes_.data(), bytes_.size(), as_bytes(secret), secret.size(), nullptr, 0);
}

sealed_stream::sealed_stream(const job_key& key, side which)
    : key_(key), which_(which), greeting_(SEAL_START) {
  greeting_.resize(GREETING);
  ::randombytes_buf(greeting_.data() + SEAL_START.size(), GREETING - SEAL_START.size());
}

sealed_stream::sealed_stream(const job_key& key, side which, const session_keys& keys)
    : key_(key),
      which_(which),
      greeted_(true),
      send_key_(keys.send),
      receive_key_(keys.receive),
      binding_(keys.binding) {}

bool sealed_stream::open(std::string_view bytes, std::string& plain) {
  if (!why_.empty()) return false;
  buffer_ += bytes;
  if (!greeted_ && !take_greeting()) return why_.empty();
  for (bool more = true; more;) {
    if (!take_record(plain, more)) return false;
  }
  return true;
}

// The first bytes decide: a peer that speaks something else is found out before it has sent a whole
// greeting.
bool sealed_stream::take_greeting() {
  const std::size_t have = std::min(buffer_.size(), SEAL_START.size());
  if (std::string_view(buffer_).substr(0, have) != SEAL_START.substr(0, have))
    return refuse("it does not begin with the greeting of a job that has a key");
  if (buffer_.size() < GREETING) return false;
  const std::string theirs = buffer_.substr(0, GREETING);
  buffer_.erase(0, GREETING);
  // Our own greeting sent back would make both directions' keys the same.
  if (theirs == greeting_) return refuse("it repeats our own greeting");
  const bool root = which_ == side::root;
  const std::string &joiner = root ? theirs : greeting_, &answer = root ? greeting_ : theirs;
  derive(send_key_, key_, root ? TO_JOINER : TO_ROOT, joiner, answer);
  derive(receive_key_, key_, root ? TO_ROOT : TO_JOINER, joiner, answer);
  greeted_ = true;
  return true;
}

bool sealed_stream::take_record(std::string& plain, bool& more) {
  more = false;
  if (buffer_.size() < SEAL_LENGTH) return true;
  std::size_t length = 0;
  for (std::size_t i = 0; i < SEAL_LENGTH; ++i)
    length |= static_cast<std::size_t>(static_cast<unsigned char>(buffer_[i])) << (8 * i);
  const bool stranger = which_ == side::root && received_ == 0;
  if (length < SEAL_TAG || length > (stranger ? MAX_FIRST : MAX_RECORD + SEAL_TAG))
    return refuse("what follows its greeting is not sealed");
  if (buffer_.size() < SEAL_LENGTH + length) return true;
  const std::size_t start = plain.size();
  plain.resize(start + length - SEAL_TAG);
  const record_number number(received_);
  if (::crypto_aead_chacha20poly1305_ietf_decrypt(
          reinterpret_cast<unsigned char*>(plain.data()) + start, nullptr, nullptr,
          as_bytes(buffer_) + SEAL_LENGTH, length, as_bytes(buffer_), SEAL_LENGTH, number.bytes,
          receive_key_.data()) != 0) {
    plain.resize(start);
    return refuse(received_ == 0 ? "it does not know the key of this job"
                                 : "its bytes were changed on the way");
  }
  ++received_;
  buffer_.erase(0, SEAL_LENGTH + length);
  more = true;
  return true;
}

bool sealed_stream::refuse(const char* why) {
  why_ = why;
  buffer_.clear();
  return false;
}

std::string sealed_stream::seal(std::string_view plain) {
  std::string out;
  while (!plain.empty()) {
    const std::string_view piece = plain.substr(0, MAX_RECORD);
    plain.remove_prefix(piece.size());
    const std::size_t start = out.size(), length = piece.size() + SEAL_TAG;
    for (std::size_t i = 0; i < SEAL_LENGTH; ++i)
      out += static_cast<char>(static_cast<unsigned char>(length >> (8 * i)));
    out.resize(start + SEAL_LENGTH + length);
    unsigned char* const record = reinterpret_cast<unsigned char*>(out.data()) + start;
    const record_number number(sent_++);
    ::crypto_aead_chacha20poly1305_ietf_encrypt(record + SEAL_LENGTH, nullptr, as_bytes(piece),
                                                piece.size(), record, SEAL_LENGTH, nullptr,
                                                number.bytes, send_key_.data());
  }
  return out;
}

#else

std::optional<std::string> keys_unavailable() {
  return "this build has no libsodium (install libsodium-dev and configure again)";
}
std::string make_secret() { throw backend_error("a key is needed, and " + *keys_unavailable()); }
job_key::job_key(std::string_view) {
  throw backend_error("a key is given, and " + *keys_unavailable());
}
// Never reached without a key.
sealed_stream::sealed_stream(const job_key& key, side which) : key_(key), which_(which) {}
sealed_stream::sealed_stream(const job_key& key, side which, const session_keys&)
    : key_(key), which_(which) {}
bool sealed_stream::open(std::string_view, std::string&) { return false; }
std::string sealed_stream::seal(std::string_view) { return {}; }

#endif

}  // namespace lci::boot
