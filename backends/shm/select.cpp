#include "backends/shm/select.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <exception>

#include "backends/shm/connect.hpp"
#include "backends/shm/fabric.hpp"

namespace lci::shm {
namespace {

// Both are asked for by doing them: a sandbox may forbid either.
std::string probe() {
  const base::descriptor file(memfd_create("lci-probe", MFD_CLOEXEC));
  if (!file) {
    return std::string("the system grants no memory file (memfd_create: ") + std::strerror(errno) +
           ")";
  }
  try {
    const address here = address::make();
    const base::descriptor listener = listen_at(here.id);
    base::descriptor caller;
    if (const int error = connect_to(here.id, caller); error != 0) {
      return std::string("an abstract unix socket cannot be connected to (") +
             std::strerror(error) + ")";
    }
  } catch (const std::exception& e) {
    return e.what();
  }
  return {};
}

}  // namespace

const net::provider PROVIDER{"shm",   attr_backend_t::shm, &probe, &net::open_as<fabric>,
                             nullptr, &place_here};

}  // namespace lci::shm
