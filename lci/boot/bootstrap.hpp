// How the processes of a job find each other: put / fence / get over whatever launcher started
// them.
// Callers: the runtime's global state and the companion C library.
// Threads: single; one thread at a time, and fence() blocks it.
// Always true: a value is readable only after the fence that follows its put, then by every rank;
// values hold any bytes. fence() is collective and either completes on every rank or throws.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace lci::boot {

class meanwhile;

inline constexpr std::size_t MAX_KEY = 255;          // bytes
inline constexpr std::size_t MAX_VALUE = 64 * 1024;  // bytes
inline constexpr int MAX_RANKS = 1 << 20;            // more is taken for a misread variable

// A rank that left the job.
struct departure {
  int rank;
  std::string why;       // for people
  bool orderly = false;  // it announced that it leaves
};

// The text for a rank that left in an orderly way.
inline constexpr const char* LEFT_TEXT = "it has left the job";

class bootstrap {
 public:
  virtual ~bootstrap() = default;
  bootstrap() = default;
  bootstrap(const bootstrap&) = delete;
  bootstrap& operator=(const bootstrap&) = delete;

  virtual const char* name() const noexcept = 0;
  virtual int rank() const noexcept = 0;
  virtual int size() const noexcept = 0;

  // Offers `value` under `key` to all ranks from the next fence on; a second put of the same key
  // replaces the first. Throws argument_error for an empty or too long key or a too long value.
  virtual void put(const std::string& key, const std::string& value) = 0;
  // Waits until every rank has called it. Throws backend_error when a rank is lost or time is up.
  virtual void fence() = 0;
  // The same, with rounds of `work` while it waits; null: none. An implementation whose fence is a
  // single call of a library has this one: rounds before it, until all is out, but not for long.
  virtual void fence_with(meanwhile* work);
  // What `rank` put under `key` before the last fence. Throws argument_error for a rank out of
  // range or a key that was not put.
  virtual std::string get(int rank, const std::string& key) = 0;
  // The same of all ranks, in their order; `visit` makes no call of the bootstrap. A large job
  // starts faster by it: nothing is copied, and what each call checks is checked once.
  using visitor = std::function<void(int rank, std::string_view value)>;
  virtual void get_all(const std::string& key, const visitor& visit) {
    for (int r = 0; r < size(); ++r) visit(r, get(r, key));
  }

  // Whether news() may ever return anything.
  virtual bool has_news() const noexcept { return false; }
  // The ranks that have departed since the last call; does not wait. Networks know only of peers
  // that they are connected with; this covers all ranks, some time after they departed.
  virtual std::vector<departure> news() { return {}; }
  // Announces that this process leaves in an orderly way, so that the others do not take its end
  // for a failure.
  virtual void leave() noexcept {}
};

// The checks that all implementations share.
void check_put(const char* backend, std::string_view key, std::string_view value);
void check_rank(const char* backend, int rank, int size);
[[noreturn]] void throw_missing_key(const char* backend, int rank, std::string_view key);

}  // namespace lci::boot
