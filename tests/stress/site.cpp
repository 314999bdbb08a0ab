#include "site.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

#include "tests/interface/world.hpp"

namespace stress {

namespace {

std::vector<lci::rmr_t> all_keys(const lci::mr_t& mine, int ranks) {
  const lci::rmr_t key = lci::get_rmr(mine);
  std::vector<lci::rmr_t> keys(static_cast<std::size_t>(ranks));
  lci::allgather(&key, keys.data(), sizeof key);
  return keys;
}

void print(int rank, const std::vector<std::string>& names) {
  constexpr std::size_t MOST = 10;
  for (std::size_t i = 0; i < std::min(MOST, names.size()); ++i)
    std::fprintf(stderr, "stress: rank %d: %s\n", rank, names[i].c_str());
  if (names.size() > MOST)
    std::fprintf(stderr, "stress: rank %d: and %zu more\n", rank, names.size() - MOST);
}

}  // namespace

site::site(const plan& planned, const settings& chosen, int me)
    : work(planned),
      set(chosen),
      rank(me),
      book(planned, me),
      busy(planned.dimensions().threads),
      // A window may not be empty.
      written_(planned.written(me) + 1, ledger::UNTOUCHED),
      read_(planned.read(me) + 1),
      written_mr_(lci::register_memory(written_.data(), written_.size())),
      read_mr_(lci::register_memory(read_.data(), read_.size())),
      inbox_(lci::alloc_cq_x().zero_copy_am(true)()),
      number_(lci::register_rcomp(inbox_)),
      peers_(new peer_state[static_cast<std::size_t>(planned.dimensions().ranks)]),
      news_ms_(clock_.ms()) {
  const int ranks = work.dimensions().ranks;
  // Who is never heard of is late from the start, not from the beginning of time.
  for (int of = 0; of < ranks; ++of)
    peers_[static_cast<std::size_t>(of)].news_ms.store(clock_.ms(), std::memory_order_relaxed);
  signals_.resize(static_cast<std::size_t>(ranks) * static_cast<std::size_t>(ranks));
  for (const action& a : work.all()) {
    if (a.what == kind::signal) signals_[work.pair_of(a.origin, a.peer)].push_back(&a);
    if (a.what != kind::get || a.peer != rank) continue;
    const std::vector<char> bytes = interface_test::pattern(a.size, a.seed);
    std::copy(bytes.begin(), bytes.end(), read_.begin() + static_cast<std::ptrdiff_t>(a.place));
    if (set.spoils(settings::deed::corrupt, a)) read_[a.place + a.size / 2] ^= 1;
  }
  written_keys_ = all_keys(written_mr_, ranks);
  read_keys_ = all_keys(read_mr_, ranks);
  lci::barrier();
}

site::~site() {
  lci::deregister_memory(&written_mr_);
  lci::deregister_memory(&read_mr_);
  lci::deregister_rcomp(number_);
  lci::free_comp(&inbox_);
}

const action& site::signalled(int origin, std::uint64_t ordinal) const {
  const std::vector<const action*>& all = signals_[work.pair_of(origin, rank)];
  if (ordinal >= all.size())
    throw std::runtime_error("a notification with tag " + std::to_string(ordinal) + " of rank " +
                             std::to_string(origin) + ", which sends less");
  return *all[ordinal];
}

bool site::is_alive(int of) const {
  return !peers_[static_cast<std::size_t>(of)].lost.load(std::memory_order_acquire);
}

void site::lose(int lost, const char* why) {
  if (lost < 0 || lost >= work.dimensions().ranks || !is_to_be_lost(lost)) {
    std::fprintf(stderr, "stress: rank %d: rank %d should not be lost: %s\n", rank, lost, why);
    print(rank, book.missing([this](int of) { return is_alive(of); }));
    std::_Exit(1);
  }
  peer_state& peer = peers_[static_cast<std::size_t>(lost)];
  if (peer.lost.exchange(true, std::memory_order_acq_rel)) return;
  has_loss_.store(true, std::memory_order_relaxed);  // only counts depend on it
  const long after_ms = clock_.ms() - peer.news_ms.load(std::memory_order_relaxed);
  std::printf("stress: rank %d: rank %d is lost, %ld ms after the last sign of it: %s\n", rank,
              lost, after_ms, why);
  std::fflush(stdout);
  if (set.within_ms == 0 || after_ms <= set.within_ms) return;
  std::fprintf(stderr, "stress: rank %d: heard %ld ms too late that rank %d is lost\n", rank,
               after_ms - set.within_ms, lost);
  std::_Exit(1);
}

void site::has_news_of(int of) {
  // relaxed, all of them: times and counts, nothing rides along.
  const long now = clock_.ms();
  peers_[static_cast<std::size_t>(of)].news_ms.store(now, std::memory_order_relaxed);
  news_ms_.store(now, std::memory_order_relaxed);
  if (has_loss_.load(std::memory_order_relaxed))
    after_loss_.fetch_add(1, std::memory_order_relaxed);
}

void site::check_patience() const {
  if (clock_.ms() - news_ms_.load(std::memory_order_relaxed) < set.patience_s * 1000) return;
  std::fprintf(stderr, "stress: rank %d: nothing new for %ld s\n", rank, set.patience_s);
  for (int of = 0; of < work.dimensions().ranks; ++of) {
    if (!hears_of(of))
      std::fprintf(stderr, "stress: rank %d: rank %d %s\n", rank, of,
                   is_to_be_lost(of) ? "is not lost" : "has not ended");
  }
  print(rank, book.missing([this](int of) { return is_alive(of); }));
  std::_Exit(1);
}

void site::has_completed() {
  if (completed_.fetch_add(1, std::memory_order_relaxed) + 1 != set.fault_at ||
      set.fault_rank != rank)
    return;
  std::printf("stress: rank %d: %s\n", rank, set.fault.c_str());
  std::fflush(stdout);
  if (std::system(set.fault.c_str()) != 0) throw std::runtime_error("the fault could not be made");
}

void site::has_farewell_of(int of) {
  // edge site.farewell: partner is hears_of(). What that rank wrote here is in place.
  peers_[static_cast<std::size_t>(of)].has_ended.store(true, std::memory_order_release);
}

// The last word about that rank: its farewell, or that it is gone.
bool site::hears_of(int of) const {
  const peer_state& peer = peers_[static_cast<std::size_t>(of)];
  if (is_to_be_lost(of)) return !is_alive(of);
  return peer.has_ended.load(std::memory_order_acquire) && book.is_complete_with(of);
}

bool site::has_everything() const {
  for (int of = 0; of < work.dimensions().ranks; ++of) {
    if (!hears_of(of)) return false;
  }
  return true;
}

bool site::verify_end() const {
  const auto is_alive_here = [this](int of) { return is_alive(of); };
  std::vector<std::string> wrong = book.missing(is_alive_here);
  for (std::string& name : book.wrong_in(written_, is_alive_here)) wrong.push_back(std::move(name));
  print(rank, wrong);
  if (set.cut != 0) {
    const long count = after_loss_.load(std::memory_order_relaxed);
    std::printf("stress: rank %d: %ld good events after the first loss\n", rank, count);
    if (count == 0) {
      std::fprintf(stderr, "stress: rank %d: nothing went on after the loss\n", rank);
      return false;
    }
  }
  return wrong.empty();
}

}  // namespace stress
