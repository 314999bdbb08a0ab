#include "lci/boot/identity.hpp"

#include "lci/errors.hpp"

#if LCI_HAVE_SODIUM
#include <sodium.h>
#endif

namespace lci::boot {

#if LCI_HAVE_SODIUM

namespace {

static_assert(crypto_sign_PUBLICKEYBYTES == 32 && crypto_sign_SECRETKEYBYTES == 64 &&
              crypto_sign_BYTES == 64);

std::string id_of(const unsigned char* public_key) {
  unsigned char bytes[16];
  ::crypto_generichash(bytes, sizeof bytes, public_key, 32, nullptr, 0);
  char hex[2 * sizeof bytes + 1];
  ::sodium_bin2hex(hex, sizeof hex, bytes, sizeof bytes);
  return hex;
}

std::string signed_text(const sealed_stream& of, sealed_stream::side which) {
  std::string out =
      which == sealed_stream::side::root ? "lci identity, root" : "lci identity, joiner";
  return out.append(reinterpret_cast<const char*>(of.binding().data()), of.binding().size());
}

const unsigned char* data_of(std::string_view text) noexcept {
  return reinterpret_cast<const unsigned char*>(text.data());
}

}  // namespace

identity::identity() {
  if (::sodium_init() < 0) throw backend_error("libsodium cannot be initialized");
  ::crypto_sign_keypair(public_.data(), private_.data());
  id_ = id_of(public_.data());
}

identity::~identity() { ::sodium_memzero(private_.data(), private_.size()); }

std::string identity::show(const sealed_stream& to, sealed_stream::side mine) const {
  const std::string text = signed_text(to, mine);
  unsigned char signature[crypto_sign_BYTES];
  ::crypto_sign_detached(signature, nullptr, data_of(text), text.size(), private_.data());
  return std::string(reinterpret_cast<const char*>(public_.data()), public_.size())
      .append(reinterpret_cast<const char*>(signature), sizeof signature);
}

bool identity::is_shown(std::string_view shown, std::string_view id, const sealed_stream& from,
                        sealed_stream::side theirs) {
  if (shown.size() != SHOWN || id_of(data_of(shown)) != id) return false;
  const std::string text = signed_text(from, theirs);
  return ::crypto_sign_verify_detached(data_of(shown) + 32, data_of(text), text.size(),
                                       data_of(shown)) == 0;
}

#else

identity::identity() { throw backend_error("a connection needs keys, and " + *keys_unavailable()); }
identity::~identity() = default;
// Never reached: there is no object.
std::string identity::show(const sealed_stream&, sealed_stream::side) const { return {}; }
bool identity::is_shown(std::string_view, std::string_view, const sealed_stream&,
                        sealed_stream::side) {
  return false;
}

#endif

}  // namespace lci::boot
