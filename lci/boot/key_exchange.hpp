// How two processes that share a secret agree on the keys of one connection, so that a process that
// lacks the secret gets no byte, and one that learns it later cannot read what was sent before.
//
//   joiner    magic "LCIX", version (1), 3 bytes of zero, 32 bytes of a public key made for this
//             connection (X25519), 32 bytes of proof: BLAKE2b of these, keyed with the secret
//   root      the same, of its own public key; its proof covers both public keys
//
// Then each seals records (sealed_stream) with keys that are hashes of the secret, both public keys
// and what the two keys have in common. The joiner's first record is what shows that it did not
// repeat somebody else's message. All by libsodium. Callers: lci/transport. Threads: single; free
// functions any. Always true: a private key leaves this object for nowhere.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lci/boot/seal.hpp"

namespace lci::boot {

class key_exchange {
 public:
  static constexpr std::size_t MESSAGE = 72;  // bytes of a message, either way

  // Makes a key pair. Throws backend_error in a build without libsodium.
  key_exchange();
  ~key_exchange();
  key_exchange(const key_exchange&) = delete;
  key_exchange& operator=(const key_exchange&) = delete;

  // The joiner's: its message, and what comes of the answer; nothing: the root does not know the
  // secret.
  std::string hello(const job_key& key) const;
  std::optional<sealed_stream> open_answer(const job_key& key, std::string_view answer) const;

  struct admitted {
    std::string answer;
    sealed_stream stream;
  };
  // The root's: which of the keys the joiner knows; nothing: none of them. Cheap, so that strangers
  // cost little.
  static std::optional<std::size_t> find(std::string_view hello, const std::vector<job_key>& keys);
  // What to answer a joiner with that key, and what comes of it; nothing: its public key is none.
  std::optional<admitted> admit(std::string_view hello, const job_key& key) const;

  // Whether a message may begin so.
  static bool may_begin(std::string_view bytes) noexcept;

 private:
  using bytes_of_key = std::array<unsigned char, 32>;
  std::optional<sealed_stream> agree(const job_key& key, sealed_stream::side which,
                                     std::string_view joiner, std::string_view root) const;

  bytes_of_key public_{}, private_{};
};

}  // namespace lci::boot
