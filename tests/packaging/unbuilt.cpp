// What a program hears where the library was built without some network: linked to a list of
// backends that was configured without their headers, and to everything else of the build under
// test.
#include <cstdio>
#include <exception>

#include "lci.hpp"

int main() {
  std::fputs(lci::get_info(false).c_str(), stdout);
  try {
    lci::g_runtime_init();
    lci::g_runtime_fina();
  } catch (const std::exception& problem) {
    std::printf("error: %s\n", problem.what());
    return 1;
  }
  return 0;
}
