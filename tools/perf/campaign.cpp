#include "tools/perf/campaign.hpp"

#include <algorithm>
#include <exception>

#include "tools/perf/calibration.hpp"
#include "tools/perf/handover.hpp"
#include "tools/perf/rivals.hpp"

namespace lci_perf {

namespace {

constexpr std::uint64_t TELL_TERMINAL_NS = 200'000'000, TELL_FILE_NS = 5'000'000'000;
constexpr std::uint64_t MOST_MESSAGES = 1'000'000;
// Before anything counts, each library moves so many messages, or bytes if those are fewer: lci
// finds out by its first messages of a size how to copy it, and others make their connections.
constexpr std::uint64_t WARM_UP_MESSAGES = 32, WARM_UP_BYTES = std::uint64_t{2} << 30;

}  // namespace

void progress_line::set(std::string text, double share) {
  text_ = std::move(text);
  share_ = share;
  tick();
}

void progress_line::tick() {
  const std::uint64_t now = now_ns();
  if (text_.empty() || now - told_ns_ < (is_terminal_ ? TELL_TERMINAL_NS : TELL_FILE_NS)) return;
  // A short run says nothing where nobody watches.
  if (!is_terminal_ && now - begin_ns_ < TELL_FILE_NS) return;
  told_ns_ = now;
  const double seconds = static_cast<double>(now - begin_ns_) / 1e9;
  std::fprintf(to_, is_terminal_ ? "\r\033[K%3.0f %%  %.0f s  %.100s" : "%3.0f %%  %.0f s  %s\n",
               100 * share_, seconds, text_.c_str());
  std::fflush(to_);
  is_shown_ = is_terminal_;
}

void progress_line::clear() {
  if (is_shown_) std::fputs("\r\033[K", to_);
  is_shown_ = false;
}

campaign::team campaign::start(stage& one, std::vector<std::string>& why_not) {
  team all;
  for (contender who : who_) {
    all.emplace_back();
    why_not.emplace_back();
    if (who.name == "lci") {
      const std::vector<std::string> more = variables_for(one.transport);
      who.variables.insert(who.variables.end(), more.begin(), more.end());
    }
    const std::vector<std::string> words = launcher_words_for(who.name, one.processes.cpus);
    who.launcher.insert(who.launcher.end(), words.begin(), words.end());
    try {
      all.back() = std::make_unique<contestant>(who, one.processes, [this] { line_.tick(); });
      versions_[who.name] = all.back()->version();
    } catch (const std::exception& problem) {
      why_not.back() = problem.what();
    }
  }
  return all;
}

void campaign::run(stage& one, double begin, double end) {
  const std::vector<int>& cpus = one.processes.cpus;
  const bool has_r = cpus.size() >= 2 && cpus[0] != cpus[1];
  line_.set("starting, " + one.place, begin);
  if (has_r) one.r_before_ns = handover_ns(cpus[0], cpus[1]);
  std::vector<std::string> why_not;
  team all = start(one, why_not);
  for (std::size_t at = 0; at < one.rows.size(); ++at) {
    row& what = one.rows[at];
    const double share = static_cast<double>(at) / static_cast<double>(one.rows.size());
    line_.set(std::string(name_of(what.what)) + " " + name_of(what.op) + " " +
                  size_text(what.size) + ", " + one.place,
              begin + share * (end - begin));
    measure_row(one, what, all, why_not);
  }
  all.clear();
  if (has_r) one.r_after_ns = handover_ns(cpus[0], cpus[1]);
}

void campaign::measure_row(stage& one, row& what, team& all,
                           const std::vector<std::string>& why_not) {
  std::vector<std::uint64_t> counts(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    what.entries.push_back({who_[i].name, {}, 0, 0, why_not[i]});
    entry& of = what.entries.back();
    if (all[i] == nullptr) {
      if (of.why_not.empty()) of.why_not = "it ended in an earlier row";
    } else if (!all[i]->has(what.op)) {
      of.why_not = std::string("lci_perf does not measure its ") + name_of(what.op);
    } else {
      try {
        warm_up(what, *all[i]);
        counts[i] = calibrate(what, *all[i]);
      } catch (const std::exception& problem) {
        drop(all[i], of, problem.what());
      }
    }
  }
  for (int round = 0; round < asked_.rounds; ++round) {
    for (std::size_t turn = 0; turn < all.size(); ++turn) {
      // Another one is first in each round: what the round before left behind is not for one alone.
      const std::size_t i = (turn + static_cast<std::size_t>(round)) % all.size();
      entry& of = what.entries[i];
      if (!of.why_not.empty()) continue;
      try {
        const order given = make_order(what, counts[i]);
        const std::vector<result> results = all[i]->give(given);
        of.values.push_back(value_of(what, given, results));
        of.messages += messages_of(results);
        of.expected += expected_of(what, given, one.processes.pairs);
      } catch (const std::exception& problem) {
        drop(all[i], of, problem.what());
      }
      line_.tick();
    }
  }
}

void campaign::warm_up(const row& what, contestant& who) {
  const std::uint64_t fits = WARM_UP_BYTES / what.size;
  who.give(make_order(what, std::clamp<std::uint64_t>(fits, 1, WARM_UP_MESSAGES)));
}

// How many messages take about as long as was asked for.
std::uint64_t campaign::calibrate(const row& what, contestant& who) {
  if (asked_.messages > 0) return asked_.messages;
  calibration counts(what.size >= (1u << 20) ? 1 : 64, asked_.block_ms * 1e6, MOST_MESSAGES);
  while (!counts.is_done()) {
    const order given = make_order(what, counts.count());
    const std::vector<result> results = who.give(given);
    counts.took(given.count, static_cast<double>(results[0].end_ns - results[0].begin_ns));
  }
  return counts.count();
}

void campaign::drop(std::unique_ptr<contestant>& who, entry& of, const char* problem) {
  of.why_not = problem;
  of.values.clear();  // no half of a comparison
  who.reset();
}

}  // namespace lci_perf
