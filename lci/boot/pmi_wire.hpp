// PMI-1 and PMI-2 as they travel over the socket whose number is in PMI_FD: commands and answers,
// each a set of names and values.
//   PMI-1   cmd=get kvsname=kvs_0 key=k\n            one line each
//   PMI-2   "    47cmd=kvs-get;key=k;"               length in six places; ';' in a value is
//   doubled
// Both begin with a PMI-1 line, cmd=init, which says the version that is wanted.
// Callers: pmi1, pmi2. Threads: single. Always true: an answer is judged before it is believed, and
// one that never ends is given up at MAX_ANSWER bytes; errors name the bootstrap and quote the
// answer.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lci/boot/fd.hpp"

namespace lci::boot::pmi {

inline constexpr std::size_t MAX_ANSWER = 64 * 1024;

// Names and values, in their order.
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

// A line without its end, or the body of a PMI-2 message. Nothing when it is none.
std::optional<fields> parse_line(std::string_view line);
std::optional<fields> parse_message(std::string_view body);
// The whole thing as it travels.
std::string to_line(const fields& command);
std::string to_message(const fields& command);
// Length of a PMI-2 message from its six places.
std::optional<std::size_t> parse_length(std::string_view six);

// What the launcher's variables say.
struct place {
  int fd;
  int rank, size;
};
// Why PMI over PMI_FD cannot be used here, or nothing and the place.
std::optional<std::string> find_place(place& out);
// The same; throws backend_error instead.
place need_place(const char* backend);

// The socket. It stays open until the process ends: its end says to the launcher that we are gone.
class connection {
 public:
  // `limit` bounds the wait for each answer but those to a barrier.
  connection(const char* backend, int fd, std::chrono::milliseconds limit)
      : backend_(backend), fd_(fd), limit_(limit) {}

  // Sends a command and returns the answer, which must be cmd=`expected` and, if it has an rc,
  // rc=0. Throws backend_error.
  fields ask_line(const fields& command, std::string_view expected, bool patient = false);
  fields ask_message(const fields& command, std::string_view expected, bool patient = false);
  // The first line of both protocols; false if the other side does not speak this version. Then the
  // socket is left open, for who speaks another one.
  bool agree_on(int version, int subversion);
  // Says the last word and hears the answer out, whatever it is: a process manager that writes to a
  // socket that is closed ends the job (Hydra sends the length of a message and its body in two
  // writes). Nothing is an error any more.
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
  unique_fd fd_;
  const std::chrono::milliseconds limit_;
  std::string buffer_;  // read, not yet used
};

}  // namespace lci::boot::pmi
