// As long as it lives this process can open nothing. Threads: one at a time; it counts for all.
#pragma once

#include <sys/resource.h>

namespace lci::test {

class no_more_descriptors {
 public:
  no_more_descriptors() {
    getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit none{0, before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
  }
  ~no_more_descriptors() { setrlimit(RLIMIT_NOFILE, &before_); }
  no_more_descriptors(const no_more_descriptors&) = delete;
  no_more_descriptors& operator=(const no_more_descriptors&) = delete;

 private:
  rlimit before_{};
};

}  // namespace lci::test
