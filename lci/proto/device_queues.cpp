#include "lci/proto/device_queues.hpp"

#include <exception>

#include "lci/proto/host/arrival.hpp"

namespace lci::proto {

error_t device_queues::progress() {
  const std::size_t work =
      host.engine.advance([this](std::uint32_t depth) { return arrival_sink(host, depth); });
  if (host.engine.errors.any()) [[unlikely]]
    host.engine.errors.tell();
  return host.engine.answer(work);
}

errorcode_t device_queues::progress_in_wait() {
  const std::size_t work =
      host.engine.advance([this](std::uint32_t depth) { return arrival_sink(host, depth); });
  if (host.engine.errors.has_problems()) [[unlikely]]
    host.engine.errors.rethrow();
  return host.engine.answer(work);
}

bool device_queues::progress_unheard() noexcept {
  try {
    const std::size_t work =
        host.engine.advance([this](std::uint32_t depth) { return arrival_sink(host, depth); });
    return error_t(host.engine.answer(work)).is_done();
  } catch (...) {
    host.engine.errors.keep(std::current_exception());
    return true;
  }
}

bool device_queues::is_drained() const noexcept {
  return host.open_receives.sum() == 0 && is_quiet();
}

bool device_queues::is_quiet() const noexcept {
  return host.engine.handlers.completions() == 0 && host.engine.is_quiet_but_for_handlers() &&
         host.engine.is_network_drained();
}

}  // namespace lci::proto
