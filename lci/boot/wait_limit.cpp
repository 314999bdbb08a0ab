#include "lci/boot/wait_limit.hpp"

#include "lci/base/env.hpp"

namespace lci::boot {

namespace {

constexpr int MINUTE = 60, DAY = 86400;  // seconds

}  // namespace

std::optional<std::string_view> find_debugger_wait() noexcept {
  auto how = base::env::find(DEBUGGER_VARIABLE);
  if (how && *how == "0") how.reset();
  return how;
}

std::chrono::milliseconds read_wait_limit(const char* variable) {
  if (const auto text = base::env::find(variable))
    return std::chrono::seconds(base::env::parse_int(variable, *text, 1, DAY));
  return std::chrono::seconds(find_debugger_wait() ? DAY : MINUTE);
}

}  // namespace lci::boot
