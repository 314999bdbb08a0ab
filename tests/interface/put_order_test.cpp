// A put that was answered done, or whose object was signalled, comes before everything that is
// posted after that to the same rank through the same device: whoever is told of it by an active
// message, a queue entry, a matched receive or another put's notification finds the bytes, a get
// reads them, and a later put wins.
#include <algorithm>
#include <atomic>
#include <functional>
#include <iterator>
#include <optional>
#include <thread>

#include "world.hpp"

namespace interface_test {
namespace {

constexpr std::uint64_t PUTS = 40;  // of each size
constexpr std::size_t PUT_SIZES[] = {1, 8, 64, 100, 1000, 8000, 40000};
constexpr std::size_t LARGEST = PUT_SIZES[std::size(PUT_SIZES) - 1];

// A put has a number, by which all ranks know what it wrote, and where.
struct put_of {
  explicit put_of(std::uint64_t n)
      : number(n), size(PUT_SIZES[n / PUTS]), offset(n % PUTS * size), seed(n) {}
  std::uint64_t number;
  std::size_t size, offset;
  std::uint64_t seed;
};

// What follows a put and tells of it.
enum class news { message, large_message, queue_entry, matched_receive, notification };
constexpr news ALL_NEWS[] = {news::message, news::large_message, news::queue_entry,
                             news::matched_receive, news::notification};
const char* name_of(news what) {
  constexpr const char* NAMES[] = {"message", "large_message", "queue_entry", "matched_receive",
                                   "notification"};
  return NAMES[static_cast<int>(what)];
}

// Shared memory is all that leads from rank to rank, so puts of one thread go by its lane.
bool is_shm_alone() {
  return lci::get_default_net_context().get_attr_backend() == lci::attr_backend_t::shm;
}

// The device of a test, which no thread has posted through: of whatever was done before nothing is
// left that decides which way its puts go. Over shared memory a device takes over what one that was
// freed has left, so these are freed last.
class fresh_device {
 public:
  fresh_device() : before_(world().device) {
    world().device = lci::alloc_device();
    barrier();
  }
  ~fresh_device() {
    barrier();
    if (is_shm_alone())
      kept().push_back(world().device);
    else
      lci::free_device(&world().device);
    world().device = before_;
    barrier();
  }
  fresh_device(const fresh_device&) = delete;
  fresh_device& operator=(const fresh_device&) = delete;

  static std::vector<lci::device_t>& kept() {
    static std::vector<lci::device_t> all;
    return all;
  }

 private:
  const lci::device_t before_;
};

class free_them_last : public testing::Environment {
 public:
  void TearDown() override {
    for (lci::device_t& one : fresh_device::kept()) lci::free_device(&one);
    fresh_device::kept().clear();
  }
};
[[maybe_unused]] const testing::Environment* const frees_devices_last =
    testing::AddGlobalTestEnvironment(new free_them_last);

// Memory of every rank, and completion objects that look into it when they are told that bytes are
// there.
class watched_window {
 public:
  watched_window() : memory_(PUTS * LARGEST + sizeof last_) {
    current_ = this;
    handler_ = lci::alloc_handler([](lci::status_t status) {
      current_->look(status);
      std::free(status.buffer);
    });
    matched_ = lci::alloc_handler([](lci::status_t status) { current_->look(status); });
    ended_ = lci::alloc_handler([](lci::status_t) { current_->signalled_.fetch_add(1); });
    queue_ = lci::alloc_cq();
    to_handler_ = lci::register_rcomp(handler_);
    to_queue_ = lci::register_rcomp(queue_);
    barrier();
  }
  ~watched_window() {
    barrier();
    lci::deregister_rcomp(to_handler_);
    lci::deregister_rcomp(to_queue_);
    for (lci::comp_t* const one : {&handler_, &matched_, &ended_, &queue_}) lci::free_comp(one);
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
  void tell(news how, const put_of& what) {
    const auto tag = static_cast<lci::tag_t>(what.number);
    const auto message = [&](std::vector<char>& bytes, lci::rcomp_t to) {
      lci::post_am_x(world().next(), bytes.data(), bytes.size(), lci::COMP_NULL, to)
          .tag(tag)
          .device(world().device)();
    };
    if (how == news::message) message(few_, to_handler_);
    if (how == news::large_message) message(many_, to_handler_);
    if (how == news::queue_entry) message(few_, to_queue_);
    if (how == news::matched_receive)
      lci::post_send_x(world().next(), few_.data(), few_.size(), tag, lci::COMP_NULL)
          .device(world().device)();
    if (how == news::notification)
      lci::post_put_x(world().next(), last_, sizeof last_, lci::COMP_NULL, PUTS * LARGEST,
                      memory_.rmr(world().next()))
          .remote_comp(to_handler_)
          .tag(tag)
          .device(world().device)();
  }
  // The receive that a send of the rank before will meet, or has met.
  void expect(const put_of& what) {
    const lci::status_t answer = lci::post_recv_x(world().previous(), got_, sizeof got_,
                                                  static_cast<lci::tag_t>(what.number), matched_)
                                     .device(world().device)();
    if (answer.is_done()) look(answer);
  }
  void take_from_queue() {
    for (lci::status_t one = lci::cq_pop(queue_); one.is_done(); one = lci::cq_pop(queue_)) {
      look(one);
      std::free(one.buffer);
    }
  }
  window& memory() { return memory_; }
  std::size_t looked() const { return looked_.load(); }
  std::size_t missing() const { return missing_.load(); }

 private:
  void look(const lci::status_t& status) {
    const put_of what(status.tag);
    const char* const at = memory_.bytes().data() + what.offset;
    if (!difference(at, what.size, what.seed).empty()) missing_.fetch_add(1);
    looked_.fetch_add(1);
  }
  static watched_window* current_;
  fresh_device device_;
  std::vector<char> few_ = std::vector<char>(8), many_ = std::vector<char>(world().bcopy + 1);
  char last_[8] = {}, got_[8] = {};
  window memory_;
  lci::comp_t handler_, matched_, ended_, queue_;
  lci::rcomp_t to_handler_, to_queue_;
  std::atomic<std::size_t> looked_{0}, missing_{0};
  std::atomic<int> signalled_{0};  // puts that were posted
};
watched_window* watched_window::current_ = nullptr;

// Another thread that posts, one thing at a time.
class teller {
 public:
  explicit teller(std::function<void(const put_of&)> tell)
      : thread_([this, tell = std::move(tell)] {
          while (!is_over_.load()) {
            if (const put_of* const what = next_.load(); what != nullptr) {
              tell(*what);
              next_.store(nullptr);
            } else {
              std::this_thread::yield();
            }
          }
        }) {}
  ~teller() {
    is_over_.store(true);
    thread_.join();
  }
  void tell(const put_of& what) {
    next_.store(&what);
    wait_until([&] { return next_.load() == nullptr; });
  }

 private:
  std::atomic<const put_of*> next_{nullptr};
  std::atomic<bool> is_over_{false};
  std::thread thread_;
};

struct shape {
  news how;
  bool has_mr;        // of the source
  bool other_thread;  // tells of it
};

class order_behind_puts : public testing::TestWithParam<shape> {};

TEST_P(order_behind_puts, who_is_told_finds_the_bytes) {
  const auto [how, has_mr, other_thread] = GetParam();
  watched_window there;
  std::vector<char> out(LARGEST);
  lci::mr_t mr = has_mr ? lci::register_memory_x(out.data(), out.size()).device(world().device)()
                        : lci::mr_t();
  const auto tell = [&there, how = how](const put_of& what) { there.tell(how, what); };
  std::optional<teller> other;
  if (other_thread) other.emplace(tell);
  // Some receives are there before the message, and some later.
  const auto expect_those = [&, how = how](std::uint64_t first, std::uint64_t rest) {
    for (std::uint64_t i = 0; i < PUTS && how == news::matched_receive; ++i)
      if (i % 2 == rest) there.expect(put_of(first + i));
  };
  std::size_t told = 0;
  std::size_t done = 0;
  for (std::uint64_t first = 0; first < PUTS * std::size(PUT_SIZES); first += PUTS) {
    expect_those(first, 0);
    for (std::uint64_t i = 0; i < PUTS; ++i) {
      const put_of what(first + i);
      const std::vector<char> bytes = pattern(what.size, what.seed);
      std::copy(bytes.begin(), bytes.end(), out.begin());
      out.resize(what.size);  // the memory stays where it is
      done += there.put(what.offset, out, mr) ? 1 : 0;
      ++told;
      if (other)
        other->tell(what);
      else
        tell(what);
      there.take_from_queue();
      out.resize(LARGEST);
    }
    expect_those(first, 1);
    wait_until([&] {
      there.take_from_queue();
      return there.looked() == told;
    });
    barrier();
  }
  other.reset();
  EXPECT_EQ(there.missing(), 0u) << "of " << told << ", " << done << " of them behind puts done";
  if (is_shm_alone() && !has_mr && !other_thread) {
    EXPECT_GT(done, 0u) << "no put was done at once: order was not at stake";
  }
  barrier();
  if (!mr.is_empty()) lci::deregister_memory(&mr);
}

std::vector<shape> shapes() {
  std::vector<shape> all;
  for (const news how : ALL_NEWS)
    for (const bool other_thread : {false, true})
      for (const bool has_mr : {false, true}) all.push_back({how, has_mr, other_thread});
  return all;
}

INSTANTIATE_TEST_SUITE_P(puts, order_behind_puts, testing::ValuesIn(shapes()),
                         [](const auto& param) {
                           return std::string(name_of(param.param.how)) +
                                  (param.param.has_mr ? "_registered" : "_plain") +
                                  (param.param.other_thread ? "_two_threads" : "_one_thread");
                         });

// A thread that has not posted before, right behind a put of another one that was done.
TEST(put_order, first_message_of_a_thread__finds_the_bytes) {
  std::size_t done = 0;
  for (std::uint64_t round = 0; round < 10; ++round) {
    watched_window there;
    const put_of what(round % 2 == 0 ? PUTS + round : 4 * PUTS + round);  // 8 bytes, 1000
    const std::vector<char> bytes = pattern(what.size, what.seed);
    done += there.put(what.offset, bytes, lci::mr_t()) ? 1 : 0;
    teller(([&](const put_of& it) { there.tell(news::message, it); })).tell(what);
    wait_until([&] { return there.looked() == 1; });
    EXPECT_EQ(there.missing(), 0u) << "round " << round;
  }
  if (is_shm_alone()) {
    EXPECT_GT(done, 0u) << "no put was done at once: order was not at stake";
  }
}

// The end of many puts to one place is what the last of them wrote, and a get reads it.
TEST(put_order, later_puts_and_gets__each_sees_the_one_before) {
  watched_window there;
  std::size_t stale = 0;
  std::size_t done = 0;
  for (std::uint64_t i = 0; i < 2 * PUTS; ++i) {
    const std::size_t size = PUT_SIZES[i % std::size(PUT_SIZES)];
    const std::size_t next_size = PUT_SIZES[(i / 2) % std::size(PUT_SIZES)];
    there.put(0, pattern(size, i), lci::mr_t());
    const std::vector<char> last = pattern(next_size, i + 1000000);
    done += there.put(0, last, lci::mr_t()) ? 1 : 0;
    std::vector<char> got(next_size);
    lci::post_get_x(world().next(), got.data(), got.size(), lci::COMP_NULL, 0,
                    there.memory().rmr(world().next()))
        .device(world().device)();
    stale += got == last ? 0 : 1;
  }
  EXPECT_EQ(stale, 0u) << "of " << 2 * PUTS << " gets, " << done << " of them behind puts done";
  if (is_shm_alone()) {
    EXPECT_GT(done, 0u) << "no put was done at once: order was not at stake";
  }
}

}  // namespace
}  // namespace interface_test
