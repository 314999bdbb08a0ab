// Raw posts at a limit that no network here has; the others are in tests/interface.
#include "lci/net.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "lci.hpp"
#include "lci/proto/host/raw.hpp"
#include "lci/runtime/device.hpp"
#include "lci/runtime/runtime.hpp"

namespace {

// The network takes at once more bytes than a packet has.
class short_puts : public testing::Test {
 protected:
  short_puts() {
    lci::g_runtime_init();
    lci::get_default_net_context().p_impl->attr.max_inject_size = MUCH;
    lci::proto::raw_net& raw = lci::get_default_device().p_impl->raw();
    in_packet_ = raw.pool().payload_size();
    longest_ = raw.longest_whole(0);
  }
  ~short_puts() override { lci::g_runtime_fina(); }
  // What comes of a put of so many bytes to this rank.
  using put = std::function<lci::error_t(void* from, std::size_t size, lci::rmr_t to)>;
  void expect_limit(const put& post) {
    ASSERT_LT(in_packet_, longest_);
    ASSERT_LT(in_packet_, MUCH);
    std::vector<char> from(MUCH, 'f'), to(MUCH, 't');
    lci::mr_t mr = lci::register_memory(to.data(), to.size());
    const lci::rmr_t rmr = lci::get_rmr(mr);
    EXPECT_THROW(post(from.data(), in_packet_ + 1, rmr), lci::argument_error);
    EXPECT_THROW(post(from.data(), longest_, rmr), lci::argument_error);
    while (post(from.data(), in_packet_, rmr).is_retry()) poll();
    while (to[in_packet_ - 1] != 'f') poll();
    EXPECT_EQ(to[in_packet_], 't');
    lci::deregister_memory(&mr);
  }
  static void poll() {
    lci::net_status_t status;
    lci::net_poll_cq_x(1, &status)();
  }

  static constexpr std::size_t MUCH = 1 << 20;
  std::size_t in_packet_ = 0, longest_ = 0;
};

TEST_F(short_puts, of_what_a_packet_does_not_take__are_refused) {
  expect_limit([](void* from, std::size_t size, lci::rmr_t to) {
    return lci::net_post_puts_x(0, from, size, 0, to)();
  });
}

TEST_F(short_puts, with_immediate_data__likewise) {
  expect_limit([](void* from, std::size_t size, lci::rmr_t to) {
    return lci::net_post_putImms_x(0, from, size, 0, to).imm_data(1)();
  });
}

}  // namespace
