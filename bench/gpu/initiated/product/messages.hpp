// Kernel to a handler of the host, and back: active messages, and sends that a posted receive
// meets. Threads: single; the handler runs in the thread that serves the endpoint.
#pragma once

#include <string>

#include "bench/gpu/initiated/product/job.hpp"
#include "bench/gpu/initiated/product/rows.hpp"
#include "bench/gpu/initiated/product/turns.hpp"

namespace bench {

enum class call { am, send };
enum class answer { flag, queue };  // a word in pinned memory, or a message for the kernel's queue

// Calls the host `rounds` times, each when the answer to the last one is there.
struct callers {
  lci::gpu::endpoint_t endpoint;
  call what = call::am;
  answer back = answer::flag;
  lci::rcomp_t rcomp = 0;
  std::uint64_t rounds = 0;
  const std::uint64_t* flag = nullptr;
  lci::gpu::queue_t queue;
  std::uint64_t* called_at = nullptr;  // of each round, in memory of the GPU
  std::uint64_t* ended_at = nullptr;
  std::uint64_t* said = nullptr;

  BENCH_ANYWHERE lci::gpu::status play() const {
    using namespace lci::gpu;
    for (std::uint64_t i = 1; i <= rounds; ++i) {
      called_at[i - 1] = now_ns();
      status s = what == call::am ? am_value(endpoint, 0, i, rcomp) : send_value(endpoint, 0, i, i);
      if (s != status::ok) return s;
      std::uint64_t got = 0;
      s = back == answer::flag ? wait_until(endpoint, flag, comparison::greater_equal, i, 0)
                               : lci::gpu::wait(queue, &got, sizeof(got));
      if (s != status::ok) return s;
      if (back == answer::queue && got != i) return status::nothing;
      ended_at[i - 1] = now_ns();
    }
    return quiet(endpoint, 0);
  }
  BENCH_ANYWHERE void operator()(caller c) const {
    if (!c.is_first()) return;
    tell_status(said, play());
  }
};

// Tells its clock each time it is asked.
struct clock_reader {
  std::uint64_t* asked = nullptr;
  std::uint64_t* clock = nullptr;
  std::uint64_t* answered = nullptr;
  std::uint64_t rounds = 0;

  BENCH_ANYWHERE void operator()(caller) const {
    for (std::uint64_t i = 1; i <= rounds && await(asked, i); ++i) {
      *clock = now_ns();
      tell(answered, i);
    }
  }
};

// What the GPU's clock is ahead of the host's, and by how much that may be wrong. Whole numbers:
// the clocks may be years apart.
struct clock_offset {
  std::int64_t ahead_ns = 0, at_ns = 0;  // at that time of the host's clock
  std::uint64_t wrong_ns = ~std::uint64_t{0};
};
inline clock_offset compare_clocks(processor& on) {
  constexpr std::uint64_t ROUNDS = 200;
  pinned_words words(on, 3);
  clock_reader r{words.at(0), words.at(1), words.at(2), ROUNDS};
  on.start(0, 1, 1, r);
  clock_offset best;
  for (std::uint64_t i = 1; i <= ROUNDS; ++i) {
    const std::uint64_t begin = host_ns();
    tell(words.at(0), i);
    if (!await(words.at(2), i)) throw std::runtime_error("a kernel does not tell its clock");
    const std::uint64_t half = (host_ns() - begin) / 2;
    if (half >= best.wrong_ns) continue;
    best.wrong_ns = half;
    best.at_ns = static_cast<std::int64_t>(begin + half);
    best.ahead_ns = static_cast<std::int64_t>(look(words.at(1))) - best.at_ns;
  }
  while (!on.is_over(0)) std::this_thread::yield();
  return best;
}

struct messages_wanted {
  call what = call::am;
  answer back = answer::flag;
  lci::attr_gpu_proxy_t proxy = lci::attr_gpu_proxy_t::progress;
  std::uint64_t rounds = 2000;
  int runs = 5;
};
// Microseconds, of each run: medians of its rounds.
struct messages_found {
  found half;     // of the round trip
  found to_host;  // from the call to the handler, by two clocks
};

class message_rounds {
 public:
  message_rounds(processor& on, const messages_wanted& w)
      : on_(on),
        w_(w),
        of_(on, 0, 1),
        end_(on, of_, {w.proxy}),
        told_(on, 2),
        stamps_(on, of_, 16 * w.rounds, kind::of_gpu),
        handled_at_(w.rounds),
        bytes_(w.rounds) {
    current_ = this;
    handler_ =
        lci::alloc_handler_x([](lci::status_t s) { current_->handle(s); }).runtime(of_.runtime())();
    rcomp_ = lci::register_rcomp_x(handler_).runtime(of_.runtime())();
    if (w.back != answer::queue) return;
    queue_ = lci::alloc_gpu_queue_x(end_.handle()).capacity(64).message_size(8)();
    queue_rcomp_ = lci::register_rcomp_x(lci::get_gpu_queue_comp(queue_)).runtime(of_.runtime())();
  }
  ~message_rounds() {
    if (queue_rcomp_ != 0) lci::deregister_rcomp_x(queue_rcomp_).runtime(of_.runtime())();
    if (!queue_.is_empty()) lci::free_gpu_queue(&queue_);
    lci::deregister_rcomp_x(rcomp_).runtime(of_.runtime())();
    lci::free_comp(&handler_);
  }
  message_rounds(const message_rounds&) = delete;
  message_rounds& operator=(const message_rounds&) = delete;

  messages_found run() {
    messages_found out;
    std::uint64_t wrong = 0;
    for (int i = 0; i < w_.runs; ++i) {
      const clock_offset before = compare_clocks(on_);
      once();
      const clock_offset after = compare_clocks(on_);
      wrong = std::max({wrong, before.wrong_ns, after.wrong_ns});
      collect(before, after, out);
    }
    char number[32];
    std::snprintf(number, sizeof(number), "%.3g", static_cast<double>(wrong) / 1e3);
    const std::string way = std::string("\"proxy\": \"") + name_of(w_.proxy) + "\"";
    out.half.more = way;
    out.to_host.more = way + ", \"clocks_differ_by_at_most_us\": " + number;
    return out;
  }

 private:
  void handle(const lci::status_t& s) {
    const std::uint64_t now = host_ns();
    std::uint64_t round = 0;
    std::memcpy(&round, s.buffer, sizeof(round));
    if (w_.what == call::am) std::free(s.buffer);
    if (round == 0 || round > w_.rounds) return;
    handled_at_[round - 1] = now;
    if (w_.back == answer::flag) return tell(told_.at(0), round);
    reply_ = round;
    while (lci::post_am_x(0, &reply_, sizeof(reply_), lci::COMP_NULL, queue_rcomp_)
               .device(of_.device())
               .runtime(of_.runtime())()
               .is_retry())
      of_.progress();
  }
  void once() {
    for (std::size_t i = 0; i < 2; ++i) tell(told_.at(i), 0);
    if (w_.what == call::send) {
      for (std::uint64_t i = 0; i < w_.rounds; ++i)
        lci::post_recv_x(0, &bytes_[i], sizeof(bytes_[i]), i + 1, handler_)
            .device(of_.device())
            .runtime(of_.runtime())
            .allow_done(false)();
    }
    callers c;
    c.endpoint = end_.handle();
    c.what = w_.what;
    c.back = w_.back;
    c.rcomp = rcomp_;
    c.rounds = w_.rounds;
    c.flag = told_.at(0);
    c.queue = queue_;
    c.called_at = stamps_.word(0);
    c.ended_at = stamps_.word(8 * w_.rounds);
    c.said = told_.at(1);
    on_.start(0, 1, 1, c);
    drive(on_, of_, 1, w_.proxy);
    must(status_in(told_.at(1)), "messages");
  }
  void collect(const clock_offset& before, const clock_offset& after, messages_found& out) {
    const std::vector<std::uint64_t> at = on_.read<std::uint64_t>(stamps_.at(), 2 * w_.rounds);
    std::vector<double> half, to_host;
    const double drift = static_cast<double>(after.ahead_ns - before.ahead_ns) /
                         static_cast<double>(after.at_ns - before.at_ns);
    for (std::size_t i = w_.rounds / 10; i < w_.rounds; ++i) {
      half.push_back(static_cast<double>(at[w_.rounds + i] - at[i]) / 2e3);
      const auto handled = static_cast<std::int64_t>(handled_at_[i]);
      const auto since = static_cast<double>(handled - before.at_ns);
      const std::int64_t apart = handled + before.ahead_ns - static_cast<std::int64_t>(at[i]);
      to_host.push_back((static_cast<double>(apart) + drift * since) / 1e3);
    }
    out.half.values.push_back(median_of(half));
    out.to_host.values.push_back(median_of(to_host));
  }

  inline static message_rounds* current_ = nullptr;  // a handler is a plain function
  processor& on_;
  const messages_wanted w_;
  job of_;
  endpoint end_;
  pinned_words told_;
  memory stamps_;
  std::vector<std::uint64_t> handled_at_, bytes_;
  std::uint64_t reply_ = 0;
  lci::comp_t handler_;
  lci::rcomp_t rcomp_ = 0, queue_rcomp_ = 0;
  lci::gpu::queue_t queue_;
};

}  // namespace bench
