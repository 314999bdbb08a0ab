// The key to a memory, as its owner gives it out: what it allows, sealed with a secret of this
// process, so that the owner recognises its own keys and nobody can alter or invent one.
//
//   key       "lcik1-" and the bytes below as hexadecimal digits
//   bytes     owner (16, random, names the process), slot and generation of the memory (4, 4),
//             number of the key (8), address and size (8, 8), end (8, milliseconds of the system's
//             clock, 0: none), rights (1), and 16 bytes of code over all of it (keyed BLAKE2b)
//   buffer    "lcib1-" address "-" size "-" key, numbers in hexadecimal
//
// Callers: memory_table and link. Threads: any; the secret is made once, and anew in a forked
// child. Always true: what is read from a key is believed only after is_own() or by its owner's
// answer.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lci::transports {

struct memory_key {
  static constexpr std::size_t OWNER_BYTES = 16, CODE_BYTES = 16;
  static constexpr std::size_t BYTES = OWNER_BYTES + 4 + 4 + 8 + 8 + 8 + 8 + 1 + CODE_BYTES;
  static constexpr std::uint8_t MAY_READ = 1, MAY_WRITE = 2;

  std::array<unsigned char, OWNER_BYTES> owner{};
  std::uint32_t slot = 0, generation = 0;  // of the memory in its owner's table
  std::uint64_t number = 0;                // counted per memory; revocation goes by it
  std::uint64_t address = 0, size = 0;     // in the owner's process: names here
  std::uint64_t ends_ms = 0;               // since the epoch; 0: it does not end
  std::uint8_t rights = 0;
};

// Seals a key of this process. Throws backend_error in a build without libsodium.
std::string write_key(memory_key key);
// What a text says, true or not; nothing if it is no key.
std::optional<memory_key> read_key(std::string_view text);
// Whether this process has written exactly this text.
bool is_own(std::string_view text) noexcept;

// Milliseconds since the epoch, by the system's clock.
std::uint64_t clock_ms() noexcept;

}  // namespace lci::transports
