// One thread of the stress program: runs its part of the plan, takes whatever arrives for its rank,
// verifies every byte.
//
// Owns its buffers in flight and its completion queue; shares the site with the other threads. A
// worker ends when the whole rank has sent and received all that is planned. What does not verify
// throws. What was under way with a rank that is lost stays allocated to the end of the process: no
// completion will tell when it may go.
#pragma once

#include <memory>
#include <vector>

#include "lci.hpp"
#include "site.hpp"

namespace stress {

class worker {
 public:
  worker(site& shared, int thread, lci::device_t device);
  ~worker();
  void run();

 private:
  struct flight;
  // Sends of one rank that this thread posts receives for, in order.
  struct stream {
    std::vector<const action*> sends;
    std::size_t next = 0;
    std::size_t open = 0;
  };

  void plan_receives();
  void step();
  void post_receives();
  void post_receive(const action& a, std::size_t* open);
  void start_next();
  bool start(const action& a);
  bool start_am(const action& a);
  bool start_send(const action& a);
  bool start_put(const action& a);
  bool start_get(const action& a);
  void note(int rank, lci::tag_t tag);
  void bid_farewell();
  bool settle(std::unique_ptr<flight> f, const lci::status_t& answer);
  void finish(flight* f);
  void take_completions();
  void take_messages();
  void take_message(const lci::status_t& s);
  std::size_t under_way() const;
  bool is_idle() const;
  std::unique_ptr<flight> take_off(const action& a);

  site& site_;
  const int thread_;
  const lci::device_t device_;
  const action* const actions_;
  lci::comp_t done_;
  std::size_t next_ = 0;                // first action that has not started
  std::vector<std::size_t> in_flight_;  // per peer: operations that have not completed
  std::vector<stream> streams_;         // per origin
  bool is_through_ = false;
  bool is_last_ = false;      // said farewell for the rank
  bool is_repeated_ = false;  // sabotage: the action has been posted once
};

}  // namespace stress
