#include "lci/boot/lcrun.hpp"

#include <unistd.h>

#include <cerrno>
#include <utility>

#include "lci/base/env.hpp"
#include "lci/errors.hpp"

namespace lci::boot {

namespace {

constexpr const char* SOCKET = "LCI_LCRUN_SOCKET";
constexpr const char* RANK = "LCI_LCRUN_RANK";
constexpr const char* SIZE = "LCI_LCRUN_SIZE";

}  // namespace

std::optional<std::string> lcrun_bootstrap::unavailable() {
  for (const char* variable : {SOCKET, RANK, SIZE}) {
    if (!base::env::find(variable)) return std::string(variable) + " is not set";
  }
  return std::nullopt;
}

std::unique_ptr<bootstrap> lcrun_bootstrap::open() {
  const std::string socket(*base::env::find(SOCKET));
  const auto size =
      static_cast<int>(base::env::parse_unsigned(SIZE, *base::env::find(SIZE), 1, MAX_RANKS));
  const auto rank = static_cast<int>(base::env::parse_unsigned(
      RANK, *base::env::find(RANK), 0, static_cast<std::uint64_t>(size) - 1));
  base::descriptor fd = connect_abstract(socket);
  if (!fd) {
    const int why = errno;
    throw backend_error("lcrun: cannot reach the launcher at @" + socket + ": " + errno_text(why) +
                        "; it has ended, or this process runs in another network namespace");
  }
  const long uid = peer_uid(fd.get());
  if (uid != static_cast<long>(geteuid())) {
    throw backend_error("lcrun: @" + socket + " belongs to user " + std::to_string(uid) +
                        ", this process to user " + std::to_string(geteuid()));
  }
  return std::make_unique<lcrun_bootstrap>(std::move(fd), rank, size);
}

// The answer to the hello is not waited for: it comes with the first fence.
lcrun_bootstrap::lcrun_bootstrap(base::descriptor fd, int rank, int size)
    : client_("lcrun", std::move(fd), rank, size, std::chrono::milliseconds(0)) {
  client_.greet();
}

}  // namespace lci::boot
