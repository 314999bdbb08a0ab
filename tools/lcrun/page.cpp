#include "tools/lcrun/page.hpp"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <set>

#include "lci/types.hpp"

namespace lcrun {

namespace {

using lci::base::report::kind;
using lci::base::report::record;

constexpr std::size_t MOST_ALIKE = 5;    // lines of one kind for one rank
constexpr std::size_t MOST_LINES = 100;  // lines of the page

std::string from_rank(std::int32_t rank) {
  return rank == lci::ANY_SOURCE ? "any rank" : "rank " + std::to_string(rank);
}

std::string tag_text(std::uint64_t tag) {
  return tag == lci::ANY_TAG ? "any tag" : "tag " + std::to_string(tag);
}

std::string bytes_text(std::uint64_t size) {
  return std::to_string(size) + (size == 1 ? " byte" : " bytes");
}

std::string seconds(std::int64_t ms) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", static_cast<double>(ms) / 1000);
  return text;
}

// `rest` where the rank is not connected yet with the peer that the record names.
std::string if_connecting(const record& r, const char* rest) {
  return (r.flags & lci::base::report::CONNECTING) != 0 ? rest : "";
}

const char* refusal_name(int code) {
  switch (static_cast<lci::errorcode_t>(code)) {
    case lci::errorcode_t::retry_lock:
      return "retry_lock";
    case lci::errorcode_t::retry_nopacket:
      return "retry_nopacket";
    case lci::errorcode_t::retry_nomem:
      return "retry_nomem";
    case lci::errorcode_t::retry_backlog:
      return "retry_backlog";
    default:
      return "retry";
  }
}

struct line {
  std::string text;
  std::int64_t age_ms;
};

// What one rank does, without its number.
class rank_text {
 public:
  explicit rank_text(const rank_view& view) : view_(view) {
    for (const record& r : view.records) {
      if (r.what == kind::call) threads_.insert(r.thread);
      if (r.what == kind::engine) collective_engine_ = r.engine;
    }
    add_calls();
    add_loose();
    add_state();
  }
  std::vector<line> take() { return std::move(lines_); }

 private:
  void add_calls() {
    for (const record& call : view_.records) {
      if (call.what != kind::call) continue;
      const std::string who =
          threads_.size() > 1 ? "thread " + std::to_string(call.thread) + " " : "";
      const std::size_t before = lines_.size();
      if (call.object != 0) {
        for (const record& r : view_.records) {
          if (r.what == kind::call || r.object != call.object) continue;
          if (r.what == kind::collective) own_.insert(r.other);
          const std::string what = awaited(r, call.name);
          if (!what.empty()) lines_.push_back({who + "waiting in " + what, call.age_ms});
        }
        own_.insert(call.object);
      }
      if (lines_.size() == before) lines_.push_back({who + other_call(call), call.age_ms});
    }
    for (const record& r : view_.records) {
      if (r.what != kind::collective || own_.count(r.other) != 0) continue;
      own_.insert(r.other);
      lines_.push_back({collective(r) + " under way, and no call waits for it", -1});
    }
  }

  static std::string collective(const record& r) {
    return std::string(r.name) + " no. " + std::to_string(r.number + 1);
  }

  static bool is_without_receive(const record& send) {
    return (send.flags & lci::base::report::NO_RECEIVE) != 0;
  }

  static std::string awaited(const record& r, const std::string& call) {
    const std::string tag = ", " + tag_text(r.tag);
    switch (r.what) {
      case kind::collective:
        return collective(r);
      case kind::receive:
        return (call == "a blocking post" ? "a blocking receive" : call) + " for a message from " +
               from_rank(r.rank) + tag + ", up to " + bytes_text(r.size);
      case kind::send:
        return call + " for " + from_rank(r.rank) +
               (r.how != 0              ? " to receive all of "
                : is_without_receive(r) ? " to grant "
                                        : " to post a receive for ") +
               bytes_text(r.size) + tag;
      case kind::incoming:
        return call + " for the data of " + bytes_text(r.size) + tag + ", from " +
               from_rank(r.rank);
      default:
        return {};
    }
  }

  static std::string other_call(const record& call) {
    std::string out = "waiting in " + std::string(call.name);
    if (call.rank >= 0) out += " with rank " + std::to_string(call.rank);
    if (call.how != 0)
      out += ", " + tag_text(call.tag) + ", " + bytes_text(call.size) +
             ", which is refused again and again: " + refusal_name(call.how);
    out += if_connecting(call, "; it is still connecting with that rank");
    return out;
  }

  // Lines of one kind, few enough to be read; equal ones are counted.
  void add_alike(kind what, const char* rest,
                 const std::function<std::string(const record&)>& text) {
    std::map<std::string, std::pair<std::size_t, std::int64_t>> found;
    for (const record& r : view_.records) {
      if (r.what != what || own_.count(r.object) != 0) continue;
      const std::string one = text(r);
      if (one.empty()) continue;
      auto& [times, age] = found[one];
      ++times;
      age = std::max(age, r.age_ms);
    }
    std::size_t shown = 0, more = 0;
    for (const auto& [one, how] : found) {
      if (shown == MOST_ALIKE) {
        more += how.first;
        continue;
      }
      ++shown;
      const std::string times =
          how.first > 1 ? " (" + std::to_string(how.first) + " of these)" : "";
      lines_.push_back({one + times, how.second > 0 ? how.second : -1});
    }
    if (more != 0) lines_.push_back({"and " + std::to_string(more) + " more " + rest, -1});
  }

  void add_loose() {
    own_.erase(0);  // messages have no object
    add_alike(kind::receive, "receives", [](const record& r) {
      return "a receive from " + from_rank(r.rank) + ", " + tag_text(r.tag) + ", up to " +
             bytes_text(r.size) + ", not matched by any message";
    });
    add_alike(kind::message, "messages", [this](const record& r) {
      if (r.engine == collective_engine_)
        return "a message from " + from_rank(r.rank) + " for a collective not called on this rank";
      return "a message from " + from_rank(r.rank) + ", " + tag_text(r.tag) + ", " +
             bytes_text(r.size) + ", not matched by any receive" +
             ((r.flags & lci::base::report::RENDEZVOUS) != 0 ? "; its sender waits for that" : "");
    });
    add_alike(kind::send, "sends", [](const record& r) {
      return "sending " + bytes_text(r.size) + ", " + tag_text(r.tag) + ", to " +
             from_rank(r.rank) +
             ((r.flags & lci::base::report::CONNECTING) != 0 ? ", with which it is still connecting"
              : r.how != 0                                   ? ""
              : is_without_receive(r)                        ? ", which has not granted it yet"
                                      : ", which has posted no receive for it");
    });
    add_alike(kind::incoming, "messages that are coming in", [](const record& r) {
      return "receiving " + bytes_text(r.size) + ", " + tag_text(r.tag) + ", from " +
             from_rank(r.rank);
    });
    add_alike(kind::turn, "ranks whose large active messages wait", [](const record& r) {
      return std::to_string(r.number) +
             (r.number == 1 ? " large active message from " : " large active messages from ") +
             from_rank(r.rank) +
             (r.number == 1 ? " waits for its turn, " : " wait for their turn, ") +
             bytes_text(r.size);
    });
    add_alike(kind::atomic, "atomic operations", [](const record& r) {
      return "an atomic operation of a kernel on " + bytes_text(r.size) + " of " +
             from_rank(r.rank) + ", not answered yet" +
             if_connecting(r, ", with which it is still connecting");
    });
    add_alike(kind::backlog, "backlogs", [](const record& r) {
      return std::to_string(r.number) + " operations with " + from_rank(r.rank) +
             " not yet accepted by the network" +
             if_connecting(r, ", which is still connecting with that rank");
    });
  }

  void add_state() {
    bool needs_packets = false;
    for (const record& r : view_.records) {
      if (r.what != kind::refusals) continue;
      const auto code = static_cast<lci::errorcode_t>(r.how);
      needs_packets |= code == lci::errorcode_t::retry_nopacket;
      lines_.push_back({"posts were refused with " + std::string(refusal_name(r.how)) + " " +
                            std::to_string(r.number) + " times, the last for " + from_rank(r.rank) +
                            if_connecting(r, ", with which it is still connecting"),
                        -1});
    }
    std::int64_t last = -1;
    std::uint64_t open = 0;
    for (const record& r : view_.records) {
      if (r.what == kind::packets && r.number >= r.size && (needs_packets || r.size != 0))
        lines_.push_back({"all " + std::to_string(r.size) + " packets are in use", -1});
      if (r.what == kind::busy)
        lines_.push_back({std::string(r.name) + " could not be inspected: it was in use", -1});
      if (r.what == kind::progress) last = std::max(last, r.age_ms);
      if (r.what == kind::device) open += r.number;
    }
    const bool is_quiet = lines_.empty();
    if (open != 0) lines_.push_back({"operations under way in total: " + std::to_string(open), -1});
    if (view_.left_out != 0)
      lines_.push_back({"and " + std::to_string(view_.left_out) + " more entries", -1});
    if (view_.rounds == view_.rounds_before) {
      lines_.push_back({"made no call of progress during the inspection" +
                            std::string(last > 0 ? ", nor for some time before" : ""),
                        last > 0 ? last : -1});
    } else if (is_quiet) {
      lines_.push_back({"not in a blocking call, and making progress", -1});
    }
  }

  const rank_view& view_;
  std::set<std::int32_t> threads_;
  std::set<std::uint64_t> own_;  // objects whose operations are already on a line
  std::uint32_t collective_engine_ = 0;
  std::vector<line> lines_;
};

struct shared_line {
  std::string text;
  std::vector<int> ranks;
  std::int64_t least_ms, most_ms;
};

std::string ranks_text(const std::vector<int>& ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + list_ranks(ranks);
}

std::string time_text(const shared_line& l) {
  if (l.most_ms < 0) return {};
  const std::string least = seconds(l.least_ms), most = seconds(l.most_ms);
  return ", for " + (least == most ? most : least + " to " + most) + " s";
}

}  // namespace

std::string list_ranks(std::vector<int> ranks) {
  std::sort(ranks.begin(), ranks.end());
  std::string out;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    if (!out.empty()) out += ',';
    out += std::to_string(ranks[i]);
    if (end - i > 1) out += '-' + std::to_string(ranks[end - 1]);
    i = end;
  }
  return out;
}

std::string write_page(const std::vector<rank_view>& ranks, int size, const std::string& why) {
  std::vector<shared_line> all;
  const auto add = [&](int rank, const line& one) {
    const auto at = std::find_if(all.begin(), all.end(),
                                 [&](const shared_line& l) { return l.text == one.text; });
    if (at == all.end()) {
      all.push_back({one.text, {rank}, one.age_ms, one.age_ms});
      return;
    }
    if (at->ranks.back() != rank) at->ranks.push_back(rank);
    at->least_ms = std::min(at->least_ms, one.age_ms);
    at->most_ms = std::max(at->most_ms, one.age_ms);
  };
  for (const rank_view& view : ranks) {
    if (!view.has_answered)
      add(view.rank, {view.why_not, -1});
    else
      for (const line& one : rank_text(view).take()) add(view.rank, one);
  }
  std::string out = "who waits for what (" + why + ")";
  if (static_cast<int>(ranks.size()) < size)
    out += ", of " + std::to_string(ranks.size()) + " ranks of " + std::to_string(size);
  out += '\n';
  std::size_t lines = 0;
  const auto put = [&](const std::string& text) {
    if (lines++ < MOST_LINES) out += "  " + text + '\n';
  };
  for (const std::string& sentence : find_mismatches(ranks)) put(sentence);
  for (const shared_line& l : all) put(ranks_text(l.ranks) + ": " + l.text + time_text(l));
  if (lines > MOST_LINES) out += "  and " + std::to_string(lines - MOST_LINES) + " more lines\n";
  out += "end of who waits for what\n";
  return out;
}

}  // namespace lcrun
