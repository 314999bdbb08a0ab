// The start of a job: the ranks of this host, or an lcrun on each of the hosts.
#include <cerrno>
#include <cstring>
#include <utility>

#include "tools/lcrun/binding.hpp"
#include "tools/lcrun/hosts.hpp"
#include "tools/lcrun/job.hpp"

namespace lcrun {

// False when the command cannot be run at all; reported once instead of by every rank.
bool job::start_all() {
  const bool well = opts_.hosts.empty() ? start_ranks() : start_agents();
  input_.started();
  return well;
}

bool job::start_ranks() {
  environment env;
  env.set_all(opts_.variables);
  env.set(lci::base::report::SOCKET_VARIABLE, report_socket_);
  job_environment common{socket_, directory_, opts_.nprocs, {}, {}, 0, opts_.first, opts_.local};
  if (orders_ != nullptr) {
    env.set_all(orders_->environment);
    common.address = opts_.address;
    common.port = opts_.port;
    common.secret = orders_->secret;
  }
  const std::vector<cpu_set_t> cores =
      opts_.bind_core ? deal_cores(opts_.local) : std::vector<cpu_set_t>();
  const bool end_last_line = opts_.nprocs > 1 || opts_.tag_output;
  for (int i = 0; i < opts_.local; ++i) {
    const int r = opts_.first + i;
    set_rank_variables(env, common, r);
    const request what{opts_.command,
                       orders_ != nullptr ? input_.nothing() : input_.descriptor_for(r),
                       cores.empty() ? nullptr : &cores[static_cast<std::size_t>(i)], i == 0};
    const std::string tag = opts_.tag_output ? "[" + std::to_string(r) + "] " : "";
    if (!add(what, env, tag, end_last_line)) return false;
  }
  return true;
}

// Starts an agent on each host; it takes its orders from us alone.
bool job::start_agents() {
  const std::vector<host_share> hosts = share_ranks(opts_.hosts, opts_.nprocs);
  mission m = make_mission(opts_, address_of(hosts.front()));
  for (const host_share& host : hosts) {
    m.opts.first = host.first;
    m.opts.local = host.count;
    std::vector<std::string> words = agent_command(opts_.ssh, host);
    std::vector<char*> command;
    for (std::string& word : words) command.push_back(word.data());
    command.push_back(nullptr);
    pipe_ends control = make_pipe();
    environment env;
    if (!add(request{command.data(), control.read.get(), nullptr, &host == &hosts.front()}, env, "",
             true))
      return false;
    rank_process& p = ranks_.back();
    p.host = host.name;
    // Where the way to a host makes one stream of both, it may come in either.
    for (line_stream* stream : {p.out.get(), p.err.get()}) stream->take_out(m.page_mark);
    control.read.reset();
    p.orders = order_stream(std::move(control.write), to_bytes(m));
  }
  return true;
}

bool job::add(const request& what, environment& env, const std::string& tag, bool end_last_line) {
  int exec_error = 0;
  started s = start_process(what, env, was_, exec_error);
  warden_.watch(s.pid);
  rank_process& p = ranks_.emplace_back();
  p.pid = s.pid;
  p.out = std::make_unique<line_stream>(std::move(s.out), out_, tag, end_last_line);
  p.err = std::make_unique<line_stream>(std::move(s.err), err_sink(), tag, end_last_line);
  ++alive_;
  if (exec_error == 0) return true;
  say("cannot run " + std::string(what.command[0]) + ": " + ::strerror(exec_error));
  status_ = exec_error == ENOENT ? 127 : 126;
  ending_ = true;  // there is nothing more to report
  return false;
}

}  // namespace lcrun
