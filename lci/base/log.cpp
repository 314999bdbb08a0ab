#include "lci/base/log.hpp"

#include <fcntl.h>
#include <strings.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "lci/base/platform.hpp"

// Both libraries contain this variable and share it, under the name by which C programs read it.
// Weak: see boot/membership.
extern "C" {
extern LCI_API int LCT_rank;
int LCT_rank __attribute__((weak)) = -1;
}

namespace lci::base::log {

namespace {

// What all contexts of the process share: the host's name.
struct process_facts {
  char host[256] = "?";
  process_facts() noexcept {
    if (gethostname(host, sizeof host - 1) != 0) host[0] = '?';
    host[sizeof host - 1] = '\0';
  }
};

process_facts& facts() noexcept {
  // Outlives static destructors, and allocates nothing.
  alignas(process_facts) static unsigned char room[sizeof(process_facts)];
  static process_facts* const instance = new (room) process_facts;
  return *instance;
}

// Tags hold no commas, so the lists need no quoting.
std::vector<std::string> split(std::string_view list) {
  std::vector<std::string> entries;
  while (!list.empty()) {
    const std::size_t comma = list.find(',');
    const std::string_view entry = list.substr(0, comma);
    if (!entry.empty()) entries.emplace_back(entry);
    list = comma == std::string_view::npos ? std::string_view() : list.substr(comma + 1);
  }
  return entries;
}

bool any_inside(const std::vector<std::string>& entries, std::string_view tag) noexcept {
  for (const std::string& entry : entries) {
    if (tag.find(entry) != std::string_view::npos) return true;
  }
  return false;
}

// Nothing can be done about a log line that cannot be written, so errors end the attempt.
void write_line(int fd, const char* data, std::size_t size) noexcept {
  while (size > 0) {
    const ssize_t n = ::write(fd, data, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    data += n;
    size -= static_cast<std::size_t>(n);
  }
}

// Gives a line its end, unless the message has brought one. Returns the size of the whole; there is
// room for one more byte, and text before the message.
std::size_t end_line(char* line, std::size_t size) noexcept {
  if (line[size - 1] != '\n') line[size++] = '\n';
  return size;
}

std::string replace_percent(const std::string& path, int rank) {
  std::string out;
  for (const char c : path) {
    if (c == '%')
      out += std::to_string(rank);
    else
      out += c;
  }
  return out;
}

const char* text_of(const char* variable) noexcept {
  const char* text = std::getenv(variable);
  return text != nullptr ? text : "";
}

context* make_global() {
  context_options options;
  options.name = "lci";
  options.level_names = level_names();
  options.outfile = text_of("LCI_LOG_OUTFILE");
  options.whitelist = text_of("LCI_LOG_WHITELIST");
  options.blacklist = text_of("LCI_LOG_BLACKLIST");
  options.threshold = static_cast<int>(level::warn);
  const char* const wanted = text_of("LCI_LOG_LEVEL");
  const int found = find_level(options.level_names, wanted);
  if (found >= 0) options.threshold = found;
  auto* made = new context(std::move(options));
  // Set-up refuses such a value with an exception; a program that logs earlier gets this warning.
  if (found < 0 && wanted[0] != '\0') {
    made->print(static_cast<int>(level::warn), "log", nullptr,
                "LCI_LOG_LEVEL is \"%s\": expected error, warn, status, info, debug or trace; "
                "using warn",
                wanted);
  }
  return made;
}

}  // namespace

const std::vector<std::string>& level_names() {
  static const auto& names =
      *new std::vector<std::string>{"error", "warn", "status", "info", "debug", "trace"};
  return names;
}

int find_level(const std::vector<std::string>& names, std::string_view text) noexcept {
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i].size() == text.size() &&
        strncasecmp(names[i].data(), text.data(), text.size()) == 0)
      return static_cast<int>(i);
  }
  return -1;
}

// Relaxed: a number that is printed; it publishes no other data.
void set_rank(int rank) noexcept {
  std::atomic_ref(LCT_rank).store(rank, std::memory_order_relaxed);
}
int rank() noexcept { return std::atomic_ref(LCT_rank).load(std::memory_order_relaxed); }
const char* host() noexcept { return facts().host; }

context::context(context_options options)
    : options_(std::move(options)),
      white_(split(options_.whitelist)),
      black_(split(options_.blacklist)),
      threshold_(options_.threshold) {}

context::~context() {
  if (owns_fd_) ::close(fd_);
}

bool context::passes(std::string_view tag) const noexcept {
  return (white_.empty() || any_inside(white_, tag)) && !any_inside(black_, tag);
}

// Chosen at the first line rather than when the context is made: file names may need the rank, and
// a run without messages shall leave no empty files.
int context::destination() noexcept {
  const std::lock_guard<std::mutex> guard(mutex_);
  if (fd_ >= 0) return fd_;
  const std::string& path = options_.outfile;
  if (path.empty() || path == "stderr") return fd_ = STDERR_FILENO;
  if (path == "stdout") return fd_ = STDOUT_FILENO;
  const int rank_now = rank();
  if (rank_now < 0 && path.find('%') != std::string::npos) return STDERR_FILENO;
  std::string real;
  try {
    real = replace_percent(path, rank_now);
  } catch (const std::bad_alloc&) {
    return STDERR_FILENO;  // this line; the next one tries again
  }
  fd_ = ::open(real.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (fd_ >= 0) {
    owns_fd_ = true;
    return fd_;
  }
  fd_ = STDERR_FILENO;  // said once; from then on every line goes where a person may see it
  dprintf(STDERR_FILENO, "%s: cannot open log file %s: %s; logging to stderr\n",
          options_.name.c_str(), real.c_str(), std::strerror(errno));
  return fd_;
}

void context::print(int level, const char* tag, const char* where, const char* format,
                    ...) noexcept {
  va_list args;
  va_start(args, format);
  vprint(level, tag, where, format, args);
  va_end(args);
}

void context::vprint(int level, const char* tag, const char* where, const char* format,
                     va_list args) noexcept {
  if (!enabled(level) || !passes(tag)) return;
  const int saved_errno = errno;  // callers log between a failure and their look at errno
  // All processes of a host share the monotonic clock, so their lines can be merged by it.
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const auto index = static_cast<std::size_t>(level);
  const char* const level_name =
      level >= 0 && index < options_.level_names.size() ? options_.level_names[index].c_str() : "?";
  // Formatted as one piece, so that it can be written as one piece.
  char stack[LINE_ON_STACK];
  const int head = std::snprintf(
      stack, sizeof stack, "%d:%s:%ld:%ld:%lld.%06ld%s%s<%s:%s:%s> ", rank(), facts().host,
      static_cast<long>(getpid()), static_cast<long>(syscall(SYS_gettid)),
      static_cast<long long>(now.tv_sec), now.tv_nsec / 1000, where != nullptr ? ":" : "",
      where != nullptr ? where : "", options_.name.c_str(), level_name, tag);
  va_list again;  // a list can be walked once only, and a long line is formatted twice
  va_copy(again, args);
  const auto at = static_cast<std::size_t>(head < 0 ? 0 : head);
  const int body = at < sizeof stack ? std::vsnprintf(stack + at, sizeof stack - at, format, args)
                                     : std::vsnprintf(nullptr, 0, format, args);
  if (head >= 0 && body >= 0) {
    const std::size_t size = at + static_cast<std::size_t>(body);
    if (size + 1 < sizeof stack) {
      write_line(destination(), stack, end_line(stack, size));
    } else if (char* heap = static_cast<char*>(std::malloc(size + 2)); heap != nullptr) {
      // A prefix that does not fit the stack line is cut; only a huge `where` can cause that.
      const std::size_t kept = at < sizeof stack ? at : sizeof stack - 1;
      std::char_traits<char>::copy(heap, stack, kept);
      std::vsnprintf(heap + kept, size + 2 - kept, format, again);
      const std::size_t used = kept + static_cast<std::size_t>(body);
      write_line(destination(), heap, end_line(heap, used));
      std::free(heap);
    }
  }
  va_end(again);
  errno = saved_errno;
}

namespace {
// Logs to standard error while there is no memory for the real context.
context& plain() noexcept {
  alignas(context) static unsigned char room[sizeof(context)];
  static context* const instance = new (room) context([] {
    context_options options;  // nothing in it is on the heap
    options.name = "lci";
    options.threshold = static_cast<int>(level::warn);
    return options;
  }());
  return *instance;
}

}  // namespace

context& global() noexcept {
  try {
    static context* const instance = make_global();
    return *instance;
  } catch (const std::bad_alloc&) {
    return plain();  // the next caller tries again
  }
}

namespace {
void log_line(level l, const char* tag, const char* format, va_list args) noexcept
    __attribute__((format(printf, 3, 0)));
void log_line(level l, const char* tag, const char* format, va_list args) noexcept {
  global().vprint(static_cast<int>(l), tag, nullptr, format, args);
}
}  // namespace

void error(const char* tag, const char* format, ...) noexcept {
  va_list args;
  va_start(args, format);
  log_line(level::error, tag, format, args);
  va_end(args);
}

void warn(const char* tag, const char* format, ...) noexcept {
  va_list args;
  va_start(args, format);
  log_line(level::warn, tag, format, args);
  va_end(args);
}

void status(const char* tag, const char* format, ...) noexcept {
  va_list args;
  va_start(args, format);
  log_line(level::status, tag, format, args);
  va_end(args);
}

void info(const char* tag, const char* format, ...) noexcept {
  va_list args;
  va_start(args, format);
  log_line(level::info, tag, format, args);
  va_end(args);
}

void debug(const char* tag, const char* format, ...) noexcept {
  va_list args;
  va_start(args, format);
  log_line(level::debug, tag, format, args);
  va_end(args);
}

void trace(const char* tag, const char* format, ...) noexcept {
  va_list args;
  va_start(args, format);
  log_line(level::trace, tag, format, args);
  va_end(args);
}

}  // namespace lci::base::log
