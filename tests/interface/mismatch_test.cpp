// Handles that are each good and do not belong together: a typed error that names the call and
// both.
#include "bad_input.hpp"

namespace interface_test {
namespace {

class mismatch : public bad_input {
 protected:
  void SetUp() override {
    own_ = lci::alloc_runtime();
    other_ = lci::alloc_device();
    end_ = lci::alloc_endpoint_x().device(world().device)();
  }
  void TearDown() override {
    lci::free_endpoint(&end_);
    lci::free_device(&other_);
    lci::free_runtime(&own_);
    bad_input::TearDown();
  }
  const int to_ = world().next();
  lci::runtime_t own_;   // another one
  lci::device_t other_;  // of the global runtime
  lci::endpoint_t end_;  // of the test's device
};

TEST_F(mismatch, endpoint_of_another_device) {
  window memory(64);
  const auto refuse = [&](const char* call, auto&& op) {
    SCOPED_TRACE(call);
    refused([&] { op.device(other_).endpoint(end_)(); },
            {std::string(call) + ":", "device and endpoint", "another device"});
  };
  refuse("post_send", lci::post_send_x(to_, buffer_, 8, 1, cq_));
  refuse("post_send", lci::post_send_x(to_, buffer_, 64, 1, cq_).allow_done(false));
  refuse("post_am", lci::post_am_x(to_, buffer_, 8, cq_, 9));
  refuse("post_recv", lci::post_recv_x(to_, buffer_, 8, 1, cq_));
  refuse("post_put", lci::post_put_x(to_, buffer_, 8, cq_, 0, memory.rmr(to_)));
  refuse("post_get", lci::post_get_x(to_, buffer_, 8, cq_, 0, memory.rmr(to_)));
  refuse("net_post_send", lci::net_post_send_x(to_, buffer_, 8, lci::MR_HOST));
  refuse("net_post_sends", lci::net_post_sends_x(to_, buffer_, 8));
  refuse("progress", lci::progress_x());
  refuse("collective", lci::barrier_x());
  refuse("collective", lci::broadcast_x(buffer_, 8, 0));
}

TEST_F(mismatch, device_or_endpoint_of_another_runtime) {
  const auto refuse = [&](const char* call, auto make) {
    SCOPED_TRACE(call);
    refused([&] { make().runtime(own_).device(other_)(); },
            {std::string(call) + ":", "runtime and device", "another runtime"});
    refused([&] { make().runtime(own_).endpoint(end_)(); },
            {std::string(call) + ":", "runtime and endpoint", "another runtime"});
  };
  refuse("post_send", [&] { return lci::post_send_x(to_, buffer_, 8, 1, cq_); });
  refuse("post_am", [&] { return lci::post_am_x(to_, buffer_, 8, cq_, 9); });
  refuse("post_recv", [&] { return lci::post_recv_x(to_, buffer_, 8, 1, cq_); });
  refuse("net_post_sends", [&] { return lci::net_post_sends_x(to_, buffer_, 8); });
  refuse("progress", [&] { return lci::progress_x(); });
  refuse("collective", [&] { return lci::barrier_x(); });
  refused([&] { lci::alloc_endpoint_x().runtime(own_).device(other_)(); },
          {"alloc_endpoint:", "runtime and device"});
}

TEST_F(mismatch, what_belongs_together_is_taken) {
  const lci::runtime_t runtime = lci::get_g_runtime();
  barrier();
  lci::barrier_x().runtime(runtime).device(world().device).endpoint(end_)();
  lci::progress_x().runtime(runtime).device(world().device).endpoint(end_)();
  barrier();
}

// Errors of posts say which.
TEST_F(mismatch, rank_that_is_none__with_the_call) {
  window memory(64);
  const int none = world().n;
  const auto refuse = [&](const char* call, auto&& op) {
    SCOPED_TRACE(call);
    refused([&] { op.device(world().device)(); },
            {std::string(call) + ": rank " + std::to_string(none) + " is not in 0.."});
  };
  refuse("post_send", lci::post_send_x(none, buffer_, 8, 1, cq_));
  refuse("post_am", lci::post_am_x(none, buffer_, 8, cq_, 9));
  refuse("post_recv", lci::post_recv_x(none, buffer_, 8, 1, cq_));
  refuse("post_put", lci::post_put_x(none, buffer_, 8, cq_, 0, memory.rmr(0)));
  refuse("post_get", lci::post_get_x(none, buffer_, 8, cq_, 0, memory.rmr(0)));
  refuse("net_post_sends", lci::net_post_sends_x(none, buffer_, 8));
}

}  // namespace
}  // namespace interface_test
