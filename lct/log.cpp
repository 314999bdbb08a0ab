// Log contexts and assertions of C programs: the contexts of base/log behind a pointer.
// Threads: any; one thread makes and frees a context.
#include "lct/log.h"

#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include "lci/base/env.hpp"
#include "lci/base/log.hpp"
#include "lci/errors.hpp"

namespace lct {
namespace {

namespace log = lci::base::log;

std::string text_of(const char* text) { return text != nullptr ? text : ""; }

log::context* make_context(log::context_options options, const char* level,
                           const char* where_from) {
  const int found = level != nullptr ? log::find_level(options.level_names, level) : -1;
  if (found >= 0) options.threshold = found;
  std::string known;
  for (const std::string& one : options.level_names) known += (known.empty() ? "" : ", ") + one;
  auto* made = new log::context(std::move(options));
  // Lines of level 0 always pass: a user who asked for more than is printed must learn it.
  if (found < 0 && level != nullptr && level[0] != '\0')
    made->print(0, "log", nullptr, "%s is \"%s\": expected one of %s", where_from, level,
                known.c_str());
  return made;
}

// What LCT_log_ctx_default points to: the context itself is made at its first use, when the program
// has set its variables.
constexpr char DEFAULT_MARK = 0;

// Never freed: destructors of static objects may still log.
log::context* default_context() {
  static log::context* const made = [] {
    log::context_options options;
    options.name = "lct";
    options.level_names = {"error", "warn", "diag", "info", "debug", "trace"};
    options.threshold = LCT_LOG_WARN;
    options.outfile = text_of(std::getenv("LCT_LOG_OUTFILE"));
    options.whitelist = text_of(std::getenv("LCT_LOG_WHITELIST"));
    options.blacklist = text_of(std::getenv("LCT_LOG_BLACKLIST"));
    return make_context(std::move(options), std::getenv("LCT_LOG_LEVEL"), "LCT_LOG_LEVEL");
  }();
  return made;
}

log::context& context_of(LCT_log_ctx_t ctx) {
  return ctx != nullptr && ctx != &DEFAULT_MARK ? *static_cast<log::context*>(ctx)
                                                : *default_context();
}

void print(LCT_log_ctx_t ctx, int level, const char* tag, const char* file, const char* func,
           int line, const char* format, va_list args) {
  log::context& to = context_of(ctx);
  if (!to.enabled(level)) return;
  const char* base = file;  // becomes its name without folders
  for (const char* at = file; *at != '\0'; ++at)
    if (*at == '/') base = at + 1;
  char where[256];
  std::snprintf(where, sizeof(where), "%s:%s:%d", base, func, line);
  to.vprint(level, tag, where, format, args);
}

std::string format_text(const char* format, va_list args) {
  va_list again;
  va_copy(again, args);
  const int size = std::vsnprintf(nullptr, 0, format, args);
  std::string text(size < 0 ? 0 : static_cast<std::size_t>(size), '\0');
  std::vsnprintf(text.data(), text.size() + 1, format, again);
  va_end(again);
  return text;
}

}  // namespace
}  // namespace lct

constinit LCT_log_ctx_t LCT_log_ctx_default = const_cast<char*>(&lct::DEFAULT_MARK);

extern "C" {

LCT_log_ctx_t LCT_log_ctx_alloc(const char* const levels[], int count, int default_level,
                                const char* name, const char* outfile, const char* level,
                                const char* whitelist, const char* blacklist) {
  if (levels == nullptr || count < 1 || default_level < 0 || default_level >= count)
    throw lci::argument_error("LCT_log_ctx_alloc(): default level " +
                              std::to_string(default_level) + " of " + std::to_string(count));
  lci::base::log::context_options options;
  options.name = lct::text_of(name);
  for (int i = 0; i < count; ++i) options.level_names.emplace_back(lct::text_of(levels[i]));
  options.threshold = default_level;
  options.outfile = lct::text_of(outfile);
  options.whitelist = lct::text_of(whitelist);
  options.blacklist = lct::text_of(blacklist);
  return lct::make_context(std::move(options), level, "the level");
}

void LCT_log_ctx_free(LCT_log_ctx_t* ctx) {
  if (ctx == nullptr || *ctx == nullptr || *ctx == LCT_log_ctx_default) return;
  delete static_cast<lci::base::log::context*>(std::exchange(*ctx, nullptr));
}

int LCT_log_get_level(LCT_log_ctx_t ctx) { return lct::context_of(ctx).threshold(); }
void LCT_Log_flush(LCT_log_ctx_t) {}

void LCT_Log_(LCT_log_ctx_t ctx, int level, const char* tag, const char* file, const char* func,
              int line, const char* format, ...) {
  va_list args;
  va_start(args, format);
  lct::print(ctx, level, tag, file, func, line, format, args);
  va_end(args);
}

void LCT_Logv_(LCT_log_ctx_t ctx, int level, const char* tag, const char* file, const char* func,
               int line, const char* format, va_list args) {
  lct::print(ctx, level, tag, file, func, line, format, args);
}

void LCT_Report_false_assert(LCT_log_ctx_t ctx, const char* expression, const char* file,
                             const char* func, int line, const char* format, ...) {
  va_list args;
  va_start(args, format);
  const std::string said = lct::format_text(format, args);
  va_end(args);
  const std::string text = "rank " + std::to_string(lci::base::log::rank()) + ", pid " +
                           std::to_string(getpid()) + ", " + file + ":" + std::to_string(line) +
                           ", " + func + ": assertion failed: " + expression + ": " + said;
  const auto abort_instead = lci::base::env::find("LCT_ABORT_ON_ASSERT");
  if (abort_instead && *abort_instead == "1") {
    lct::context_of(ctx).print(0, "assert", nullptr, "%s", text.c_str());
    std::abort();
  }
  throw std::runtime_error(text);
}

}  // extern "C"
