// Bandwidth by size for active messages, send/receive, put and get, with both ways of copying large
// messages, or with one of them disabled. Messages are sent in windows; the clock stops when the
// target has seen the last one. BENCH_SIZES=N,N,.. and BENCH_KIND=sendrecv make it short. Threads:
// one per process.
#include <malloc.h>

#include <cstdlib>
#include <limits>

#include "bench/micro/programs.hpp"
#include "bench/micro/session.hpp"

namespace bench {

namespace {

constexpr std::size_t LARGEST = std::size_t{64} << 20;
constexpr std::size_t WINDOW_BYTES = std::size_t{8} << 20;  // in flight, for sizes that allow it
constexpr std::size_t MOST_IN_WINDOW = 64;
constexpr int BLOCKS = 5;

std::uint64_t am_arrived = 0;
std::size_t packet_limit = 0;

void on_message(lci::status_t message) {
  // Up to this size it is still in its packet; beyond, in memory of the runtime's allocator.
  if (message.get_size() <= packet_limit)
    lci::put_upacket(message.get_buffer());
  else
    std::free(message.get_buffer());
  ++am_arrived;
}

// Buffers, the peer's region and the counters of one process.
class traffic {
 public:
  explicit traffic(session& s)
      : s_(s),
        out_(LARGEST, 'o'),
        in_(LARGEST, 'i'),
        local_(lci::alloc_counter()),
        arrived_(lci::alloc_counter()),
        handler_(lci::alloc_handler_x(on_message).zero_copy_am(true)()),
        region_(lci::register_memory(in_.data(), in_.size())) {
    for_am_ = lci::register_rcomp(handler_);
    for_put_ = lci::register_rcomp(arrived_);
    packet_limit = lci::get_max_bcopy_size();
    lci::rmr_t keys[2] = {};
    keys[s.both().rank()] = lci::get_rmr(region_);
    lci::allgather(&keys[s.both().rank()], keys, sizeof keys[0]);
    remote_ = keys[s.peer()];
  }
  ~traffic() {
    lci::barrier();
    lci::deregister_memory(&region_);
    for (lci::comp_t* comp : {&handler_, &arrived_, &local_}) lci::free_comp(comp);
  }
  traffic(const traffic&) = delete;
  traffic& operator=(const traffic&) = delete;

  // One window of `count` messages; both sides return when the target has all of them.
  void am(std::size_t size, int count) {
    const std::uint64_t expected = am_expected_ += static_cast<std::uint64_t>(count);
    window(
        count, [&] { return post(lci::post_am_x(s_.peer(), out(), size, local_, for_am_)); },
        [&] { return am_arrived >= expected; });
  }
  void sendrecv(std::size_t size, int count) {
    if (!s_.both().is_first()) {
      for (int i = 0; i < count; ++i) {
        arrivals_ += post(lci::post_recv_x(s_.peer(), in_.data(), size, 0, arrived_));
      }
    }
    window(
        count, [&] { return post(lci::post_send_x(s_.peer(), out(), size, 0, local_)); },
        [&] { return lci::counter_get(arrived_) >= arrivals_; });
  }
  void put(std::size_t size, int count) {
    if (!s_.both().is_first()) arrivals_ += count;
    window(
        count,
        [&] {
          lci::post_put_x op(s_.peer(), out(), size, local_, 0, remote_);
          op.remote_comp(for_put_);
          return post(op);
        },
        [&] { return lci::counter_get(arrived_) >= arrivals_; });
  }
  void get(std::size_t size, int count) {
    window(
        count, [&] { return post(lci::post_get_x(s_.peer(), out(), size, local_, 0, remote_)); },
        [] { return true; });
  }

 private:
  void* out() { return out_.data(); }

  template <class Post, class Arrived>
  void window(int count, Post post_one, Arrived all_arrived) {
    const std::uint64_t round = ++rounds_;
    if (s_.both().is_first()) {
      for (int i = 0; i < count; ++i) pending_ += post_one();
      while (lci::counter_get(local_) < pending_) lci::progress();
      s_.both().signal(round);
      while (!s_.both().signalled(round)) lci::progress();
    } else {
      // Make progress until the sender needs none any more: a get, or a large message, may depend
      // on it.
      while (!all_arrived() || !s_.both().signalled(round)) lci::progress();
      s_.both().signal(round);
    }
  }

  session& s_;
  std::vector<char> out_, in_;
  lci::comp_t local_, arrived_, handler_;
  lci::rcomp_t for_am_ = 0, for_put_ = 0;
  lci::mr_t region_;
  lci::rmr_t remote_;
  std::uint64_t rounds_ = 0, am_expected_ = 0;
  std::int64_t pending_ = 0, arrivals_ = 0;
};

using pattern = void (traffic::*)(std::size_t, int);
struct kind {
  const char* name;
  pattern run;
};
constexpr kind KINDS[] = {{"am", &traffic::am},
                          {"sendrecv", &traffic::sendrecv},
                          {"put", &traffic::put},
                          {"get", &traffic::get}};

double gigabytes_per_second(session& s, traffic& t, pattern run, std::size_t size) {
  const auto count =
      static_cast<int>(std::clamp<std::size_t>(WINDOW_BYTES / size, 1, MOST_IN_WINDOW));
  // Enough windows for a few milliseconds at 10 GB/s or 10 million messages a second.
  const std::size_t bytes = size * static_cast<std::size_t>(count);
  const auto windows = static_cast<int>(std::clamp<std::size_t>(WINDOW_BYTES * 4 / bytes, 2, 200));
  std::vector<double> speeds;
  (t.*run)(size, count);
  for (int block = 0; block < BLOCKS; ++block) {
    s.both().meet();
    const std::uint64_t start = now_ns();
    for (int w = 0; w < windows; ++w) (t.*run)(size, count);
    const auto ns = static_cast<double>(now_ns() - start);
    speeds.push_back(static_cast<double>(bytes) * windows / ns);
  }
  return median(speeds);
}

}  // namespace

int bandwidth(const arguments& given) {
  const std::string mode = given.empty() ? "default" : given[0];
  if (mode == "single") setenv("LCI_ATTR_SHM_PIPELINED_COPY", "0", 1);
  if (mode == "pipelined") setenv("LCI_ATTR_SHM_SINGLE_COPY", "0", 1);
  // Large active messages arrive in memory from malloc(): keep that memory, or the measurement
  // would be of the kernel zeroing fresh pages. M_MMAP_THRESHOLD has a limit in older versions of
  // glibc.
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  const std::vector<std::size_t> sizes = bandwidth_sizes(LARGEST);
  session s;
  traffic t(s);
  const char* const only = std::getenv("BENCH_KIND");
  for (const kind& k : KINDS) {
    if (only != nullptr && std::string(only) != k.name) continue;
    for (const std::size_t size : sizes) {
      const double speed = gigabytes_per_second(s, t, k.run, size);
      const std::string what = std::string(k.name) + " " + mode + " " + std::to_string(size);
      const double r = s.both().handover_ns();
      if (s.both().is_first()) report({"bandwidth", "lci", what, speed, "GB/s", r});
    }
  }
  return 0;
}

}  // namespace bench
