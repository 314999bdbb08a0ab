// Asks the ranks of this host what they wait for, and collects their answers.
//
// A rank is asked by a signal to each of its processes that handle it, and answers in datagrams to
// a socket of lcrun. It is asked twice, so that the page can say whether it has made progress in
// between, and again if something could not be looked at. Threads: single, from the poll loop.
// Always true: an inquiry is over within LIMIT; processes that are stopped, or do not contain the
// library, are not waited for.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "lci/base/report.hpp"
#include "lci/boot/fd.hpp"
#include "tools/lcrun/members.hpp"
#include "tools/lcrun/page.hpp"

namespace lcrun {

class inquiry {
 public:
  static constexpr std::chrono::milliseconds LIMIT{5000};  // per question
  static constexpr std::chrono::milliseconds PAUSE{100};   // between two questions
  static constexpr int QUESTIONS = 2, MOST_QUESTIONS = 6;

  // Throws backend_error. Ranks get the name of the socket in their environment.
  explicit inquiry(const std::string& socket);

  struct subject {
    int rank;
    pid_t pid;          // of the process that was started; also its process group
    std::string ended;  // how it ended; empty: it has not
  };
  void begin(const std::vector<subject>& ranks);
  bool is_under_way() const noexcept { return !about_.empty(); }
  int fd() const noexcept { return fd_.get(); }
  // The time by which look() must be called.
  const lci::boot::deadline& next() const noexcept { return next_; }
  // Takes in answers and asks again. Returns true once: the inquiry is over, and take() has its
  // result.
  bool look();
  std::vector<rank_view> take();

 private:
  struct witness {
    subject who;
    rank_view view;
    std::vector<lci::base::report::record> parts;  // of the answer to the question now
    int answered = 0;                              // the last question that was answered completely
    bool is_busy = false;                          // that answer left something out
  };
  void ask();
  void read_all();
  void take_in(const char* bytes, std::size_t size, pid_t sender);
  void settle();
  bool waits_for(witness& one, const process_groups& now);

  lci::base::descriptor fd_;
  std::vector<witness> about_;
  int question_ = 0;       // counts over all inquiries, so that late answers are recognised
  int first_ = 0;          // the first question of this inquiry
  bool is_asked_ = false;  // question_ was asked and is not settled
  lci::boot::deadline next_ = lci::boot::deadline::never();
  lci::boot::deadline limit_ = lci::boot::deadline::never();
};

}  // namespace lcrun
