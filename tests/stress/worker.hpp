// One thread of the stress program: runs its part of the plan, takes whatever arrives for its rank,
// verifies every byte.
//
// Owns its buffers in flight and its completion queue; shares the rank's inbox and windows with the
// other threads. A worker ends when the whole rank has sent and received all that is planned. What
// does not verify throws.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "lci.hpp"
#include "plan.hpp"

namespace stress {

// What the threads of one rank have in common.
struct site {
  const plan& work;
  int rank;
  lci::comp_t inbox;    // zero-copy active messages of all threads of all ranks
  lci::rcomp_t number;  // of the inbox
  std::size_t slot;     // bytes that each thread of each rank owns in every written window
  std::vector<lci::rmr_t> written;   // window of each rank that puts go to
  std::vector<lci::rmr_t> constant;  // window of each rank that only gets touch
  std::size_t constant_size;
  std::atomic<std::size_t> arrived{0};
  std::size_t expected;                                       // active messages for this rank
  std::atomic<int> busy{0};                                   // workers that are not through
  std::vector<std::unique_ptr<std::atomic<bool>[]>> seen {};  // per sending thread, per action
};

// Seed of the constant window of a rank.
inline std::uint64_t constant_seed(int rank) { return 0xc0ffee00u + static_cast<unsigned>(rank); }

class worker {
 public:
  worker(site& shared, int thread, lci::device_t device);
  ~worker();
  void run();

 private:
  struct flight;
  struct expectation {
    int from;
    const action* what;
  };

  void plan_receives();
  void post_receives();
  void start_next();
  bool start_am(const action& a);
  bool start_send(const action& a);
  bool start_put(const action& a);
  bool start_get(const action& a);
  lci::status_t read_back(flight* f);
  bool settle(flight* f, const lci::status_t& answer);
  void finish(flight* f);
  void take_completions();
  void take_messages();
  void verify(const void* data, std::size_t size, std::uint64_t seed, std::size_t skip,
              const std::string& what) const;
  std::unique_ptr<flight> take_off(const action& a);

  site& site_;
  const int thread_;
  const lci::device_t device_;
  const std::vector<action>& actions_;
  lci::comp_t done_;
  std::size_t next_ = 0;       // first action that has not started
  std::size_t in_flight_ = 0;  // operations that have not completed
  bool slot_busy_ = false;     // a put-and-read-back is under way in this thread's slots
  std::vector<expectation> receives_;
  std::size_t next_receive_ = 0;
  std::size_t open_receives_ = 0;
};

}  // namespace stress
