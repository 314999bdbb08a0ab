#include "tests/failure/kills/job.hpp"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "lci.hpp"

namespace lci::test {
namespace {

constexpr int ROUNDS = 30;
constexpr tag_t ANY_TAG_BASE = 1000;   // of what is received from anybody, by round
constexpr std::size_t PUT = SIZES[1];  // of each of the two puts to a peer in a round

bool spoils(std::string_view what) { return is_set_to("LCI_KILLS_SPOIL", what); }

// Leads to nothing any more, also not by a register.
void forget(std::unique_ptr<std::vector<char>> memory) {
  if (memory.release() == nullptr) std::abort();
}

// Buffers live as long as the process: of what was under way with a rank that is lost they are in
// use until the runtime ends.
class job {
 public:
  job(int rank, int ranks)
      : me_(rank),
        n_(ranks),
        window_(SIZES[2] + static_cast<std::size_t>(ranks) * 2 * PUT),
        out_(KINDS),
        in_(static_cast<std::size_t>(ranks)),
        any_(static_cast<std::size_t>(ranks)) {
    current_ = this;
    for (std::size_t k = 0; k < KINDS; ++k) out_[k].resize(SIZES[k]);
    for (auto& one : any_) one.resize(SIZES[2]);
    for (auto& from : in_) {
      from.resize(KINDS + 1);
      for (std::size_t k = 0; k < KINDS; ++k) from[k].resize(SIZES[k]);
      from[KINDS].resize(SIZES[2]);
    }
  }

  void begin() {
    fill(window_.data(), window_.size(), me_, 0);
    heard_ = alloc_handler([](status_t message) { check_message(message); });
    number_ = register_rcomp(heard_);
    noticed_ = alloc_handler([](status_t put) { current_->check_puts(put); });
    notice_ = register_rcomp(noticed_);
    mr_ = register_memory(window_.data(), window_.size());
    keys_.resize(static_cast<std::size_t>(n_));
    const rmr_t mine = get_rmr(mr_);
    allgather(&mine, keys_.data(), sizeof(rmr_t));
  }

  void round(int number) {
    for (std::size_t k = 0; k < KINDS; ++k)
      fill(out_[k].data(), SIZES[k], me_, static_cast<std::uint64_t>(number));
    const std::vector<comp_t> from_anybody = expect_from_anybody(number);
    for (int peer = 0; peer < n_; ++peer)
      if (peer != me_) exchange(peer, number);
    take_from_anybody(from_anybody, number);
    // Each peer has sent all of its kinds, and a notification.
    const int peers = n_ - 1;
    await(messages, (number + 1) * peers * KINDS);
    await(notices, (number + 1) * peers);
    barrier();
    // Nobody changes what others have not sent.
    wait_drained();
    if (wrong != 0) throw wrong_bytes();
  }

  void end() {
    if (messages != ROUNDS * (n_ - 1) * KINDS || notices != ROUNDS * (n_ - 1))
      throw wrong_count{messages, notices};
    deregister_memory(&mr_);
    deregister_rcomp(number_);
    deregister_rcomp(notice_);
    free_comp(&heard_);
    free_comp(&noticed_);
  }

  static int messages, notices, wrong;

 private:
  // What is lost is waited for in vain: whoever has started us notices.
  static void await(const int& count, int expected) {
    while (count < expected) {
      progress();
      if (!get_failed_ranks().empty()) barrier();  // which says so
    }
    if (count > expected) throw wrong_count{messages, notices};
  }
  static void check_message(status_t message) {
    ++messages;
    wrong += !are_bytes_of(message.buffer, message.size, message.rank, message.tag);
    std::free(message.buffer);
  }

  // A peer's two puts of a round: the later one's notification finds both.
  void check_puts(const status_t& put) {
    ++notices;
    const char* const at = window_.data() + place_of_puts(put.rank);
    wrong += !are_bytes_of(at, PUT, put.rank, put.tag) ||
             !are_bytes_of(at + PUT, PUT, put.rank, put.tag);
  }
  static std::size_t place_of_puts(int from) {
    return SIZES[2] + static_cast<std::size_t>(from) * 2 * PUT;
  }

  void put_both(int peer, int number) {
    const rmr_t& there = keys_[static_cast<std::size_t>(peer)];
    const std::size_t at = place_of_puts(me_);
    const comp_t written = alloc_sync();
    until_accepted([&] {
      return post_put_x(peer, out_[1].data(), PUT, written, at, there).allow_done(false)();
    });
    sync_wait(written, nullptr);
    free_comp_of(written);
    const comp_t signalled = alloc_sync();
    until_accepted([&] {
      return post_put_x(peer, out_[1].data(), PUT, signalled, at + PUT, there)
          .remote_comp(notice_)
          .tag(static_cast<tag_t>(number))
          .allow_done(false)();
    });
    sync_wait(signalled, nullptr);
    free_comp_of(signalled);
  }
  static void free_comp_of(comp_t one) { free_comp(&one); }

  // A message of every peer, which each of them sends without a completion object: the post itself
  // waits.
  std::vector<comp_t> expect_from_anybody(int number) {
    std::vector<comp_t> all;
    for (int i = 0; i < n_ - 1; ++i) {
      auto& into = any_[static_cast<std::size_t>(i)];
      all.push_back(alloc_sync());
      post_recv_x(ANY_SOURCE, into.data(), into.size(), tag_from_anybody(number), all.back())
          .allow_done(false)();
    }
    return all;
  }
  static void take_from_anybody(const std::vector<comp_t>& all, int number) {
    for (const comp_t& one : all) {
      status_t message;
      sync_wait(one, &message);
      if (message.size != SIZES[number % KINDS]) throw wrong_bytes();
      check(message.buffer, message.size, message.rank, static_cast<std::uint64_t>(number));
      free_comp_of(one);
    }
  }
  static tag_t tag_from_anybody(int number) { return ANY_TAG_BASE + static_cast<tag_t>(number); }

  // Answers of all kinds; a wait ends when a rank is lost.
  void exchange(int peer, int number) {
    auto& in = in_[static_cast<std::size_t>(peer)];
    std::vector<comp_t> arrived;
    for (std::size_t k = 0; k < KINDS; ++k) {
      arrived.push_back(alloc_sync());
      post_recv_x(peer, in[k].data(), in[k].size(), static_cast<tag_t>(k), arrived.back())
          .allow_done(false)();
    }
    const auto& for_anybody = out_[static_cast<std::size_t>(number % KINDS)];
    post_send_x(peer, const_cast<char*>(for_anybody.data()), for_anybody.size(),
                tag_from_anybody(number), COMP_NULL)();
    put_both(peer, number);
    for (std::size_t k = 0; k < KINDS; ++k) {
      const comp_t sent = alloc_sync();
      until_accepted([&] {
        return post_send_x(peer, out_[k].data(), out_[k].size(), static_cast<tag_t>(k), sent)
            .allow_done(false)();
      });
      arrived.push_back(sent);
      if (spoils("lost") && me_ == 0 && number == 1 && k == 0) continue;
      const comp_t told = alloc_sync();
      until_accepted([&] {
        return post_am_x(peer, out_[k].data(), out_[k].size(), told, number_)
            .tag(static_cast<tag_t>(number))
            .allow_done(false)();
      });
      arrived.push_back(told);
    }
    const comp_t got = alloc_sync();
    until_accepted([&] {
      return post_get_x(peer, in[KINDS].data(), in[KINDS].size(), got, 0,
                        keys_[static_cast<std::size_t>(peer)])
          .allow_done(false)();
    });
    arrived.push_back(got);
    for (const comp_t& one : arrived) {
      sync_wait(one, nullptr);
      free_comp_of(one);
    }
    for (std::size_t k = 0; k < KINDS; ++k)
      check(in[k].data(), in[k].size(), peer, static_cast<std::uint64_t>(number));
    check(in[KINDS].data(), in[KINDS].size(), peer, spoils("bytes") ? 1u : 0u);
  }

  template <class Post>
  static void until_accepted(Post&& one) {
    while (one().is_retry()) progress();
  }

  void allgather(const void* mine, void* all, std::size_t size) {
    std::vector<char> copies(size * static_cast<std::size_t>(n_));
    for (int i = 0; i < n_; ++i)
      std::memcpy(&copies[size * static_cast<std::size_t>(i)], mine, size);
    alltoall(copies.data(), all, size);
  }

  const int me_, n_;
  std::vector<char> window_;
  std::vector<std::vector<char>> out_;              // by kind
  std::vector<std::vector<std::vector<char>>> in_;  // by peer and kind
  std::vector<rmr_t> keys_;
  std::vector<std::vector<char>> any_;
  comp_t heard_, noticed_;
  rcomp_t number_ = 0, notice_ = 0;
  mr_t mr_;
  static job* current_;
};
int job::messages = 0;
int job::notices = 0;
int job::wrong = 0;
job* job::current_ = nullptr;

void work(job& one, int rank) {
  g_runtime_init();
  one.begin();
  for (int i = 0; i < ROUNDS; ++i) {
    one.round(i);
    if (spoils("abort") && rank == 0) std::abort();
    while (spoils("hang") && rank == 0) pause();
  }
  one.end();
}

}  // namespace

job_end run_job(int rank, int ranks, const std::string& folder, bool is_undisturbed) {
  // One that is killed before it has said a word is waited for as long as that. Where nobody is,
  // nobody is given up, however slow the machine.
  meet_in(folder, rank, ranks, is_undisturbed ? 600 : 10);
  static std::unique_ptr<job> one;  // so that it is no leak: see there
  one = std::make_unique<job>(rank, ranks);
  leak_guard leaks;
  job_end end = end_of(rank, "at work", [&] { work(*one, rank); });
  const auto begin = std::chrono::steady_clock::now();
  if (!get_g_runtime().is_empty()) {
    const job_end last = end_of(rank, "at the end", [] { g_runtime_fina(); });
    if (end == job_end::well) end = last;
  }
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - begin);
  if (ms.count() > 1000)
    std::printf("rank %d: the end took %lld ms\n", rank, static_cast<long long>(ms.count()));
  if (spoils("leak")) forget(std::make_unique<std::vector<char>>(100));
  if (spoils("descriptor") && dup(STDERR_FILENO) < 0) end = job_end::untyped;
  return with_leftovers(rank, end, leaks);
}

}  // namespace lci::test
