// PMI-1 and PMI-2 as they travel over the socket whose number is in PMI_FD: commands and answers,
// each a set of names and values.
//   PMI-1   cmd=get kvsname=kvs_0 key=k\n     one line each
//   PMI-2   "    47cmd=kvs-get;key=k;"        length in six places; ';' in a value is doubled
// Both begin with a PMI-1 line, cmd=init, which names the version that is wanted.
// Callers: pmi1, pmi2. Threads: single. Always true: an answer is checked before it is used, and
// one that never ends is abandoned at MAX_ANSWER bytes; errors name the bootstrap and quote the
// answer.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lci/boot/fd.hpp"

namespace lci::boot::pmi {

inline constexpr std::size_t MAX_ANSWER = 64 * 1024;

// Names and values, in order.
class fields {
 public:
  void add(std::string_view name, std::string_view value) { list_.emplace_back(name, value); }
  // The value, or nothing.
  std::optional<std::string_view> find(std::string_view name) const noexcept;
  // A decimal number within [low, high], or nothing.
  std::optional<int> find_int(std::string_view name, int low, int high) const noexcept;
  const std::vector<std::pair<std::string, std::string>>& list() const noexcept { return list_; }
  bool append_to_last(std::string_view text);

 private:
  std::vector<std::pair<std::string, std::string>> list_;
};

// Parses a line without its end, or the body of a PMI-2 message. Nothing if it is malformed.
std::optional<fields> parse_line(std::string_view line);
std::optional<fields> parse_message(std::string_view body);
// The whole command as it travels.
std::string to_line(const fields& command);
std::string to_message(const fields& command);
// The length of a PMI-2 message, from its first six bytes.
std::optional<std::size_t> parse_length(std::string_view six);

// The values of the launcher's variables.
struct place {
  int fd;
  int rank, size;
};
// Why PMI over PMI_FD cannot be used here, or nothing, with the place in `out`.
std::optional<std::string> find_place(place& out);
// The same; throws backend_error instead.
place need_place(const char* backend);

// The socket. It stays open until the process ends: closing it tells the launcher that we ended.
class connection {
 public:
  // `limit` bounds the wait until a command is taken, and for each answer except those to a
  // barrier.
  connection(const char* backend, int fd, std::chrono::milliseconds limit)
      : backend_(backend), fd_(fd), limit_(limit) {}

  // Sends a command and returns the answer, which must be cmd=`expected` and, if it has an rc,
  // rc=0. Throws backend_error.
  fields ask_line(const fields& command, std::string_view expected, bool patient = false);
  fields ask_message(const fields& command, std::string_view expected, bool patient = false);
  // Exchanges the first line of both protocols; false if the other side does not speak this
  // version. Then the socket is left open for another version.
  bool agree_on(int version, int subversion);
  // Sends the last command and reads the whole answer, whatever it is: a process manager that
  // writes to a closed socket ends the job (Hydra sends the length of a message and its body in two
  // writes). Errors are ignored.
  void part_line(const fields& last_word) noexcept;
  void part_message(const fields& last_word) noexcept;

  [[noreturn]] void fail(const std::string& why) const;

 private:
  void send(const std::string& bytes) const;
  void read_more(const deadline& until);
  std::string read_line(const deadline& until);
  std::string read_bytes(std::size_t size, const deadline& until);
  std::string read_message(const deadline& until);  // its body
  fields check(std::optional<fields> answer, const std::string& raw, const fields& command,
               std::string_view expected) const;

  const char* const backend_;
  base::descriptor fd_;
  const std::chrono::milliseconds limit_;
  std::string buffer_;  // read, not yet used
};

}  // namespace lci::boot::pmi
