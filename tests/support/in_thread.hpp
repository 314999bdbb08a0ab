// Work in a thread of its own, until it is done.
#pragma once

#include <thread>

namespace lci::test {

template <class Work>
void in_thread(Work work) {
  std::thread(work).join();
}

}  // namespace lci::test
