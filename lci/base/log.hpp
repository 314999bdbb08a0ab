// Log lines for people. A context owns a threshold, two tag filters and a destination; the library
// has a context of its own, configured by LCI_LOG_LEVEL, LCI_LOG_OUTFILE, LCI_LOG_WHITELIST and
// LCI_LOG_BLACKLIST, which are read once, at the first line.
// Callers: all of the library, at set-up, tear-down and failures only; never the message path.
// Threads: any, all functions; only one thread may make and free a context.
// Always true: one line is one write(2) to a descriptor opened for appending, so lines of several
// processes never mix; a line costs no heap allocation unless it is longer than LINE_ON_STACK.
#pragma once

#include <atomic>
#include <cstdarg>
#include <cstddef>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace lci::base::log {

// From least to most detailed; a threshold passes its own level and all levels before it.
enum class level : int { error, warn, status, info, debug, trace };

// Lower-case names of the levels above, in their order.
const std::vector<std::string>& level_names();

// What a context is made from. Plain text and numbers, because a C interface fills it too.
struct context_options {
  std::string name;                      // shown in each line: <name:level:tag>
  std::vector<std::string> level_names;  // least detailed first; may differ from lci's own
  int threshold = 0;                     // index into level_names
  std::string outfile;    // "stderr" (also empty), "stdout", or a path; % becomes the rank
  std::string whitelist;  // comma list; a line needs one entry inside its tag; empty = all pass
  std::string blacklist;  // comma list; a line with one entry inside its tag is dropped
};

class context {
 public:
  explicit context(context_options options);
  ~context();
  context(const context&) = delete;
  context& operator=(const context&) = delete;

  bool enabled(int level) const noexcept {
    // Relaxed: the threshold guards no other data; a line more or less when it changes is harmless.
    return level <= threshold_.load(std::memory_order_relaxed);
  }
  int threshold() const noexcept { return threshold_.load(std::memory_order_relaxed); }
  void set_threshold(int level) noexcept { threshold_.store(level, std::memory_order_relaxed); }

  // `where` is "file:func:line" or null. The message may end its line itself. A line that the
  // threshold or the filters stop costs a comparison and a search.
  void print(int level, const char* tag, const char* where, const char* format, ...) noexcept
      __attribute__((format(printf, 5, 6)));
  void vprint(int level, const char* tag, const char* where, const char* format,
              va_list args) noexcept __attribute__((format(printf, 5, 0)));

 private:
  static constexpr std::size_t LINE_ON_STACK = 1024;
  bool passes(std::string_view tag) const noexcept;  // the two filters
  int destination() noexcept;                        // a descriptor, opened when first needed

  const context_options options_;
  const std::vector<std::string> white_, black_;
  std::atomic<int> threshold_;
  std::mutex mutex_;  // guards fd_ while the destination is chosen
  int fd_ = -1;       // -1 until the first line for which the file can be named
  bool owns_fd_ = false;
};

// The index of `text` (any case) among `names`, or -1.
int find_level(const std::vector<std::string>& names, std::string_view text) noexcept;

// The rank that prefixes every line of this process and replaces % in file names; -1 = not known
// yet. Until it is known, a context whose file name holds % writes to stderr.
void set_rank(int rank) noexcept;
int rank() noexcept;
// The name of this host.
const char* host() noexcept;

// lci's own context. Never freed, so that destructors of static objects may still log.
context& global() noexcept;

inline bool enabled(level l) noexcept { return global().enabled(static_cast<int>(l)); }

// printf-like; `tag` names the subject ("boot", "shm", "net") that the filters work on.
void error(const char* tag, const char* format, ...) noexcept __attribute__((format(printf, 2, 3)));
void warn(const char* tag, const char* format, ...) noexcept __attribute__((format(printf, 2, 3)));
void status(const char* tag, const char* format, ...) noexcept
    __attribute__((format(printf, 2, 3)));
void info(const char* tag, const char* format, ...) noexcept __attribute__((format(printf, 2, 3)));
void debug(const char* tag, const char* format, ...) noexcept __attribute__((format(printf, 2, 3)));
void trace(const char* tag, const char* format, ...) noexcept __attribute__((format(printf, 2, 3)));

}  // namespace lci::base::log

namespace lci {
// So that log::warn(...) reads the same from every floor.
namespace log = base::log;
}  // namespace lci
