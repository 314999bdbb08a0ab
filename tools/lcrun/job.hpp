// One job: its processes, their key-value server, their output, and how it ends.
// Threads: single. One poll loop does everything; nothing polls on a timer.
// Always true: a rank that ended stays unreaped until the job is over, so that the number of its
// process group cannot pass to another process while we may still kill that group.
#pragma once

#include <signal.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "lci/boot/kv_service.hpp"
#include "tools/lcrun/input.hpp"
#include "tools/lcrun/inquiry.hpp"
#include "tools/lcrun/mission.hpp"
#include "tools/lcrun/options.hpp"
#include "tools/lcrun/orders.hpp"
#include "tools/lcrun/output.hpp"
#include "tools/lcrun/process.hpp"
#include "tools/lcrun/warden.hpp"

namespace lcrun {

class job {
 public:
  // `signals` delivers the signals that main has blocked (signalfd). `directory`: see
  // job_environment. `orders`: given if this is the agent of another lcrun.
  job(const options& opts, const inherited_state& was, lci::base::descriptor signals,
      std::string directory, const mission* orders = nullptr);
  ~job();
  // Runs the job to its end; returns the exit status of lcrun.
  int run();

 private:
  static constexpr std::chrono::milliseconds GRACE{2000};  // between SIGTERM and SIGKILL
  // The same for agents, which kill what is left of their ranks first.
  static constexpr std::chrono::milliseconds AGENTS_GRACE = 3 * GRACE;
  // A dying process closes its sockets before we can learn how it died. For this long its peers are
  // not told that it has left; otherwise one of them might fail first and be taken for the cause.
  static constexpr std::chrono::milliseconds NEWS_DELAY{300};
  // Where peers learn without us that it has left, one of them may end first. So a failure is not
  // reported for this long while another rank is about to end. Shorter than NEWS_DELAY: peers are
  // still told how it ended.
  static constexpr std::chrono::milliseconds CAUSE_DELAY{200};

  // A rank or, with --hosts, the connection to a host.
  struct rank_process {
    pid_t pid = -1;
    bool is_over = false;
    bool by_signal = false;  // how it ended
    int end_number = 0;
    bool has_own_end = false;  // its end had begun before others asked for that of the job
    std::unique_ptr<line_stream> out, err;
    std::string host;
    order_stream orders;  // to the agent there
    // By that agent.
    int pages_told() const noexcept { return out->marks() + err->marks(); }
    bool has_told_end() const noexcept { return out->failures() + err->failures() > 0; }
  };
  struct ending {
    int index;  // into ranks_
    bool by_signal;
    int number;  // of the signal, or the exit status
  };
  // How likely a rank ended because of others: least if it was killed, more if it aborted, as after
  // an uncaught exception, most if it exited. A shell says 128 + n if signal n ended its child.
  enum class blame { killed, aborted, exited, nobody };
  static blame blame_of(const ending& e) noexcept;

  bool start_all();
  bool start_ranks();
  bool start_agents();
  bool add(const request& what, environment& env, const std::string& tag, bool end_last_line);
  bool refuse_command(int why);
  void loop();
  int wait_ms() const;
  void build_set();
  void take_signals();
  void take_orders();
  void take_order(unsigned char order);
  void obey(int signal);
  void take_endings();
  void tell_if_stopped(const rank_process& p);
  bool has_to_wait_for_the_cause();
  void report_endings();
  void report(const ending& e);
  void check_clock();
  void schedule_news();
  void end_job();
  void end_together() noexcept;
  void kill_who_ignore(int signal) noexcept;
  void signal_ranks(int signal) noexcept;  // of this host
  void end_ssh_without_agent(int signal) noexcept;
  void tell_agents(unsigned char order);
  void kill_all(int signal) noexcept;
  void finish();
  void write_some_of(sink& to);
  void say(const std::string& text);
  std::string time_text() const;
  void ask_who_waits(const std::string& why);
  void pass_to_who_handles(int signal);
  void look_for_answers();
  bool is_page_awaited(const rank_process& p) const noexcept;
  void end_when_all_have_told();
  void stop_waiting_for_pages();
  void run_out_of_time();
  sink& err_sink() noexcept { return shared_sink_ ? out_ : err_; }

  const options& opts_;
  const inherited_state& was_;
  const lci::base::descriptor signals_;
  const std::string directory_;
  const mission* const orders_;  // null: a user has started this lcrun
  bool under_orders_;            // the stream of orders is open
  const std::string socket_, report_socket_;
  warden warden_;
  lci::boot::kv::service service_;
  inquiry inquiry_;
  input input_;
  sink out_{1}, err_{2};
  bool shared_sink_;  // stdout and stderr are one file: one queue keeps lines whole
  std::vector<rank_process> ranks_;
  std::vector<ending> endings_;  // not reported yet
  std::vector<pollfd> set_;
  int alive_ = 0;
  int status_ = 0;         // of the first failure
  int forwarded_ = 0;      // last signal passed on that requests an end
  int end_requests_ = 0;   // how many such signals came
  bool ending_ = false;    // SIGTERM was sent
  bool has_news_ = false;  // news_at_ is set
  std::string page_title_;
  int pages_asked_ = 0;          // pages requested from each agent; or here, and not printed yet
  bool ends_with_page_ = false;  // the page that is being made is the job's last
  bool killed_ = false;          // SIGKILL was sent
  lci::boot::deadline report_at_ = lci::boot::deadline::never();  // of endings_, at the latest
  lci::boot::deadline kill_at_ = lci::boot::deadline::never();
  lci::boot::deadline news_at_ = lci::boot::deadline::never();
  lci::boot::deadline timeout_ = lci::boot::deadline::never();
  lci::boot::deadline page_end_ = lci::boot::deadline::never();
};

}  // namespace lcrun
