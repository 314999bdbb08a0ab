// Who one end of a connection is, to others that hold the same secret: an id that nobody else can
// show. The id is a hash (BLAKE2b, 16 bytes) of a public key (Ed25519) that is made for this
// object; it is shown, for one connection, by the public key (32) and a signature (64) over which
// end this is and what the two ends know of that connection alone. By libsodium. Callers:
// lci/transport. Threads: immutable. Always true: the private key leaves this object for nowhere.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "lci/boot/seal.hpp"

namespace lci::boot {

class identity {
 public:
  static constexpr std::size_t SHOWN = 32 + 64;  // bytes

  // Throws backend_error in a build without libsodium.
  identity();
  ~identity();
  identity(const identity&) = delete;
  identity& operator=(const identity&) = delete;

  const std::string& id() const noexcept { return id_; }  // 32 hexadecimal digits
  std::string show(const sealed_stream& to, sealed_stream::side mine) const;
  // Whether the other end, which is `theirs`, has shown that it is `id`.
  static bool is_shown(std::string_view shown, std::string_view id, const sealed_stream& from,
                       sealed_stream::side theirs);

 private:
  std::array<unsigned char, 32> public_{};
  std::array<unsigned char, 64> private_{};
  std::string id_;
};

}  // namespace lci::boot
