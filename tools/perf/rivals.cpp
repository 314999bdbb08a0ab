#include "tools/perf/rivals.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <sstream>
#include <stdexcept>

#include "tools/perf/nccl_worker.hpp"

namespace lci_perf {

namespace {

struct description {
  const char* name;
  const char* needed;    // to build its program
  const char* launcher;  // Debian's name of it; empty: lci_perf starts its processes
  const char* version;   // what else an mpirun says of itself, if it is this one
};
constexpr description PROGRAMS[] = {{"ucx", "libucx-dev", "", ""},
                                    {"openmpi", "libopenmpi-dev", "mpirun.openmpi", "open-mpi.org"},
                                    {"mpich", "libmpich-dev", "mpirun.mpich", "HYDRA"},
                                    {"libfabric", "libfabric-dev", "", ""}};

bool can_run(const std::string& path) { return access(path.c_str(), X_OK) == 0; }

std::string find_in_path(const std::string& name) {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "/usr/bin:/bin");
  for (std::string folder; std::getline(folders, folder, ':');)
    if (can_run(folder + "/" + name)) return folder + "/" + name;
  return "";
}

// What a program says of itself.
std::string version_of(const std::string& program) {
  std::string text;
  std::FILE* const said = popen(("'" + program + "' --version 2>/dev/null").c_str(), "r");
  if (said == nullptr) return text;
  char part[256];
  while (std::fgets(part, sizeof part, said) != nullptr) text += part;
  pclose(said);
  return text;
}

// By its name on Debian; elsewhere both families have an mpirun.
std::string find_launcher(const description& what) {
  if (std::string found = find_in_path(what.launcher); !found.empty()) return found;
  const std::string other = find_in_path("mpirun");
  if (other.empty()) return "";
  const std::string version = version_of(other);
  const bool is_this =
      version.find(what.version) != std::string::npos ||
      (std::string(what.name) == "openmpi" && version.find("Open MPI") != std::string::npos);
  return is_this ? other : "";
}

contender from_program(const description& what, const std::string& folder) {
  const std::string program = folder + "/lci_perf_" + what.name;
  contender found{what.name, {}, {program}, {}, ""};
  if (!can_run(program)) {
    found.why_not = "there is no " + program + ": it is built, with the target benchmarks, where " +
                    what.needed + " is installed";
    return found;
  }
  if (*what.launcher == 0) return found;
  const std::string launcher = find_launcher(what);
  if (launcher.empty())
    found.why_not = std::string("there is no ") + what.launcher +
                    " in PATH, and no mpirun that says that it is of " + what.name;
  found.launcher = {launcher};
  if (std::string(what.name) == "openmpi")
    found.launcher.insert(found.launcher.end(),
                          {"--allow-run-as-root", "--oversubscribe", "--bind-to", "none"});
  return found;
}

}  // namespace

std::vector<contender> find_rivals(const std::string& folder, const std::string& self) {
  std::vector<contender> all;
  for (const description& one : PROGRAMS) all.push_back(from_program(one, folder));
  all.push_back({"nccl", {}, {self, "--nccl"}, {}, why_no_nccl()});
  // Copies to memory that both processes have: no library at all.
  all.push_back({"raw", {}, {self, "--raw"}, {}, ""});
  return all;
}

contender find_lci(const std::string& folder, const std::string& self) {
  contender lci{"lci", {folder + "/lcrun"}, {self, "--worker"}, {}, ""};
  if (!can_run(lci.launcher[0])) lci.launcher = {find_in_path("lcrun")};
  if (lci.launcher[0].empty()) lci.why_not = "there is no lcrun beside lci_perf, nor in PATH";
  return lci;
}

std::vector<std::string> variables_for(const std::string& transport) {
  if (transport.empty()) return {};
  const std::size_t colon = transport.find(':');
  const std::string backend = transport.substr(0, colon);
  std::vector<std::string> variables;
  if (backend == "shm")
    variables = {"LCI_ATTR_SHM_ENABLE=1"};
  else
    variables = {"LCI_ATTR_BACKEND=" + backend, "LCI_ATTR_SHM_ENABLE=0"};
  if (colon != std::string::npos)
    variables.push_back("LCI_ATTR_OFI_PROVIDER_NAME=" + transport.substr(colon + 1));
  return variables;
}

std::vector<std::string> launcher_words_for(const std::string& name, const std::vector<int>& cpus) {
  const bool is_each_alone = std::set<int>(cpus.begin(), cpus.end()).size() == cpus.size();
  // By its own count of slots a few processes may be too many, and then all of them yield.
  if (name == "openmpi" && is_each_alone) return {"--mca", "mpi_yield_when_idle", "0"};
  return {};
}

std::vector<contender> choose(const arguments& asked, contender lci, std::vector<contender> known) {
  std::vector<contender> chosen{std::move(lci)};
  for (const std::string& name : asked.against) {
    if (asked.against.size() > 1 && (name == "all" || name == "none"))
      throw std::invalid_argument("--against: \"" + name + "\" cannot be combined with others");
    if (name == "all") {
      chosen.insert(chosen.end(), known.begin(), known.end());
      continue;
    }
    if (name == "none") continue;
    const auto found = std::find_if(known.begin(), known.end(),
                                    [&](const contender& one) { return one.name == name; });
    if (found == known.end()) {
      std::string all;
      for (const contender& one : known) all += " " + one.name;
      throw std::invalid_argument("--against: \"" + name + "\" is none of" + all);
    }
    chosen.push_back(*found);
  }
  return chosen;
}

}  // namespace lci_perf
