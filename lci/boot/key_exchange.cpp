#include "lci/boot/key_exchange.hpp"

#include "lci/errors.hpp"

#if LCI_HAVE_SODIUM
#include <sodium.h>

#include <algorithm>
#include <initializer_list>
#include <utility>
#endif

namespace lci::boot {

namespace {

constexpr std::string_view EXCHANGE_START{"LCIX\1\0\0\0", 8};

}  // namespace

bool key_exchange::may_begin(std::string_view bytes) noexcept {
  const std::size_t have = bytes.size() < EXCHANGE_START.size() ? bytes.size() : 8;
  return bytes.substr(0, have) == EXCHANGE_START.substr(0, have);
}

#if LCI_HAVE_SODIUM

namespace {

constexpr std::size_t KEY_BYTES = 32;
static_assert(key_exchange::MESSAGE == EXCHANGE_START.size() + 2 * KEY_BYTES);
static_assert(crypto_scalarmult_BYTES == KEY_BYTES && crypto_scalarmult_SCALARBYTES == KEY_BYTES);

const unsigned char* octets(std::string_view text) noexcept {
  return reinterpret_cast<const unsigned char*>(text.data());
}

// BLAKE2b of all parts, keyed with the secret. Each purpose has its own first part.
std::array<unsigned char, KEY_BYTES> hash(const job_key& key, std::string_view purpose,
                                          std::initializer_list<std::string_view> parts) {
  std::string input(purpose);
  for (const std::string_view part : parts) input.append(part);
  std::array<unsigned char, KEY_BYTES> out;
  ::crypto_generichash(out.data(), out.size(), octets(input), input.size(), key.bytes(), KEY_BYTES);
  ::sodium_memzero(input.data(), input.size());
  return out;
}

std::string_view view(const std::array<unsigned char, KEY_BYTES>& bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string_view public_key_in(std::string_view message) noexcept {
  return message.substr(EXCHANGE_START.size(), KEY_BYTES);
}

bool is_proof(std::string_view message, const std::array<unsigned char, KEY_BYTES>& right) {
  return ::sodium_memcmp(octets(message) + EXCHANGE_START.size() + KEY_BYTES, right.data(),
                         KEY_BYTES) == 0;
}

bool is_message(std::string_view bytes) noexcept {
  return bytes.size() == key_exchange::MESSAGE && key_exchange::may_begin(bytes);
}

constexpr std::string_view OF_JOINER = "lci exchange, joiner", OF_ROOT = "lci exchange, root",
                           KEY_TO_ROOT = "lci exchange, to root",
                           KEY_TO_JOINER = "lci exchange, to joiner",
                           BINDING = "lci exchange, binding";

}  // namespace

key_exchange::key_exchange() {
  if (::sodium_init() < 0) throw backend_error("libsodium cannot be initialized");
  ::randombytes_buf(private_.data(), private_.size());
  ::crypto_scalarmult_base(public_.data(), private_.data());
}

key_exchange::~key_exchange() { ::sodium_memzero(private_.data(), private_.size()); }

std::string key_exchange::hello(const job_key& key) const {
  const auto proof = hash(key, OF_JOINER, {view(public_)});
  return std::string(EXCHANGE_START).append(view(public_)).append(view(proof));
}

std::optional<sealed_stream> key_exchange::agree(const job_key& key, sealed_stream::side which,
                                                 std::string_view joiner,
                                                 std::string_view root) const {
  const bool is_root = which == sealed_stream::side::root;
  std::array<unsigned char, KEY_BYTES> common;
  // Fails for a key that makes what they have in common known to all.
  if (::crypto_scalarmult(common.data(), private_.data(), octets(is_root ? joiner : root)) != 0)
    return std::nullopt;
  session_keys keys;
  keys.send = hash(key, is_root ? KEY_TO_JOINER : KEY_TO_ROOT, {joiner, root, view(common)});
  keys.receive = hash(key, is_root ? KEY_TO_ROOT : KEY_TO_JOINER, {joiner, root, view(common)});
  keys.binding = hash(key, BINDING, {joiner, root, view(common)});
  ::sodium_memzero(common.data(), common.size());
  return sealed_stream(key, which, keys);
}

std::optional<sealed_stream> key_exchange::open_answer(const job_key& key,
                                                       std::string_view answer) const {
  if (!is_message(answer)) return std::nullopt;
  const std::string_view theirs = public_key_in(answer);
  if (!is_proof(answer, hash(key, OF_ROOT, {view(public_), theirs}))) return std::nullopt;
  return agree(key, sealed_stream::side::joiner, view(public_), theirs);
}

std::optional<std::size_t> key_exchange::find(std::string_view hello,
                                              const std::vector<job_key>& keys) {
  if (!is_message(hello)) return std::nullopt;
  for (std::size_t i = 0; i < keys.size(); ++i)
    if (is_proof(hello, hash(keys[i], OF_JOINER, {public_key_in(hello)}))) return i;
  return std::nullopt;
}

std::optional<key_exchange::admitted> key_exchange::admit(std::string_view hello,
                                                          const job_key& key) const {
  const std::string_view theirs = public_key_in(hello);
  std::optional<sealed_stream> stream =
      agree(key, sealed_stream::side::root, theirs, view(public_));
  if (!stream) return std::nullopt;
  const auto proof = hash(key, OF_ROOT, {theirs, view(public_)});
  return admitted{std::string(EXCHANGE_START).append(view(public_)).append(view(proof)),
                  std::move(*stream)};
}

#else

key_exchange::key_exchange() {
  throw backend_error("a connection needs keys, and " + *keys_unavailable());
}
key_exchange::~key_exchange() = default;
// Never reached: there is no object.
std::string key_exchange::hello(const job_key&) const { return {}; }
std::optional<sealed_stream> key_exchange::open_answer(const job_key&, std::string_view) const {
  return std::nullopt;
}
std::optional<std::size_t> key_exchange::find(std::string_view, const std::vector<job_key>&) {
  return std::nullopt;
}
std::optional<key_exchange::admitted> key_exchange::admit(std::string_view, const job_key&) const {
  return std::nullopt;
}

#endif

}  // namespace lci::boot
