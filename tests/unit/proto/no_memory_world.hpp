// Ranks over the fake network of whom one allocation fails; nothing but it does. Used by the tests
// of what happens then. Threads: one.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <new>
#include <tuple>
#include <vector>

#include "lci/errors.hpp"
#include "lci/proto/host/select.hpp"
#include "tests/support/failing_new/each_allocation.hpp"
#include "tests/unit/proto/world.hpp"

namespace lci::test::no_memory {

inline constexpr tag_t TAG = 5;
inline constexpr std::size_t SIZES[] = {8, 3000, LARGE};  // inline, in a packet, by rendezvous

// Counts, and asks nobody for memory. Of messages it keeps the last one.
class counting final : public comp_impl_t {
 public:
  explicit counting(bool gets_messages = false) : gets_messages_(gets_messages) {}
  ~counting() override { drop(); }
  counting(const counting&) = delete;
  counting& operator=(const counting&) = delete;
  void signal(status_t status) override {
    drop();
    last = status;
    ++count;
  }
  status_t last;
  int count = 0;

 private:
  void drop() {
    if (gets_messages_ && count != 0) lci::g_allocator_default.deallocate(last.buffer);
  }
  const bool gets_messages_;
};

struct ranks : proto_world {
  explicit ranks(const sim_options& options = {}) : proto_world(options) { thrown.reserve(64); }
  // Calls that again which is refused for want of memory: nothing has happened then.
  template <class Call>
  static auto again(Call&& call) -> decltype(call()) {
    for (;;) {
      try {
        return call();
      } catch (const std::bad_alloc&) {
      }
    }
  }
  // Moves everybody until done(), or too often.
  template <class Done>
  void until(Done&& done) {
    bool is_done = done();
    for (int rounds = 0; !is_done && rounds < 20 * ROUNDS; ++rounds) {
      step(1);
      is_done = done();
    }
    EXPECT_TRUE(is_done) << "waited in vain";
  }
  // Posted, though it may take a while.
  errorcode_t send(int from, void* buffer, std::size_t size, rcomp_t rcomp, comp_impl_t* comp) {
    errorcode_t code = errorcode_t::retry;
    until([&] {
      proto::outgoing out = (*this)[from].outgoing(1 - from, buffer, size, rcomp, TAG, comp);
      code = again([&] { return proto::start_message(out); });
      return !proto::is_retry(code);
    });
    return code;
  }
  bool is_quiet() { return nodes[0]->queues->is_drained() && nodes[1]->queues->is_drained(); }
  // How often that was thrown by progress; the rest is std::bad_alloc.
  template <class Error>
  std::size_t count_thrown() {
    std::size_t count = 0;
    for (const std::exception_ptr& one : thrown) {
      try {
        std::rethrow_exception(one);
      } catch (const Error&) {
        ++count;
      } catch (const std::bad_alloc&) {
      } catch (const std::exception& other) {
        ADD_FAILURE() << other.what();
      }
    }
    return count;
  }
  std::size_t packets_out() {
    std::size_t sum = 0;
    for (auto& node : nodes) {
      node->pool.reclaim();  // what was lent and has come back
      sum += node->pool.outstanding();
    }
    return sum;
  }
};

inline bool same(const std::vector<std::byte>& a, const std::vector<std::byte>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

}  // namespace lci::test::no_memory
