#include "actors.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "lci/runtime/runtime.hpp"
#include "steps.hpp"

namespace lci::test {

namespace {

constexpr int QUESTIONS = 20;  // of those that go on
constexpr std::size_t QUESTION_SIZE = 200;

void set(const char* name, const std::string& value) { setenv(name, value.c_str(), 1); }

void open_runtime(const child_process& me, const std::string& folder) {
  set("LCT_PMI_BACKEND", "file");
  set("LCT_PMI_FILE_DIR", folder);
  set("LCT_PMI_FILE_NRANKS", std::to_string(me.size()));
  set("LCT_PMI_FILE_RANK", std::to_string(me.rank()));
  // By rank, a letter for its host.
  const char* const hosts = std::getenv("LCI_DEATHS_HOSTS");
  if (hosts != nullptr)
    set("LCI_HOST_ID", "host-" + std::string(1, hosts[static_cast<std::size_t>(me.rank())]));
  // Everybody is to hear of the death, unless the run is about `own`: then who has nothing to do
  // with it asks.
  setenv("LCI_ATTR_FAILURE_NOTICE", "all", 0);
  g_runtime_init_x().alloc_default_device(false)();
}

runtime_impl_t& runtime() { return *get_g_runtime().get_impl(); }

mem::packet_pool& packets() { return runtime().default_packet_pool.get_impl()->packets; }

}  // namespace

bool spoils(std::string_view what) {
  const char* const given = std::getenv("LCI_DEATHS_SPOIL");
  return given != nullptr && what == given;
}

std::vector<char> bytes_of(std::size_t size, unsigned seed) {
  std::vector<char> bytes(size);
  for (std::size_t i = 0; i < size; ++i)
    bytes[i] = static_cast<char>((i + seed) * 2654435761u >> 13);
  return bytes;
}

actor::actor(child_process& me, int victim, const std::string& folder)
    : window(ROOM, UNTOUCHED), me_(me), victim_(victim) {
  open_runtime(me, folder);
  device = alloc_device();
  regions_before_ = runtime().core.regions.live();
  done = alloc_cq();
  inbox = alloc_cq();
  number = register_rcomp(inbox);
  chat_ = alloc_cq();
  chat_number_ = register_rcomp(chat_);
  mr_ = register_memory_x(window.data(), window.size()).device(device)();
  // Through the board: the operation is to be the first contact.
  const rmr_t key = get_rmr(mr_);
  std::string text;
  for (std::size_t i = 0; i < sizeof key; ++i)
    text += std::to_string(reinterpret_cast<const unsigned char*>(&key)[i]) + " ";
  me.publish("key", text);
  me.publish("pid", std::to_string(getpid()));
  me.barrier("open", [] { sched_yield(); });
}

mr_t actor::registration_of(char* data, std::size_t size) {
  return registrations_.emplace_back(register_memory_x(data, size).device(device)());
}

rmr_t actor::key_of(int of) const {
  rmr_t key;
  const std::string text = me_.lookup(of, "key");
  const char* at = text.c_str();
  for (std::size_t i = 0; i < sizeof key; ++i) {
    char* end = nullptr;
    reinterpret_cast<unsigned char*>(&key)[i] =
        static_cast<unsigned char>(std::strtoul(at, &end, 10));
    at = end;
  }
  return key;
}

bool actor::hears(const std::function<void()>& action) {
  try {
    action();
    return true;
  } catch (const peer_failure_error& error) {
    EXPECT_EQ(error.failed_rank(), victim_) << error.what();
    has_lost_ = true;
    return false;
  }
}

void actor::progress() {
  hears([&] { progress_x().device(device)(); });
  answer_questions();
  sched_yield();  // there are more processes than cores
}

// Rank 2 gets its answers here.
void actor::answer_questions() {
  for (status_t s = cq_pop(chat_); s.is_done(); s = cq_pop(chat_)) {
    EXPECT_EQ(s.size, QUESTION_SIZE);
    const std::vector<char> wanted = bytes_of(QUESTION_SIZE, static_cast<unsigned>(s.tag));
    EXPECT_EQ(std::memcmp(s.buffer, wanted.data(), QUESTION_SIZE), 0) << "question " << s.tag;
    std::free(s.buffer);
    if (rank() == 2) {
      ++answers_;
    } else {
      say(s.rank, static_cast<unsigned>(s.tag));
    }
  }
}

void actor::say(int to, unsigned text) {
  std::vector<char> bytes = bytes_of(QUESTION_SIZE, text);
  const status_t answer = post_am_x(to, bytes.data(), bytes.size(), COMP_NULL_RETRY, chat_number_)
                              .device(device)
                              .tag(text)
                              .allow_retry(false)();
  EXPECT_TRUE(answer.is_done()) << "of so few bytes there is a copy";
}

void actor::ask(int times) {
  for (; times > 0; --times) {
    const int before = answers_;
    say(survivor(), static_cast<unsigned>(before));
    while (answers_ == before) progress();
  }
}

bool actor::wait(const std::function<bool()>& holds, bool with_victim) {
  bool holds_now = holds();
  while (!holds_now && !is_over()) {
    progress();
    holds_now = holds();
  }
  has_met_ = has_met_ || (holds_now && with_victim);
  return holds_now;
}

bool actor::wait_for_part(const std::function<void()>& start) {
  return hears(start) && wait([&] { return cq_pop(done).is_done(); }, false);
}

bool actor::post(const std::function<status_t()>& one_post) {
  for (;;) {
    status_t answer;
    if (is_over() || !hears([&] { answer = one_post(); })) return false;
    if (!answer.is_retry()) {
      has_met_ = true;
      if (answer.is_posted()) return wait([&] { return cq_pop(done).is_done(); });
      return true;
    }
    progress();
  }
}

// Who has never met the victim is not told of its death, and has to ask for it.
bool actor::is_over() {
  if (!has_lost_ && get_g_runtime().get_attr_failure_notice() == attr_failure_notice_t::own) {
    const std::vector<int> failed = get_failed_ranks();
    has_lost_ = !failed.empty();
    if (has_lost_) {
      EXPECT_EQ(failed, std::vector<int>{victim_});
    }
  }
  if (!has_lost_ && !has_met_ && is_victim_dead()) {
    char byte = 0;
    hears([&] {
      (void)post_am_x(victim_, &byte, 1, COMP_NULL_RETRY, chat_number_).device(device)();
    });
  }
  return has_lost_;
}

bool actor::is_victim_dead() const {
  // The parent waits for the victim first, so its number is free again.
  return ::kill(static_cast<pid_t>(std::stol(me_.lookup(victim_, "pid"))), 0) != 0;
}

void actor::see_the_end() {
  if (rank() == victim_) {
    steps::die_at(0);
    me_.reach("finished");
  }
  while (!is_over() && !me_.has_reached(victim_, "finished")) progress();
  if (rank() == 2) ask(QUESTIONS);
  meet_survivors("end", [&] { progress(); });
}

void actor::meet_survivors(const char* where, const std::function<void()>& meanwhile) {
  me_.barrier(where, meanwhile, has_lost_ ? std::vector<int>{victim_} : std::vector<int>{});
}

// Both stay to the end of the process.
void actor::spoil_resources() const {
  if (spoils("descriptor")) {
    EXPECT_GE(dup(STDERR_FILENO), 0);
  }
  if (spoils("thread")) std::thread([] { pause(); }).detach();
}

void actor::close() {
  spoil_resources();
  if (spoils("packet")) (void)get_upacket();
  if (!spoils("region")) deregister_memory(&mr_);
  for (mr_t& mr : registrations_) deregister_memory(&mr);
  deregister_rcomp(number);
  deregister_rcomp(chat_number_);
  for (comp_t* comp : {&done, &inbox, &chat_}) free_comp(comp);
  free_device(&device);
  // Who polls no more may still have what it read last; with its device that goes back.
  meet_survivors("freed", [] { sched_yield(); });
  packets().reclaim();  // what peers have given back is only found when it is looked for
  EXPECT_EQ(packets().outstanding(), 0u) << "packets are not back in the pool";
  EXPECT_EQ(runtime().core.regions.live(), regions_before_) << "regions that nobody knows";
  EXPECT_EQ(steps::live_registrations(), 0u) << "registrations that nobody knows";
  g_runtime_fina();
  leaks_.check();
}

}  // namespace lci::test
