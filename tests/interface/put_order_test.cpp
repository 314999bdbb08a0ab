// A put that was answered done, or whose object was signalled, comes before everything that is
// posted after that to the same rank through the same device: an active message's handler finds the
// bytes, a get reads them, and a later put wins.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include "world.hpp"

namespace interface_test {
namespace {

constexpr std::size_t PUTS = 200;
constexpr std::size_t PUT_SIZES[] = {1, 8, 64, 100, 1000, 8000, 40000};

struct news_t {
  std::uint64_t offset, size, seed;
};

// Memory of every rank, and a handler that looks into it when a message says that bytes are there.
class watched_window {
 public:
  watched_window() : memory_(PUTS * PUT_SIZES[std::size(PUT_SIZES) - 1]) {
    current_ = this;
    handler_ = lci::alloc_handler(on_news);
    ended_ = lci::alloc_handler([](lci::status_t) { current_->signalled_.fetch_add(1); });
    rcomp_ = lci::register_rcomp(handler_);
    barrier();
  }
  ~watched_window() {
    barrier();
    lci::deregister_rcomp(rcomp_);
    lci::free_comp(&handler_);
    lci::free_comp(&ended_);
    current_ = nullptr;
  }
  watched_window(const watched_window&) = delete;
  watched_window& operator=(const watched_window&) = delete;

  // In order on return. True: it was answered done.
  bool put(std::size_t offset, const std::vector<char>& from, lci::mr_t mr) {
    const int before = signalled_.load();
    auto op = lci::post_put_x(world().next(), const_cast<char*>(from.data()), from.size(), ended_,
                              offset, memory_.rmr(world().next()))
                  .device(world().device);
    if (!mr.is_empty()) op.mr(mr);
    const lci::status_t answer = insist(op);
    if (answer.is_posted()) wait_until([&] { return signalled_.load() != before; });
    return answer.is_done();
  }
  void tell(const news_t& what) {
    lci::post_am_x(world().next(), const_cast<news_t*>(&what), sizeof what, lci::COMP_NULL, rcomp_)
        .device(world().device)();
  }
  window& memory() { return memory_; }
  std::size_t looked() const { return looked_.load(); }
  std::size_t missing() const { return missing_.load(); }

 private:
  static void on_news(lci::status_t status) {
    news_t what;
    std::memcpy(&what, status.buffer, sizeof what);
    std::free(status.buffer);
    const char* const at = current_->memory_.bytes().data() + what.offset;
    if (!difference(at, what.size, what.seed).empty()) current_->missing_.fetch_add(1);
    current_->looked_.fetch_add(1);
  }
  static watched_window* current_;
  window memory_;
  lci::comp_t handler_, ended_;
  lci::rcomp_t rcomp_;
  std::atomic<std::size_t> looked_{0}, missing_{0};
  std::atomic<int> signalled_{0};  // puts that were posted
};
watched_window* watched_window::current_ = nullptr;

struct shape {
  bool has_mr;        // of the source
  bool other_thread;  // tells of it
};

class order_behind_puts : public testing::TestWithParam<shape> {};

TEST_P(order_behind_puts, active_message__its_handler_finds_the_bytes) {
  watched_window there;
  std::vector<char> out(PUT_SIZES[std::size(PUT_SIZES) - 1]);
  lci::mr_t mr = GetParam().has_mr
                     ? lci::register_memory_x(out.data(), out.size()).device(world().device)()
                     : lci::mr_t();
  std::atomic<const news_t*> next{nullptr};
  std::atomic<bool> is_over{false};
  std::thread teller;
  if (GetParam().other_thread)
    teller = std::thread([&] {
      while (!is_over.load()) {
        if (const news_t* const what = next.load(); what != nullptr) {
          there.tell(*what);
          next.store(nullptr);
        } else {
          std::this_thread::yield();
        }
      }
    });
  std::size_t told = 0;
  std::size_t done = 0;
  for (const std::size_t size : PUT_SIZES) {
    for (std::size_t i = 0; i < PUTS; ++i) {
      const news_t what{i * size, size, size + i};
      const std::vector<char> bytes = pattern(size, what.seed);
      std::copy(bytes.begin(), bytes.end(), out.begin());
      out.resize(size);  // the memory stays where it is
      done += there.put(what.offset, out, mr) ? 1 : 0;
      ++told;
      if (GetParam().other_thread) {
        next.store(&what);
        wait_until([&] { return next.load() == nullptr; });
      } else {
        there.tell(what);
      }
      out.resize(PUT_SIZES[std::size(PUT_SIZES) - 1]);
    }
    wait_until([&] { return there.looked() == told; });
    barrier();
  }
  is_over.store(true);
  if (teller.joinable()) teller.join();
  EXPECT_EQ(there.missing(), 0u) << "of " << told << " messages, " << done << " behind puts done";
  barrier();
  if (!mr.is_empty()) lci::deregister_memory(&mr);
}

INSTANTIATE_TEST_SUITE_P(puts, order_behind_puts,
                         testing::Values(shape{false, false}, shape{true, false},
                                         shape{false, true}, shape{true, true}),
                         [](const auto& param) {
                           return std::string(param.param.has_mr ? "registered" : "plain") +
                                  (param.param.other_thread ? "_two_threads" : "_one_thread");
                         });

// The end of many puts to one place is what the last of them wrote, and a get reads it.
TEST(put_order, later_puts_and_gets__each_sees_the_one_before) {
  watched_window there;
  std::size_t stale = 0;
  for (std::size_t i = 0; i < PUTS; ++i) {
    const std::size_t size = PUT_SIZES[i % std::size(PUT_SIZES)];
    const std::size_t next_size = PUT_SIZES[(i / 2) % std::size(PUT_SIZES)];
    there.put(0, pattern(size, i), lci::mr_t());
    const std::vector<char> last = pattern(next_size, i + 1000000);
    there.put(0, last, lci::mr_t());
    std::vector<char> got(next_size);
    lci::post_get_x(world().next(), got.data(), got.size(), lci::COMP_NULL, 0,
                    there.memory().rmr(world().next()))
        .device(world().device)();
    stale += got == last ? 0 : 1;
  }
  EXPECT_EQ(stale, 0u) << "of " << PUTS << " gets";
}

}  // namespace
}  // namespace interface_test
