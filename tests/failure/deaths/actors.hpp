// One rank of a job in which a rank is killed: how it waits, what it expects of those that live,
// and whether anything is left in it afterwards.
//
// Made in a child of the process harness. Rank 0 is the origin of the operation and rank 1 its
// target; one of them is the victim. Rank 2 asks the survivor questions once it has heard of the
// death. Threads: the child's. Always true: nobody waits for the victim once it is gone; whoever
// waits in vain for anything else is ended by the harness.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lci.hpp"
#include "tests/support/leak_guard.hpp"
#include "tests/support/process_harness.hpp"

namespace lci::test {

class actor {
 public:
  static constexpr std::size_t ROOM = 300000;  // bytes of the window
  static constexpr char UNTOUCHED = 0x5c;

  // Bootstraps over files in `folder`. No messages pass between ranks before the constructor ends.
  actor(child_process& me, int victim, const std::string& folder);

  int rank() const { return me_.rank(); }
  int victim() const { return victim_; }
  int survivor() const { return 1 - victim_; }
  bool has_lost() const { return has_lost_; }  // the victim
  child_process& process() { return me_; }
  rmr_t key_of(int of) const;
  // One round of progress; answers questions.
  void progress();
  // Progress until `holds` or the victim is gone; whether it holds. with_victim: then the victim
  // has been met.
  bool wait(const std::function<bool()>& holds, bool with_victim = true);
  // Posts, with `done` as completion object, until the operation is complete or the victim is gone;
  // whether it is complete.
  bool post(const std::function<status_t()>& one_post);
  // The same for a collective, which signals `done` when this rank's part is over.
  bool wait_for_part(const std::function<void()>& start);
  // What `action` throws about a gone peer is heard; whether it did not throw.
  bool hears(const std::function<void()>& action);
  // A buffer that lives as long as this: what was sent before a death may arrive after a post has
  // told of it.
  char* keep(std::vector<char> bytes) { return buffers_.emplace_back(std::move(bytes)).data(); }
  // The registration of such a buffer, which ends with everything else.
  mr_t registration_of(char* data, std::size_t size);
  // Until the victim is gone or has come to the end. If it is gone everybody hears of it, and the
  // survivors go on.
  void see_the_end();
  // Ends everything, and looks at what is left.
  void close();

  device_t device;
  comp_t done;   // a queue for one's own operations
  comp_t inbox;  // and one for messages of the operation
  rcomp_t number;
  std::vector<char> window;

 private:
  // Waits there for everybody but a victim that is gone.
  void meet_survivors(const char* where, const std::function<void()>& meanwhile);
  void spoil_resources() const;
  void answer_questions();
  void say(int to, unsigned text);
  void ask(int times);
  bool is_over();
  bool is_victim_dead() const;

  leak_guard leaks_;  // first: of what is made after it
  child_process& me_;
  const int victim_;
  bool has_lost_ = false;
  bool has_met_ = false;  // the victim
  int answers_ = 0;       // got by rank 2
  std::size_t regions_before_ = 0;
  std::deque<std::vector<char>> buffers_;
  std::vector<mr_t> registrations_;
  comp_t chat_;
  rcomp_t chat_number_;
  mr_t mr_;
};

// What LCI_DEATHS_SPOIL asks for.
bool spoils(std::string_view what);

// The payload of a round, the same at both sides.
std::vector<char> bytes_of(std::size_t size, unsigned seed);

}  // namespace lci::test
