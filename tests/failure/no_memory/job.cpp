#include "tests/failure/no_memory/job.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <new>
#include <string_view>

#include "lci.hpp"
#include "lci/base/log.hpp"
#include "lci/runtime/runtime.hpp"
#include "tests/support/failing_new/failing_new.hpp"

namespace lci::test {
namespace {

constexpr std::size_t LARGEST = SIZES[KINDS - 1];
// Tags of messages, and what numbers them beyond that.
constexpr tag_t NAMES = 100, EXPECTED = 200, EARLY = 300, ANY = 400, ENDS = 500, LAST = 600,
                WAITS = 700;
constexpr tag_t WIDE = tag_t{1} << 40;  // more than an immediate has

bool spoils(std::string_view what) { return is_set_to("LCI_NO_MEMORY_SPOIL", what); }

// Buffers live as long as the process, and ask nobody for memory.
struct memory {
  char window[2 * LARGEST];     // that peers write and read
  char out[LARGEST];            // what is sent
  char in[2 * KINDS][LARGEST];  // what is received
  char gotten[LARGEST];
  rmr_t names[2];
};
memory m;

class job {
 public:
  explicit job(int rank) : me_(rank), peer_(1 - rank) {}

  void run() {
    g_runtime_init();
    begin();
    watch();
    send_and_receive();
    active_messages();
    put_and_get();
    waiting_calls();
    barrier();
    long sum = 0;
    const long mine = me_ + 1;
    allreduce(&mine, &sum, 1, sizeof(long), [](const void* a, const void* b, void* to, size_t n) {
      for (size_t i = 0; i < n; ++i)
        static_cast<long*>(to)[i] = static_cast<const long*>(a)[i] + static_cast<const long*>(b)[i];
    });
    if (sum != 3) throw wrong_bytes();
    finish();
  }
  // What the program has made, also after an error.
  void free_all() noexcept {
    for (int i = 0; i < comps_; ++i) {
      try {
        free_comp(&all_[i]);
      } catch (const std::exception& error) {
        std::printf("rank %d: an object is still in use: %s\n", me_, error.what());
      }
    }
    comps_ = 0;
  }
  void end_registrations() {
    again([&] {
      if (!mr_.is_empty()) deregister_memory(&mr_);
    });
  }

  static inline int handled = 0, wrong = 0, signals = 0;
  static inline std::uint64_t refused = 0;

 private:
  // Until it is not refused for want of memory: then nothing has happened.
  template <class Call>
  static auto again(Call&& call) -> decltype(call()) {
    for (;;) {
      try {
        return call();
      } catch (const std::bad_alloc&) {
        ++refused;
      }
    }
  }
  static void round() {
    again([] { progress(); });
  }
  template <class Post>
  static status_t posted(Post&& post) {
    for (;;) {
      const status_t answer = again(post);
      if (!answer.is_retry()) return answer;
      round();
    }
  }
  template <class Done>
  static void until(Done&& done) {
    while (!done()) round();
  }
  comp_t keep(comp_t made) {
    all_[comps_++] = made;
    return made;
  }
  comp_t sync() {
    return keep(again([] { return alloc_sync(); }));
  }
  static void wait(comp_t& one) {
    until([&] { return sync_test(one, nullptr); });
  }
  static void on_message(status_t message) {
    if (message.size == 0) {
      ++signals;
      return std::free(message.buffer);
    }
    ++handled;
    wrong += !are_bytes_of(message.buffer, message.size, message.rank, message.tag);
    std::free(message.buffer);
  }
  static void on_packet(status_t message) {
    ++handled;
    wrong += !are_bytes_of(message.buffer, message.size, message.rank, message.tag);
    if (message.size > get_max_bcopy_size())
      std::free(message.buffer);
    else
      put_upacket(message.buffer);
  }
  void fill(tag_t tag) {
    test::fill(m.out, LARGEST, me_, tag);
    if (spoils("bytes") && me_ == 0) m.out[0] = static_cast<char>(~m.out[0]);
  }

  // Objects, their numbers, registered memory and its name.
  void begin() {
    handler_ = keep(again([] { return alloc_handler(&on_message); }));
    in_packets_ = keep(again([] { return alloc_handler_x(&on_packet).zero_copy_am(true)(); }));
    queue_ = keep(again([] { return alloc_cq(); }));
    counter_ = keep(again([] { return alloc_counter(); }));
    to_handler_ = again([&] { return register_rcomp(handler_); });
    to_packets_ = again([&] { return register_rcomp(in_packets_); });
    to_queue_ = again([&] { return register_rcomp(queue_); });
    test::fill(m.window, sizeof(m.window), me_, 0);
    mr_ = again([] { return register_memory(m.window, sizeof(m.window)); });
    m.names[0] = get_rmr(mr_);
    comp_t arrived = receive(peer_, &m.names[1], sizeof(rmr_t), NAMES);
    posted([&] { return post_send(peer_, &m.names[0], sizeof(rmr_t), NAMES, COMP_NULL_RETRY); });
    wait(arrived);
  }
  comp_t receive(int from, void* to, std::size_t size, tag_t tag) {
    comp_t arrived = sync();
    posted([&] { return post_recv_x(from, to, size, tag, arrived).allow_done(false)(); });
    return arrived;
  }
  // Ends with the peer, so that progress tells of that in whatever follows.
  void watch() { last_ = receive(peer_, m.gotten, 1, LAST); }

  void send(std::size_t size, tag_t tag) {
    fill(tag);
    comp_t sent = sync();
    posted([&] { return post_send_x(peer_, m.out, size, tag, sent).allow_done(false)(); });
    wait(sent);
  }
  // A word that comes behind what was sent before.
  void say() {
    ++said_;
    posted([&] { return post_am_x(peer_, m.out, 0, COMP_NULL_RETRY, to_handler_).tag(0)(); });
    until([&] { return signals >= said_; });
  }

  void send_and_receive() {
    comp_t arrived[KINDS];
    // The receives are there first; to the last one anything of that tag will do.
    for (int k = 0; k < KINDS; ++k)
      arrived[k] = receive(k == 1 ? ANY_SOURCE : peer_, m.in[k], SIZES[k], EXPECTED + unsigned(k));
    say();
    for (int k = 0; k < KINDS; ++k) send(SIZES[k], EXPECTED + unsigned(k));
    for (int k = 0; k < KINDS; ++k) {
      wait(arrived[k]);
      check(m.in[k], SIZES[k], peer_, EXPECTED + unsigned(k));
    }
    // The messages are.
    comp_t sent[KINDS];
    fill(EARLY);
    for (int k = 0; k < KINDS; ++k) {
      sent[k] = sync();
      posted([&] {
        return post_send_x(peer_, m.out, SIZES[k], EARLY + unsigned(k), sent[k])
            .allow_done(false)();
      });
    }
    say();
    for (int k = 0; k < KINDS; ++k)
      arrived[k] = receive(peer_, m.in[k], SIZES[k], EARLY + unsigned(k));
    for (int k = 0; k < KINDS; ++k) {
      wait(arrived[k]);
      check(m.in[k], SIZES[k], peer_, EARLY);
      wait(sent[k]);
    }
  }

  void am(std::size_t size, rcomp_t to, tag_t tag) {
    fill(tag);
    comp_t sent = sync();
    posted([&] { return post_am_x(peer_, m.out, size, sent, to).tag(tag).allow_done(false)(); });
    wait(sent);
  }
  void active_messages() {
    for (const std::size_t size : SIZES) {
      am(size, to_handler_, 7);
      am(size, to_packets_, 8);
      am(size, to_queue_, WIDE);
    }
    // One that is not to be refused.
    fill(9);
    posted([&] {
      return post_am_x(peer_, m.out, SIZES[1], counter_, to_handler_).tag(9).allow_retry(false)();
    });
    until([&] { return handled == 2 * KINDS + 1; });
    if (wrong != 0) throw wrong_bytes();
    for (int popped = 0; popped < KINDS;) {
      round();
      const status_t got = cq_pop(queue_);
      if (!got.is_done()) continue;
      ++popped;
      const bool is_right = are_bytes_of(got.buffer, got.size, peer_, WIDE);
      std::free(got.buffer);
      if (!is_right) throw wrong_bytes();
    }
  }

  void put_and_get() {
    const rmr_t there = m.names[1];
    comp_t got = sync();
    posted([&] { return post_get_x(peer_, m.gotten, LARGEST, got, 0, there).allow_done(false)(); });
    wait(got);
    check(m.gotten, LARGEST, peer_, 0);
    fill(ENDS);
    for (const std::size_t size : SIZES) {
      comp_t put = sync();
      posted([&] { return post_put_x(peer_, m.out, size, put, 0, there).allow_done(false)(); });
      wait(put);
    }
    said_ += KINDS;
    for (const std::size_t size : SIZES) {
      comp_t put = sync();
      posted([&] {
        return post_put_x(peer_, m.out, size, put, LARGEST, there)
            .remote_comp(to_handler_)
            .tag(3)
            .allow_done(false)();
      });
      wait(put);
    }
    until([&] { return signals >= said_; });
    check(m.window, LARGEST, peer_, ENDS);
    check(m.window + LARGEST, LARGEST, peer_, ENDS);
  }

  // They may end with std::bad_alloc although what they waited for has happened.
  void waiting_calls() {
    comp_t arrived = receive(peer_, m.in[0], SIZES[0], WAITS);
    fill(WAITS);
    post_send(peer_, m.out, SIZES[0], WAITS, COMP_NULL);
    wait(arrived);
    check(m.in[0], SIZES[0], peer_, WAITS);
    arrived = receive(peer_, m.in[2], SIZES[2], WAITS + 1);
    fill(WAITS + 1);
    post_send(peer_, m.out, SIZES[2], WAITS + 1, COMP_NULL);
    wait(arrived);
    check(m.in[2], SIZES[2], peer_, WAITS + 1);
  }

  void finish() {
    say();  // nobody needs our window any more
    end_registrations();
    for (const rcomp_t one : {to_handler_, to_packets_, to_queue_})
      again([&] { deregister_rcomp(one); });
    posted([&] { return post_send(peer_, m.out, 1, LAST, COMP_NULL_RETRY); });
    wait(last_);
    wait_drained();
  }

  static constexpr int MOST_COMPS = 100;
  const int me_, peer_;
  comp_t all_[MOST_COMPS];
  int comps_ = 0, said_ = 0;
  comp_t handler_, in_packets_, queue_, counter_, last_;
  rcomp_t to_handler_ = 0, to_packets_ = 0, to_queue_ = 0;
  mr_t mr_;
};

// What was lent comes back in the peer's own time.
std::uint64_t packets_out() {
  const runtime_impl_t* const runtime = get_g_runtime().p_impl;
  if (runtime == nullptr || runtime->default_packet_pool.is_empty()) return 0;
  const mem::packet_pool& pool = runtime->default_packet_pool.p_impl->packets;
  return pool.outstanding() - pool.lent();
}

}  // namespace

job_end run_job(int rank, const std::string& folder, std::uint64_t fail_at, job_report& report) {
  meet_in(folder, rank, 2, 10);
  setenv("LCI_LOG_OUTFILE", (folder + ".log" + std::to_string(rank)).c_str(), 1);
  static job one(rank);
  base::log::warn("no_memory", "rank %d begins", rank);  // the log is there from now on
  leak_guard leaks;
  job_end end = job_end::well;
  const long before = live_news();
  {
    fail_nth_new failing(fail_at);
    end = end_of(rank, "at work", [] { one.run(); });
    if (spoils("abort") && rank == 0) std::abort();
    while (spoils("hang") && rank == 0) {
    }
    if (end == job_end::well) report.packets = packets_out();
    if (end != job_end::well && !get_g_runtime().is_empty())
      end_of(rank, "after an error", [] { one.end_registrations(); });
    if (!get_g_runtime().is_empty()) {
      const job_end last = end_of(rank, "at the end", [] { g_runtime_fina(); });
      if (end == job_end::well) end = last;
    }
    one.free_all();
    report.allocations = failing.count();
    report.has_fired = failing.fired();
  }
  report.live = live_news() - before;
  if (spoils("leak")) new char[100];
  return with_leftovers(rank, end, leaks);
}

}  // namespace lci::test
