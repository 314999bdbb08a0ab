// Kernels, or threads in their place, and two endpoints of the library: every call, with each proxy
// and in each scope.
#include <numeric>

#include "tests/accelerator/product/ends.hpp"

namespace product_test {
namespace {

// By requests, and, where the next rank's memory can be mapped, directly.
class memory_calls : public ends {
 protected:
  void run_both(kind what) {
    run(what);
    barrier();
    clear();
    map_there();
    barrier();
    run(what);
    barrier();
  }
  void clear() {
    const std::vector<std::byte> zeros(product::MEMORY);
    runner::get().write(memory_.at(), zeros.data(), zeros.size());
  }
};

TEST_P(memory_calls, put_and_get) { run_both(kind::put_and_get); }
TEST_P(memory_calls, put_signal) { run_both(kind::put_signal); }
TEST_P(memory_calls, values) { run_both(kind::values); }
TEST_P(memory_calls, several_words) { run_both(kind::several_words); }

TEST_P(memory_calls, atomics) {
  run_both(kind::atomics);
  EXPECT_EQ(memory_.read<std::uint64_t>(product::SUM, 1)[0], 2 * product::ADDITIONS * callers());
}

TEST_P(memory_calls, barrier) {
  only_one_ = true;
  run_both(kind::barrier);
}

class messages : public ends {};

TEST_P(messages, receives_of_kernels) { run(kind::receives); }

TEST_P(messages, receive_that_is_too_short) {
  run(kind::receive_too_short);
  // The thread of the proxy may tell it after the kernel has ended.
  drive([&] { return truncations_ == callers(); });
}

TEST_P(messages, active_messages_to_a_queue_of_kernels) {
  run(kind::active_messages);
  barrier();
  const std::size_t all = callers() * product::MESSAGES;
  EXPECT_EQ(memory_.read<std::uint32_t>(product::TAKEN, all), std::vector<std::uint32_t>(all, 1));
}

TEST_P(messages, active_messages_to_the_host) {
  interface_test::inbox box;
  task_.to_host = box.rcomp();
  run(kind::to_host);
  std::vector<std::uint32_t> seen(callers() * product::MESSAGES);
  for (std::size_t i = 0; i < seen.size(); ++i) {
    lci::status_t got;
    drive([&] { return !(got = lci::cq_pop(box.cq())).is_retry(); });
    if (HasFailure()) return;
    const auto* const at = static_cast<const unsigned char*>(got.buffer);
    ASSERT_EQ(got.rank, task_.of);
    ASSERT_TRUE(product::is_item(at, got.size, task_.of, got.tag));
    ASSERT_LT(product::index_of(at), seen.size());
    ++seen[product::index_of(at)];
    lci::get_allocator()->deallocate(got.buffer);
  }
  EXPECT_EQ(seen, std::vector<std::uint32_t>(seen.size(), 1));
}

// Their buffers are the program's again: messages that come later are for somebody else.
TEST_P(messages, receives_are_taken_back_with_their_endpoint) {
  run(kind::post_receive);
  free_queue();
  lci::free_gpu_endpoint(&task_.second);
  for (std::uint64_t i = 0; i < callers(); ++i) {
    const lci::tag_t tag = product::tag_of({i}, 40);
    std::uint64_t out = 100 + i, in = 0;
    interface_test::owned_comp got(lci::alloc_cq());
    lci::status_t said = lci::post_recv_x(world().rank, &in, 8, tag, got).device(world().device)();
    interface_test::insist(
        lci::post_send_x(world().rank, &out, 8, tag, lci::COMP_NULL).device(world().device));
    if (said.is_posted()) drive([&] { return !lci::cq_pop(got).is_retry(); });
    EXPECT_EQ(in, out);
    const std::uint64_t at = product::offset_of({i}, product::IN);
    EXPECT_EQ(memory_.read<std::uint64_t>(at, 1)[0], 0u);
  }
}

TEST_P(messages, waits_in_vain_are_aborted) {
  task_.wanted = status::aborted;
  start(kind::wait_in_vain);
  for (int i = 0; i < 1000; ++i) interface_test::progress();
  abort_ends();
  finish();
}

class short_waits : public ends {
 protected:
  short_waits() : ends(50) {}
};

TEST_P(short_waits, waits_in_vain_time_out) {
  task_.wanted = status::timed_out;
  run(kind::wait_in_vain);
}

INSTANTIATE_TEST_SUITE_P(by, memory_calls, each_way(), name_of_param);
INSTANTIATE_TEST_SUITE_P(by, messages, each_way(), name_of_param);
INSTANTIATE_TEST_SUITE_P(by, short_waits, each_way(), name_of_param);

}  // namespace
}  // namespace product_test
