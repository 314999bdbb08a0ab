// How soon a kernel ends when something ends under it, and whether kernel and host hear why.
// Threads: single. Always true: each round has an endpoint of its own, since its end is what is
// measured.
#pragma once

#include <map>
#include <string>

#include "bench/gpu/initiated/product/job.hpp"
#include "bench/gpu/initiated/product/rows.hpp"
#include "bench/gpu/initiated/product/turns.hpp"

namespace bench {

enum class ending {
  abort,    // of a wait, by the host
  bad_key,  // a put to memory whose key has ended
  full,     // a queue that nobody serves, beyond the endpoint's limit
};

// Waits for what never comes, or posts what nobody does.
struct doomed {
  lci::gpu::endpoint_t endpoint;
  ending how = ending::abort;
  lci::gpu::place_t to;
  const std::uint64_t* never = nullptr;  // in memory of the GPU
  int rank = 0;
  std::uint64_t* begun = nullptr;
  const std::uint64_t* go = nullptr;
  std::uint64_t* said = nullptr;

  BENCH_ANYWHERE lci::gpu::status play() const {
    using namespace lci::gpu;
    if (how == ending::abort) return wait_until(endpoint, never, comparison::equal, 1, rank);
    if (!await(go, 1)) return status::nothing;
    status s = status::ok;
    const int puts = how == ending::bad_key ? 1 : 1 << 16;
    for (int i = 0; i < puts && s == status::ok; ++i)
      s = put_value(endpoint, rank, to, std::uint64_t{1});
    return s == status::ok ? quiet(endpoint, rank) : s;
  }
  BENCH_ANYWHERE void operator()(caller c) const {
    if (!c.is_first()) return;
    tell(begun, 1);
    tell_status(said, play());
  }
};

// Starts that kernel, with three words to talk by, and returns when it has begun and waits by now.
inline void begin_to_wait(processor& on, doomed d, const pinned_words& told,
                          std::chrono::microseconds settling) {
  for (std::size_t i = 0; i < 3; ++i) tell(told.at(i), 0);
  d.begun = told.at(0);
  d.go = told.at(1);
  d.said = told.at(2);
  on.start(0, 1, 1, d);
  if (!await(told.at(0), 1)) throw std::runtime_error("a kernel does not begin");
  std::this_thread::sleep_for(settling);
}

// How often kernels and the host heard what.
class heard {
 public:
  void kernel(lci::gpu::status s) { ++kernels_[lci::gpu::text_of(s)]; }
  void host(const std::string& what) { ++hosts_[what]; }
  std::string text() const {
    return "\"kernels\": " + text(kernels_) + ", \"host\": " + text(hosts_);
  }

 private:
  static std::string text(const std::map<std::string, int>& of) {
    std::string all;
    for (const auto& [what, count] : of)
      all += (all.empty() ? "\"" : ", \"") + what + "\": " + std::to_string(count);
    return "{" + all + "}";
  }
  std::map<std::string, int> kernels_, hosts_;
};

// What progress throws, by its type; empty: nothing for that long.
inline std::string thrown_within(job& of, std::uint64_t ns) {
  const std::uint64_t begin = host_ns();
  for (bool is_first = true; is_first || host_ns() - begin < ns; is_first = false) {
    try {
      of.progress();
    } catch (const lci::gpu_request_error& e) {
      char text[64];
      std::snprintf(text, sizeof(text), "gpu_request_error 0x%02x", e.syndrome() & 0xff);
      return text;
    } catch (const lci::peer_failure_error&) {
      return "peer_failure_error";
    } catch (const std::exception& e) {
      return e.what();
    }
  }
  return {};
}

struct ends_wanted {
  ending how = ending::abort;
  int resident = 0;
  int rounds = 1000;
};
constexpr std::uint64_t FULL_LIMIT_MS = 5;

// Microseconds from the call to the end of the stream; of a full queue, beyond its limit.
inline found time_ends(processor& on, const ends_wanted& w) {
  job of(on, w.resident, 1);
  memory words(on, of, 4096, kind::of_gpu);
  lci::gpu::key_t ended;
  {
    memory other(on, of, 4096, kind::of_gpu);
    ended = other.there();
  }
  pinned_words told(on, 3);
  heard all;
  found out;
  for (int round = 0; round < w.rounds; ++round) {
    endpoint_wanted e;
    e.depth = 16;
    if (w.how == ending::full) {
      e.proxy = lci::attr_gpu_proxy_t::progress;
      e.wait_limit_ms = FULL_LIMIT_MS;
    }
    endpoint end(on, of, e);
    doomed d;
    d.endpoint = end.handle();
    d.how = w.how;
    d.to = {w.how == ending::bad_key ? ended : words.there(), 64};
    d.never = words.word(0);
    begin_to_wait(on, d, told, std::chrono::microseconds(100));
    const std::uint64_t begin = host_ns();
    w.how == ending::abort ? end.abort() : tell(told.at(1), 1);
    while (!on.is_over(0)) {
    }
    double ns = static_cast<double>(host_ns() - begin);
    if (w.how == ending::full) ns -= FULL_LIMIT_MS * 1e6;
    out.values.push_back(ns / 1e3);
    all.kernel(status_in(told.at(2)));
    // Of an abort and of a limit the program knows by itself: only the kernel has a status.
    const std::string what = thrown_within(of, w.how == ending::bad_key ? 500'000'000 : 0);
    if (!what.empty()) all.host(what);
  }
  out.more =
      all.text() + ", \"gpu_resident\": " + std::to_string(of.runtime().get_attr_gpu_resident());
  return out;
}

}  // namespace bench
