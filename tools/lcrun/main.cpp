// lcrun: starts the processes of a job. See docs and --help.
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "lci/errors.hpp"
#include "tools/lcrun/hosts.hpp"
#include "tools/lcrun/job.hpp"
#include "tools/lcrun/mission.hpp"

namespace lcrun {
namespace {

// Makes sure that descriptors 0, 1 and 2 exist, so that none of our pipes gets one of these
// numbers.
void open_standard_descriptors() {
  for (int fd = ::open("/dev/null", O_RDWR); fd >= 0; fd = ::open("/dev/null", O_RDWR)) {
    if (fd <= STDERR_FILENO) continue;
    ::close(fd);
    return;
  }
}

// Three descriptors per rank: with the usual soft limit of 1024 only 300 ranks would be possible.
void raise_descriptor_limit(const rlimit& was, int nprocs) {
  rlimit wanted = was;
  const rlim_t need = 4 * static_cast<rlim_t>(nprocs) + 64;
  if (wanted.rlim_cur >= need) return;
  wanted.rlim_cur = std::min(need, wanted.rlim_max);
  ::setrlimit(RLIMIT_NOFILE, &wanted);
}

// As nohup and a script's background jobs have it.
bool is_ignored(int signal) {
  struct sigaction now {};
  return ::sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

// From here on, signals are read in the poll loop; ranks get the old mask back.
lci::base::descriptor redirect_signals(inherited_state& was) {
  sigset_t set;
  sigemptyset(&set);
  // One that is blocked would be read even if it is ignored.
  for (const int signal : {SIGINT, SIGTERM, SIGHUP})
    if (!is_ignored(signal)) sigaddset(&set, signal);
  for (const int signal : {SIGUSR1, SIGUSR2, SIGCHLD}) sigaddset(&set, signal);
  ::sigprocmask(SIG_BLOCK, &set, &was.mask);
  // If SIGCHLD were ignored, inherited from our parent, we would not get the statuses.
  ::signal(SIGCHLD, SIG_DFL);
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &ignore, &was.pipe_action);
  return lci::base::descriptor(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

// A private directory to meet in, in the user's own one if that is given. Every job gets one: the
// command itself may choose the file bootstrap for the program that it runs. Empty: there can be
// none, and the user has not asked for it.
std::string make_directory(const std::vector<std::string>& variables) {
  environment env;
  env.set_all(variables);
  std::string base = env.get("LCT_PMI_FILE_DIR");
  // The bootstrap would make it as well.
  if (!base.empty()) ::mkdir(base.c_str(), 0700);
  if (base.empty()) base = env.get("TMPDIR");
  if (base.empty()) base = "/tmp";
  std::string path = base + "/lcrun-XXXXXX";
  if (::mkdtemp(path.data()) != nullptr) return path;
  if (!wants_directory(env)) return {};
  throw lci::backend_error("cannot create a directory in " + base + ": " +
                           lci::boot::errno_text(errno));
}

int run_job(const options& opts, std::string directory, const mission* orders) {
  inherited_state was{};
  ::getrlimit(RLIMIT_NOFILE, &was.files);
  raise_descriptor_limit(was.files, opts.local);
  lci::base::descriptor signals = redirect_signals(was);
  return job(opts, was, std::move(signals), std::move(directory), orders).run();
}

int run_agent() {
  mission m = read_mission(STDIN_FILENO);
  if (::chdir(m.directory.c_str()) != 0) {
    throw lci::backend_error("cannot work in " + m.directory +
                             " on this host: " + lci::boot::errno_text(errno));
  }
  std::vector<char*> command;
  for (std::string& word : m.command) command.push_back(word.data());
  command.push_back(nullptr);
  m.opts.command = command.data();
  return run_job(m.opts, std::string(), &m);
}

int run(int argc, char** argv) {
  options opts;
  std::string why;
  if (!parse(argc, argv, opts, why)) {
    std::fprintf(stderr, "lcrun: %s\n%s", why.c_str(), USAGE);
    return 1;
  }
  if (opts.help) {
    std::fputs(USAGE, stdout);
    return 0;
  }
  open_standard_descriptors();
  if (opts.agent) return run_agent();
  // Before anything is started: errors in the list are reported with the usage.
  if (!opts.hosts.empty()) {
    share_ranks(opts.hosts, opts.nprocs);
    if (opts.ssh.empty()) opts.ssh = environment().get("LCI_SSH");
    // Each ssh is in a process group of its own, where it could not read an answer.
    if (opts.ssh.empty()) opts.ssh = "ssh -o BatchMode=yes";
  }
  std::string directory = opts.hosts.empty() ? make_directory(opts.variables) : std::string();
  return run_job(opts, std::move(directory), nullptr);
}

}  // namespace
}  // namespace lcrun

int main(int argc, char** argv) {
  try {
    return lcrun::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "lcrun: %s\n", error.what());
    return 1;
  }
}
