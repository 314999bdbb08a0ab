#include "tools/perf/lci_worker.hpp"

#include <memory>
#include <optional>
#include <thread>

#include "lci.hpp"
#include "tools/perf/gpu_buffer.hpp"
#include "tools/perf/worker.hpp"

namespace lci_perf {

namespace {

// What has arrived for each pair: handlers run in whichever thread makes progress on the device.
line am_arrived[MOST_SEATS / 2];
bool handlers_share = false;   // several threads may handle messages of one pair
std::size_t packet_limit = 0;  // bytes; a larger message is in memory of the runtime's allocator

void on_message(lci::status_t message) {
  if (message.get_size() <= packet_limit)
    lci::put_upacket(message.get_buffer());
  else
    std::free(message.get_buffer());
  std::atomic<std::uint64_t>& count = am_arrived[message.tag].value;
  // A number alone: nothing else is read because of it.
  if (handlers_share)
    count.fetch_add(1, std::memory_order_relaxed);
  else
    count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

// What all seats of a process share: the runtime and the handler of active messages.
class world {
 public:
  explicit world(board& b) : board_(b) {
    lci::g_runtime_init();
    rank_ = lci::get_rank_me();
    const int expected = b.is_threads != 0 ? 2 : static_cast<int>(b.seats);
    if (lci::get_rank_n() != expected) throw std::runtime_error("the job has another size");
    handlers_share = b.is_shared != 0;
    packet_limit = lci::get_max_bcopy_size();
    handler_ = lci::alloc_handler_x(on_message).zero_copy_am(true)();
    am_ = lci::register_rcomp(handler_);
    if (rank_ == 0) {
      std::snprintf(b.version, sizeof b.version, "lci %s", lci::describe_machine().version.c_str());
      // Known to the program once this seat reports that it is ready.
      b.operations.store(
          bit(operation::am) | bit(operation::sendrecv) | bit(operation::put) | bit(operation::get),
          std::memory_order_relaxed);
    }
  }
  ~world() {
    lci::barrier();
    lci::deregister_rcomp(am_);
    lci::free_comp(&handler_);
    lci::g_runtime_fina();
  }
  world(const world&) = delete;
  world& operator=(const world&) = delete;

  board& page() const { return board_; }
  int rank() const { return rank_; }
  lci::rcomp_t am() const { return am_; }

 private:
  board& board_;
  int rank_ = 0;
  lci::comp_t handler_;
  lci::rcomp_t am_ = 0;
};

// The buffers, the device and the counters of one seat. Made and freed in the main thread, in the
// same order in all processes: that gives devices their numbers.
class end {
 public:
  end(world& w, seat s, int peer)
      : seat_(s),
        peer_(peer),
        owns_device_(w.page().is_threads != 0 && w.page().is_shared == 0 && s.pair() > 0),
        device_(owns_device_ ? lci::alloc_device() : lci::get_default_device()),
        out_(w.page().is_gpu != 0, w.page().largest, gpu_of_seat(w)),
        in_(w.page().is_gpu != 0, w.page().largest, gpu_of_seat(w)),
        am_(w.am()),
        region_(lci::register_memory_x(in_.data(), in_.size()).device(device_)()),
        sent_(lci::alloc_counter()),
        arrived_(lci::alloc_counter()),
        signal_(lci::register_rcomp(arrived_)) {
    if (w.page().is_gpu != 0) kind_ = lci::MR_DEVICE;
    struct names {
      lci::rmr_t region;
      lci::rcomp_t signal;
    };
    const names mine{lci::get_rmr(region_), signal_};
    std::vector<names> all(static_cast<std::size_t>(lci::get_rank_n()));
    lci::allgather(&mine, all.data(), sizeof mine);
    const names& other = all[static_cast<std::size_t>(peer)];
    there_ = other.region;
    their_signal_ = other.signal;
  }
  ~end() {
    lci::deregister_rcomp(signal_);
    lci::deregister_memory(&region_);
    for (lci::comp_t* comp : {&sent_, &arrived_}) lci::free_comp(comp);
    if (owns_device_) lci::free_device(&device_);
  }
  end(const end&) = delete;
  end& operator=(const end&) = delete;

  // The threads of a process share one, as they share its context.
  int gpu_of_seat(const world& w) const {
    return w.page().is_threads != 0 ? w.rank() : gpu_of(seat_.pair(), seat_.is_first() ? 0 : 1);
  }
  // Pins this thread and executes orders.
  void serve();

  void progress() const { lci::progress_x().device(device_)(); }
  // Posts until accepted; counts what will be signalled.
  template <class Op>
  void post(Op&& op, std::int64_t& pending) const {
    op.device(device_);
    for (;;) {
      const lci::status_t status = op();
      if (!status.is_retry()) {
        pending += status.is_posted() ? 1 : 0;
        return;
      }
      progress();
    }
  }
  void finish() const {
    while (lci::counter_get(sent_) < sends_) progress();
  }

  seat seat_;
  int peer_;
  bool owns_device_;
  lci::device_t device_;
  buffer out_, in_;
  lci::rcomp_t am_;
  lci::mr_t kind_;  // where the buffers are
  lci::mr_t region_;
  lci::rmr_t there_;
  lci::comp_t sent_, arrived_;
  lci::rcomp_t signal_, their_signal_ = 0;
  std::int64_t sends_ = 0, arrivals_ = 0;
  std::uint64_t am_expected_ = 0;
};

// What the four ports share.
struct port {
  explicit port(end& e) : e_(e) {}
  void finish() { e_.finish(); }
  void progress() { e_.progress(); }

 protected:
  lci::tag_t tag() const { return static_cast<lci::tag_t>(e_.seat_.pair()); }
  void wait_counted() {
    while (lci::counter_get(e_.arrived_) < e_.arrivals_) progress();
  }
  end& e_;
};

struct am_port : port {
  using port::port;
  void start(char* data, std::size_t size) {
    lci::post_am_x op(e_.peer_, data, size, e_.sent_, e_.am_);
    op.tag(tag()).mr(e_.kind_);
    e_.post(op, e_.sends_);
  }
  void expect(char*, std::size_t) { ++e_.am_expected_; }
  void wait() {
    const std::atomic<std::uint64_t>& count = am_arrived[e_.seat_.pair()].value;
    while (count.load(std::memory_order_relaxed) < e_.am_expected_) progress();
  }
  void send(char* data, std::size_t size) { start(data, size), finish(); }
  void recv(char* data, std::size_t size) { expect(data, size), wait(); }
};

struct sendrecv_port : port {
  using port::port;
  void start(char* data, std::size_t size) {
    lci::post_send_x op(e_.peer_, data, size, tag(), e_.sent_);
    op.mr(e_.kind_);
    e_.post(op, e_.sends_);
  }
  void expect(char* data, std::size_t size) {
    lci::post_recv_x op(e_.peer_, data, size, tag(), e_.arrived_);
    op.mr(e_.kind_);
    e_.post(op, e_.arrivals_);
  }
  void wait() { wait_counted(); }
  void send(char* data, std::size_t size) { start(data, size), finish(); }
  void recv(char* data, std::size_t size) { expect(data, size), wait(); }
};

// The last put before an answer signals the target. It is ordered behind those that have ended.
struct put_port : port {
  using port::port;
  void start(char* data, std::size_t size, bool is_last) {
    lci::post_put_x op(e_.peer_, data, size, e_.sent_, 0, e_.there_);
    op.mr(e_.kind_);
    if (is_last) {
      finish();
      op.remote_comp(e_.their_signal_);
    }
    e_.post(op, e_.sends_);
  }
  void expect(char*, std::size_t) {}
  void wait() {
    ++e_.arrivals_;
    wait_counted();
  }
  void send(char* data, std::size_t size) { start(data, size, true), finish(); }
  void recv(char* data, std::size_t size) { expect(data, size), wait(); }
};

struct get_port : port {
  using port::port;
  void start(char* data, std::size_t size) {
    lci::post_get_x op(e_.peer_, data, size, e_.sent_, 0, e_.there_);
    op.mr(e_.kind_);
    e_.post(op, e_.sends_);
  }
  void expect(char*, std::size_t) {}
  void wait() {}
  void send(char*, std::size_t) {}
  void recv(char*, std::size_t) {}
};

template <class Port>
void run(end& e, const order& o) {
  Port with(e);
  execute(e.seat_, with, e.out_.data(), e.in_.data(), o);
}

void end::serve() {
  seat_.pin();
  seat_.serve([this](const order& o) {
    switch (o.op) {
      case operation::am:
        return run<am_port>(*this, o);
      case operation::sendrecv:
        return run<sendrecv_port>(*this, o);
      case operation::put:
        return run<put_port>(*this, o);
      case operation::get:
        return run<get_port>(*this, o);
    }
  });
}

void serve_all(board& page) {
  // Seats are pinned later: a runtime that starts on one processor takes that for all there is.
  world all(page);
  std::vector<std::unique_ptr<end>> ends;
  const int pairs = static_cast<int>(page.pairs), me = all.rank();
  const auto add = [&](const seat& mine, int peer) {
    // Memory belongs to the NUMA node of the processor that writes it first.
    const pinned there(mine.cpu());
    ends.push_back(std::make_unique<end>(all, mine, peer));
  };
  run_part(page, [&] {
    if (page.is_threads == 0) {
      add(seat(page, me % pairs, me < pairs), (me + pairs) % (2 * pairs));
    } else {
      for (int pair = 0; pair < pairs; ++pair) add(seat(page, pair, me == 0), 1 - me);
    }
  });
  run_seats(page, me, [&](int pair, bool) {
    ends[page.is_threads != 0 ? static_cast<std::size_t>(pair) : 0]->serve();
  });
  lci::barrier();
  while (!ends.empty()) ends.pop_back();
}

}  // namespace

int run_lci_worker() { return run_worker("lci_perf", serve_all); }

}  // namespace lci_perf
