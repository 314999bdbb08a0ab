// The bootstrap, as C programs see it.
// Threads: one at a time, which the lock ensures. Always true: keys of programs get a prefix of
// their own, so they never collide with those of LCI.
#include "lct/pmi.h"

#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "lci/base/log.hpp"
#include "lci/base/type_stable.hpp"
#include "lci/boot/membership.hpp"
#include "lci/errors.hpp"
#include "lct/state.hpp"

namespace lct {
namespace {

constexpr std::string_view PREFIX = "lct:";

// A process that was forked from a member is not one itself. That is checked before the lock is
// taken, since a thread of the parent may have held it.
std::unique_lock<std::mutex> lock_ours(const char* call) {
  if (lci::boot::is_forked())
    throw lci::argument_error(std::string(call) + ": " + lci::base::FORKED_TEXT);
  return std::unique_lock(state.lock);
}

// Calls `use` with the bootstrap: our own membership or, for this call only, that of LCI.
template <class Use>
auto with_bootstrap(const char* call, Use&& use) {
  const auto guard = lock_ours(call);
  if (state.boot) return use(*state.boot);
  if (!lci::boot::is_joined())
    throw lci::argument_error(std::string(call) + " before LCT_pmi_initialize()");
  const std::unique_ptr<lci::boot::bootstrap> borrowed = lci::boot::join();
  return use(*borrowed);
}

std::string checked(const char* call, const char* what, const char* text) {
  if (text == nullptr) throw lci::argument_error(std::string(call) + ": no " + what);
  std::string copy(text);
  if (copy.size() > LCT_PMI_STRING_LIMIT)
    throw lci::argument_error(std::string(call) + ": a " + what + " of " +
                              std::to_string(copy.size()) + " bytes, at most " +
                              std::to_string(LCT_PMI_STRING_LIMIT));
  return copy;
}

// Bootstraps have no room for a prefix before the longest keys; no key of LCI is that long.
std::string key_of(const char* call, const char* text) {
  std::string key = checked(call, "key", text);
  if (key.empty()) throw lci::argument_error(std::string(call) + ": an empty key");
  return key.size() + PREFIX.size() <= lci::boot::MAX_KEY ? std::string(PREFIX) + key : key;
}

}  // namespace
}  // namespace lct

extern "C" {

void LCT_pmi_initialize(void) {
  const auto guard = lct::lock_ours("LCT_pmi_initialize()");
  if (lct::state.joined == 0) {
    lct::state.boot = lci::boot::join();
    lci::base::log::set_rank(lct::state.boot->rank());
  }
  ++lct::state.joined;
}

void LCT_pmi_finalize(void) {
  const auto guard = lct::lock_ours("LCT_pmi_finalize()");
  if (lct::state.joined == 0)
    throw lci::argument_error("LCT_pmi_finalize() without LCT_pmi_initialize()");
  if (--lct::state.joined > 0) return;
  lct::state.boot->leave();
  lct::state.boot.reset();
}

int LCT_pmi_initialized(void) { return lci::boot::is_joined() ? 1 : 0; }

int LCT_pmi_get_rank(void) {
  return lct::with_bootstrap("LCT_pmi_get_rank()",
                             [](lci::boot::bootstrap& boot) { return boot.rank(); });
}

int LCT_pmi_get_size(void) {
  return lct::with_bootstrap("LCT_pmi_get_size()",
                             [](lci::boot::bootstrap& boot) { return boot.size(); });
}

void LCT_pmi_publish(const char* key, const char* value) {
  constexpr const char* CALL = "LCT_pmi_publish()";
  const std::string full_key = lct::key_of(CALL, key);
  const std::string text = lct::checked(CALL, "value", value);
  lct::with_bootstrap(CALL, [&](lci::boot::bootstrap& boot) { boot.put(full_key, text); });
}

void LCT_pmi_getname(int rank, const char* key, char* value) {
  constexpr const char* CALL = "LCT_pmi_getname()";
  const std::string full_key = lct::key_of(CALL, key);
  lct::with_bootstrap(CALL, [&](lci::boot::bootstrap& boot) {
    const std::string text = boot.get(rank, full_key);
    std::memcpy(value, text.c_str(), text.size() + 1);
  });
}

void LCT_pmi_barrier(void) {
  lct::with_bootstrap("LCT_pmi_barrier()", [](lci::boot::bootstrap& boot) { boot.fence(); });
}

}  // extern "C"
