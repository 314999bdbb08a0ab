// lci's contenders: send to a posted receive, and put with signal.
#include "bench/gpu/contender.hpp"

namespace bench {
namespace {

// What both share: a registered buffer on either side, and counters.
class lci_way : public contender {
 public:
  lci_way(session& run, gpu& here, const limits& most)
      : run_(run),
        gpu_(here),
        out_(here.allocate(most.largest)),
        in_(here.allocate(most.largest)),
        out_region_(lci::register_memory(out_, most.largest)),
        in_region_(lci::register_memory(in_, most.largest)) {
    const lci::rmr_t mine = lci::get_rmr(in_region_);
    lci::rmr_t all[2];
    lci::allgather(&mine, all, sizeof mine);
    there_ = all[run.peer()];
  }
  ~lci_way() override {
    lci::barrier();
    for (lci::mr_t* region : {&out_region_, &in_region_}) lci::deregister_memory(region);
    for (void* memory : {out_, in_}) gpu_.release(memory);
    for (lci::comp_t* comp : {&sent_, &arrived_}) lci::free_comp(comp);
  }
  std::vector<double> one_way_us(std::size_t size, int rounds) override {
    std::vector<double> times;
    // One receive ahead, so that posting it is not part of the time.
    for (int i = 0; i < std::min(rounds, 2); ++i) expect(size);
    run_.both().meet();
    for (int i = 0; i < rounds; ++i) {
      const std::uint64_t start = now_ns();
      if (run_.both().is_first()) send(size);
      wait_for(arrived_, ++arrivals_);
      if (!run_.both().is_first()) send(size);
      times.push_back(static_cast<double>(now_ns() - start) / 2e3);
      wait_for(sent_, sends_);
      if (i + 2 < rounds) expect(size);
    }
    return times;
  }
  double window_us(std::size_t size, int count) override {
    const std::uint64_t signal = next_signal();
    if (!run_.both().is_first()) {
      for (int i = 0; i < count; ++i) expect(size);
    }
    run_.both().meet();
    const std::uint64_t start = now_ns();
    if (run_.both().is_first()) {
      for (int i = 0; i < count; ++i) send(size);
      wait_for(sent_, sends_);
      while (!run_.both().signalled(signal)) lci::progress();
    } else {
      wait_for(arrived_, arrivals_ += count);
      run_.both().signal(signal);
    }
    return static_cast<double>(now_ns() - start) / 1e3;
  }

 protected:
  virtual void send(std::size_t size) = 0;
  // Prepares for one more message, if this contender needs that.
  virtual void expect(std::size_t size) = 0;
  static void wait_for(lci::comp_t counter, std::int64_t value) {
    while (lci::counter_get(counter) < value) lci::progress();
  }

  session& run_;
  gpu& gpu_;
  void* out_;
  void* in_;
  lci::mr_t out_region_, in_region_;
  lci::rmr_t there_;
  lci::comp_t sent_ = lci::alloc_counter(), arrived_ = lci::alloc_counter();
  std::int64_t sends_ = 0, arrivals_ = 0;
};

class lci_send final : public lci_way {
 public:
  using lci_way::lci_way;
  const char* who() const override { return "lci send"; }

 private:
  void send(std::size_t size) override {
    sends_ += post(lci::post_send_x(run_.peer(), out_, size, 0, sent_).mr(out_region_));
  }
  void expect(std::size_t size) override {
    post(lci::post_recv_x(run_.peer(), in_, size, 0, arrived_).mr(in_region_).allow_done(false));
  }
};

class lci_put final : public lci_way {
 public:
  lci_put(session& run, gpu& here, const limits& most)
      : lci_way(run, here, most), signal_(lci::register_rcomp(arrived_)) {
    lci::barrier();
  }
  ~lci_put() override {
    lci::barrier();
    lci::deregister_rcomp(signal_);
  }
  const char* who() const override { return "lci put"; }

 private:
  void send(std::size_t size) override {
    lci::post_put_x put(run_.peer(), out_, size, sent_, 0, there_);
    sends_ += post(put.mr(out_region_).remote_comp(signal_));
  }
  void expect(std::size_t) override {}
  lci::rcomp_t signal_;
};

}  // namespace

std::unique_ptr<contender> make_lci_send(session& run, gpu& here, const limits& most) {
  return std::make_unique<lci_send>(run, here, most);
}
std::unique_ptr<contender> make_lci_put(session& run, gpu& here, const limits& most) {
  return std::make_unique<lci_put>(run, here, most);
}

bool all_agree(session& run, std::string& why) {
  char mine[256] = {}, all[2][256];
  why.copy(mine, sizeof mine - 1);
  lci::allgather(mine, all, sizeof mine);
  why = all[0][0] != 0 ? all[0] : all[1];
  run.both().meet();
  return why.empty();
}

}  // namespace bench
