// What does not fit together on the page of what the ranks wait for, in words.
#include <algorithm>
#include <map>
#include <set>

#include "lci/types.hpp"
#include "tools/lcrun/page.hpp"

namespace lcrun {

namespace {

using lci::base::report::kind;
using lci::base::report::record;

constexpr std::size_t MOST_SENTENCES = 20;

class finder {
 public:
  explicit finder(const std::vector<rank_view>& ranks) : ranks_(ranks) {
    for (const rank_view& view : ranks) {
      for (const record& r : view.records) {
        if (r.what == kind::engine) collectives_.insert(r.engine);
      }
    }
  }

  std::vector<std::string> find() {
    look_at_collectives();
    for (const rank_view& view : ranks_) {
      for (const record& r : view.records) {
        if (r.what == kind::receive && collectives_.count(r.engine) == 0) look_at(view, r);
      }
    }
    for (const rank_view& view : ranks_) {
      for (const record& r : view.records) {
        if (r.what == kind::send && r.how == 0) look_at_send(view, r);
      }
    }
    if (out_.size() > MOST_SENTENCES) {
      const std::size_t more = out_.size() - MOST_SENTENCES;
      out_.resize(MOST_SENTENCES);
      out_.push_back("and " + std::to_string(more) + " more mismatches");
    }
    return std::move(out_);
  }

 private:
  static std::string text(int number) { return std::to_string(number); }
  static std::string tag_text(std::uint64_t tag) {
    return tag == lci::ANY_TAG ? "any tag" : "tag " + std::to_string(tag);
  }
  static std::string named(const std::vector<int>& ranks, const char* one, const char* many) {
    return (ranks.size() == 1 ? "rank " : "ranks ") + list_ranks(ranks) + ' ' +
           (ranks.size() == 1 ? one : many);
  }

  const rank_view* view_of(int rank) const {
    const auto at = std::find_if(ranks_.begin(), ranks_.end(),
                                 [&](const rank_view& v) { return v.rank == rank; });
    return at != ranks_.end() ? &*at : nullptr;
  }

  void say(const std::string& sentence) {
    if (said_.insert(sentence).second) out_.push_back(sentence);
  }

  template <class Test>
  static const record* find_record(const rank_view& view, kind what, Test&& test) {
    const auto at = std::find_if(view.records.begin(), view.records.end(),
                                 [&](const record& r) { return r.what == what && test(r); });
    return at != view.records.end() ? &*at : nullptr;
  }

  static bool is_waited_for(const rank_view& view, const record& what) {
    return what.object != 0 && find_record(view, kind::call, [&](const record& call) {
                                 return call.object == what.object;
                               }) != nullptr;
  }

  static bool has(const record& r, std::uint16_t flag) { return (r.flags & flag) != 0; }

  static bool same_tag(const record& receive, const record& message) {
    return receive.tag == lci::ANY_TAG || receive.tag == message.tag;
  }

  void look_at(const rank_view& view, const record& receive) {
    const bool is_any = receive.rank == lci::ANY_SOURCE;
    const std::string source = text(receive.rank);
    const std::string who = "rank " + text(view.rank) + " waits for " + tag_text(receive.tag) +
                            " from " + (is_any ? "any rank" : source);
    const auto is_here = [&](const record& m) { return m.engine == receive.engine; };
    const auto is_from = [&](const record& m) { return is_any || m.rank == receive.rank; };
    if (const record* m = find_record(view, kind::message, [&](const record& r) {
          return is_here(r) && is_from(r) && same_tag(receive, r);
        })) {
      return say(who + "; rank " + text(m->rank) + " has sent it with another matching policy");
    }
    if (const record* m = find_record(view, kind::message,
                                      [&](const record& r) { return is_here(r) && is_from(r); })) {
      return say(who + "; rank " + text(m->rank) + " has sent " + tag_text(m->tag));
    }
    if (const record* m = find_record(view, kind::message, [&](const record& r) {
          return is_from(r) && same_tag(receive, r) && collectives_.count(r.engine) == 0;
        })) {
      return say(who + "; rank " + text(m->rank) + " has sent it to another matching engine");
    }
    if (const record* m = find_record(view, kind::message, [&](const record& r) {
          return is_here(r) && same_tag(receive, r);
        })) {
      return say(who + "; rank " + text(m->rank) + " has sent " + tag_text(m->tag));
    }
    if (!is_any && is_elsewhere(view, receive, who)) return;
    if (is_waited_for(view, receive) && !is_any) look_at_source(view, receive, who);
  }

  bool is_elsewhere(const rank_view& view, const record& receive, const std::string& who) {
    for (const rank_view& other : ranks_) {
      if (&other == &view) continue;
      const record* const m = find_record(other, kind::message, [&](const record& r) {
        return r.rank == receive.rank && same_tag(receive, r) && r.engine == receive.engine;
      });
      if (m == nullptr) continue;
      say(who + "; rank " + text(receive.rank) + " has sent " + tag_text(m->tag) + " to " +
          text(other.rank));
      return true;
    }
    return false;
  }

  void look_at_source(const rank_view& view, const record& receive, const std::string& who) {
    const rank_view* const source = view_of(receive.rank);
    if (source == nullptr) return;
    if (!source->has_answered) return say(who + ", which " + source->why_not);
    const record* const back = find_record(*source, kind::receive, [&](const record& r) {
      return r.rank == view.rank && is_waited_for(*source, r);
    });
    if (back != nullptr && source != &view) {
      const int low = std::min(view.rank, source->rank), high = std::max(view.rank, source->rank);
      return say("ranks " + text(low) + " and " + text(high) +
                 " wait for a message from each other");
    }
    const std::string peer = "rank " + text(receive.rank);
    if (has(receive, lci::base::report::CONNECTING))
      return say(who + ", with which it is still connecting");
    say(who + "; no message from " + peer + " has arrived" +
        (has(receive, lci::base::report::CONNECTED)       ? ", though they are connected"
         : has(receive, lci::base::report::NOT_CONNECTED) ? ", nor have they been connected"
                                                          : ""));
  }

  void look_at_send(const rank_view& view, const record& send) {
    const rank_view* const target = view_of(send.rank);
    const std::string who = "rank " + text(view.rank) + " waits for rank " + text(send.rank) +
                            " to receive " + tag_text(send.tag) + " (" + std::to_string(send.size) +
                            " bytes)";
    if (target == nullptr) return;
    if (!target->has_answered) return say(who + ", which " + target->why_not);
    if (has(send, lci::base::report::CONNECTING))
      return say(who + ", with which it is still connecting");
    if (has(send, lci::base::report::NO_RECEIVE)) return;
    const auto is_it = [&](const record& m) {
      return m.rank == view.rank && m.tag == send.tag && collectives_.count(m.engine) == 0;
    };
    if (find_record(*target, kind::message, is_it) == nullptr) return;
    // What it does receive was reported above.
    const record* const other = find_record(*target, kind::receive, [&](const record& r) {
      return collectives_.count(r.engine) == 0 &&
             (r.rank == view.rank || r.rank == lci::ANY_SOURCE);
    });
    if (other == nullptr) say(who + "; rank " + text(send.rank) + " has posted no such receive");
  }

  // Ranks call the collectives of one engine in the same order.
  void look_at_collectives() {
    using place = std::pair<std::uint32_t, std::uint64_t>;  // engine, number
    std::map<place, std::map<std::string, std::vector<int>>> called;
    for (const rank_view& view : ranks_) {
      for (const record& r : view.records) {
        if (r.what == kind::collective && r.engine != 0)
          called[{r.engine, r.number}][r.name].push_back(view.rank);
      }
    }
    for (const auto& [where, by_name] : called) {
      const place at = where;  // clang 14 hands no binding to a lambda
      const std::string number = text(static_cast<int>(at.second + 1));
      if (by_name.size() > 1) {
        std::string sentence = "collective no. " + number + " differs between ranks:";
        const char* between = " ";
        for (const auto& [name, ranks] : by_name) {
          sentence += between + named(ranks, "calls ", "call ") + name;
          between = ", ";
        }
        say(sentence);
      }
      std::vector<int> inside, missing, silent;
      for (const auto& [name, ranks] : by_name)
        inside.insert(inside.end(), ranks.begin(), ranks.end());
      for (const rank_view& view : ranks_) {
        const record* const e =
            find_record(view, kind::engine, [&](const record& r) { return r.engine == at.first; });
        if (e == nullptr ? std::find(inside.begin(), inside.end(), view.rank) == inside.end()
                         : e->number <= at.second)
          (view.has_answered ? missing : silent).push_back(view.rank);
      }
      const std::string what = by_name.begin()->first + " no. " + number + ", in which " +
                               named(inside, "waits", "wait");
      if (!missing.empty()) say(named(missing, "has", "have") + " not called " + what);
      // It may be inside the call without being able to report it.
      if (!silent.empty()) say(named(silent, "reports", "report") + " nothing about " + what);
    }
  }

  const std::vector<rank_view>& ranks_;
  std::set<std::uint32_t> collectives_;  // engines
  std::set<std::string> said_;
  std::vector<std::string> out_;
};

}  // namespace

std::vector<std::string> find_mismatches(const std::vector<rank_view>& ranks) {
  return finder(ranks).find();
}

}  // namespace lcrun
