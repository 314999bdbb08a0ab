// lci_info [-v|--verbose]: what this library is and what it can do on this machine.
#include <cstdio>
#include <cstring>
#include <exception>

#include "lci/info.hpp"

int main(int argc, char** argv) {
  bool verbose = false;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "-v") != 0 && std::strcmp(argv[i], "--verbose") != 0) {
      std::fprintf(stderr,
                   "usage: lci_info [-v|--verbose]\n"
                   "Prints the version, every network backend with \"usable\" or the reason why "
                   "not, how\n"
                   "processes would find each other, and the same for accelerators; -v adds all "
                   "attributes and\n"
                   "the options of the build.\n");
      return 1;
    }
    verbose = true;
  }
  try {
    std::fputs(lci::get_info(verbose).c_str(), stdout);
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "lci_info: %s\n", problem.what());
    return 1;
  }
  return 0;
}
