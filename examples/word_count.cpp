// Counts the words of real files with several processes: lcrun -n 4 word_count [file...]
//
// Each process reads its share of the text and sends every word to the process that owns the word's
// hash. Words travel many at a time, as active messages that are built in place in packets and read
// in place. At the end process 0 gathers the totals, counts the same text alone, and compares.
#include <chrono>
#include <cstdio>

#include "lci.hpp"
#include "words.hpp"

namespace {

words::counts_t counted;  // the words that this process owns; at the end, on process 0, all words
uint64_t messages = 0;    // how many messages brought them
int reports = 0;          // on process 0: how many processes have sent their totals

// Handlers run inside progress(), here in the only thread, so nothing needs a lock.
void on_words(lci::status_t message) {
  words::for_each_word({static_cast<char*>(message.get_buffer()), message.get_size()},
                       [](std::string_view word) { words::add(counted, word); });
  ++messages;
  lci::put_upacket(message.get_buffer());  // zero_copy_am: the message is still in its packet
}

void on_totals(lci::status_t message) {
  words::add_text(counted, {static_cast<char*>(message.get_buffer()), message.get_size()});
  messages += message.get_tag();
  ++reports;
  std::free(message.get_buffer());  // the receiver owns the memory of any other active message
}

// The packet being filled for one process.
class outbox_t {
 public:
  outbox_t(int rank, lci::rcomp_t remote) : rank_(rank), remote_(remote) {}

  void add(std::string_view word) {
    if (used_ + word.size() + 1 > lci::get_max_bcopy_size()) flush();
    while (packet_ == nullptr) {
      packet_ = static_cast<char*>(lci::get_upacket());
      // None is left: packets return when messages have been sent, which needs progress.
      if (packet_ == nullptr) lci::progress();
    }
    word.copy(packet_ + used_, word.size());
    packet_[used_ + word.size()] = ' ';
    used_ += word.size() + 1;
  }

  void flush() {
    if (packet_ == nullptr) return;
    // "Retry" means that nothing happened. After any other result the library owns the packet.
    while (lci::post_am(rank_, packet_, used_, lci::COMP_NULL_RETRY, remote_).is_retry()) {
      lci::progress();
    }
    packet_ = nullptr, used_ = 0, ++sent;
  }

  uint64_t sent = 0;  // messages

 private:
  int rank_;
  lci::rcomp_t remote_;
  char* packet_ = nullptr;
  size_t used_ = 0;
};

// Prints the final result of process 0; returns the exit status.
int report(std::string_view text, double seconds) {
  words::counts_t alone;
  double total = 0;
  words::for_each_word(text, [&](std::string_view word) { words::add(alone, word), ++total; });
  const std::string verdict = words::compare(counted, alone);
  std::printf("%swords %.0f, messages %.0f, words a second %.0f, messages a second %.0f\n%s\n",
              words::ranking(counted, 10).c_str(), total, double(messages), total / seconds,
              double(messages) / seconds, verdict.c_str());
  return verdict == "identical" ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  std::string text;
  try {
    text = words::read_text({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\nusage: word_count [file...], or all of %s\n", error.what(),
                 words::USUAL_TEXTS);
    return 2;
  }
  lci::g_runtime_init();
  const int me = lci::get_rank_me(), n = lci::get_rank_n();
  lci::comp_t words_handler = lci::alloc_handler_x(on_words).zero_copy_am(true)();
  lci::comp_t totals_handler = lci::alloc_handler(on_totals);
  // Numbers are assigned in the order of the calls, so they are the same on every process.
  const lci::rcomp_t for_words = lci::register_rcomp(words_handler);
  const lci::rcomp_t for_totals = lci::register_rcomp(totals_handler);
  std::vector<outbox_t> outboxes;
  for (int rank = 0; rank < n; ++rank) outboxes.emplace_back(rank, for_words);
  lci::barrier();  // all have registered

  const auto start = std::chrono::steady_clock::now();
  words::for_each_word(words::share_of(text, me, n), [&](std::string_view word) {
    outboxes[std::hash<std::string_view>()(word) % outboxes.size()].add(word);
  });
  // The end: all processes learn how many messages to expect, and wait for exactly that many.
  std::vector<uint64_t> sent, coming(outboxes.size());
  for (outbox_t& outbox : outboxes) outbox.flush(), sent.push_back(outbox.sent);
  lci::alltoall(sent.data(), coming.data(), sizeof(uint64_t));
  uint64_t expected = 0;
  for (const uint64_t from_one : coming) expected += from_one;
  while (messages < expected) lci::progress();
  lci::barrier();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;

  std::string mine = words::to_text(counted);
  lci::post_am_x totals(0, mine.data(), mine.size(), lci::COMP_NULL, for_totals);
  if (me != 0) totals.tag(messages)();
  while (me == 0 && reports < n - 1) lci::progress();
  const int status = me == 0 ? report(text, seconds.count()) : 0;
  lci::barrier();
  for (lci::comp_t* handler : {&words_handler, &totals_handler}) lci::free_comp(handler);
  lci::g_runtime_fina();
  return status;
}
