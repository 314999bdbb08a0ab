// An endpoint as its kernels and its host see it: what ends waits, what is reported, and once.
#include "lci/proxy/endpoint.hpp"

#include "tests/unit/proxy/proxied_job.hpp"

namespace lci::proxy {
namespace {

using gpu::status;

class endpoint_test : public testing::Test {
 protected:
  endpoint_test() {
    mr_ = register_memory_x(words_, sizeof(words_)).runtime(job_.handle())();
    own_ = get_gpu_key(mr_);
    there_ = get_gpu_key_x(job_.expose(theirs_, sizeof(theirs_))).endpoint(ep_)();
  }
  ~endpoint_test() override {
    if (!ep_.is_empty()) free_gpu_endpoint_x(&ep_).call();
    deregister_memory(&mr_);
  }
  status put(std::uint64_t to = 0) { return gpu::put(ep_, 1, {there_, to}, {own_, 0}, 8); }
  endpoint& one() { return *side::find(ep_, "a test").one; }

  std::uint64_t words_[4] = {1, 2, 3, 4}, theirs_[4] = {};
  test::proxied_job job_;
  gpu::endpoint_t ep_ = job_.endpoint();
  mr_t mr_;
  gpu::key_t own_, there_;
};

TEST_F(endpoint_test, serve__all_that_was_posted) {
  for (std::uint64_t i = 0; i < 4; ++i) EXPECT_EQ(put(8 * i), status::ok);
  EXPECT_FALSE(one().is_idle_st());
  EXPECT_EQ(job_.run([&] { return gpu::quiet(ep_, 1); }), status::ok);
  EXPECT_TRUE(one().is_idle_st());
  for (const std::uint64_t word : theirs_) EXPECT_EQ(word, 1u);
}

// The owner's table decides; the queue ends, the kernel and the host are told, once.
TEST_F(endpoint_test, report__beyond_the_peers_region) {
  EXPECT_EQ(put(32), status::ok) << "only the owner knows";
  EXPECT_EQ(job_.run([&] { return gpu::quiet(ep_, 1); }), status::failed);
  EXPECT_EQ(put(), status::dead);
  job_.step(50);
  const auto texts = job_.texts<gpu_request_error>();
  ASSERT_EQ(texts.size(), 1u);
  for (const char* part : {"a put to rank 1", "syndrome 0x13"})
    EXPECT_NE(texts[0].find(part), std::string::npos) << texts[0];
  EXPECT_EQ(gpu::syndrome_of(ep_, 1), wqe::syndrome::remote_access);
  EXPECT_EQ(job_.run([&] {
    return gpu::put(ep_, 0, {own_, 8}, {own_, 0}, 8);
  }),
            status::ok)
      << "the other queue goes on";
}

TEST_F(endpoint_test, report__a_local_key_that_has_ended) {
  const gpu::key_t stale = own_;
  deregister_memory(&mr_);
  mr_ = register_memory_x(words_, sizeof(words_)).runtime(job_.handle())();
  own_ = get_gpu_key(mr_);
  EXPECT_EQ(gpu::put(ep_, 1, {there_, 0}, {stale, 0}, 8), status::ok);
  EXPECT_EQ(job_.run([&] { return gpu::quiet(ep_, 1); }), status::failed);
  EXPECT_EQ(gpu::syndrome_of(ep_, 1), wqe::syndrome::local_protection);
  EXPECT_EQ(theirs_[0], 0u);
}

TEST_F(endpoint_test, report__the_peer_dies) {
  EXPECT_EQ(put(), status::ok);
  EXPECT_EQ(job_.run([&] { return gpu::quiet(ep_, 1); }), status::ok);
  std::uint64_t never = 0;
  job_.kill();
  EXPECT_EQ(job_.run([&] { return gpu::wait_until(ep_, &never, gpu::comparison::equal, 1, 1); }),
            status::peer_lost);
  EXPECT_EQ(job_.run([&] { return gpu::wait_until(ep_, &never, gpu::comparison::equal, 1); }),
            status::peer_lost)
      << "it might have come from there";
  EXPECT_EQ(job_.run([&] {
    const status s = put();
    return s != status::ok ? s : gpu::quiet(ep_, 1);
  }),
            status::peer_lost);
}

TEST_F(endpoint_test, report__the_peer_leaves_the_network) {
  gpu::endpoint_t ep = job_.endpoint(16, 50);
  job_.meet();
  job_.leave_network();
  ASSERT_TRUE(job_.step_until([&] { return job_.device().queues.engine().watch.has_ended(1); }));
  job_.step(100);  // of which one serves the endpoint
  std::uint64_t never = 0;
  EXPECT_EQ(gpu::wait_until(ep, &never, gpu::comparison::equal, 1, 1), status::peer_lost);
  EXPECT_FALSE(job_.runtime().core.peers.has_ended(1));
  free_gpu_endpoint_x(&ep).call();
}

TEST_F(endpoint_test, abort__ends_waits_and_queues_and_is_not_reported) {
  EXPECT_EQ(put(), status::ok);
  abort_gpu_endpoint_x(&ep_).call();
  std::uint64_t never = 0;
  EXPECT_EQ(gpu::wait_until(ep_, &never, gpu::comparison::equal, 1), status::aborted);
  EXPECT_EQ(gpu::quiet(ep_), status::aborted);
  EXPECT_EQ(put(), status::dead);
  job_.step(50);
  EXPECT_TRUE(job_.thrown.empty());
  EXPECT_EQ(theirs_[0], 0u);
}

TEST_F(endpoint_test, abort__a_put_under_way_keeps_its_bytes) {
  job_.meet();
  job_.sim().change([](test::sim_options& o) { o.late = true; });
  EXPECT_EQ(gpu::put_value(ep_, 1, {there_, 0}, std::uint64_t{0xaaaa}), status::ok);
  one().serve_st();
  EXPECT_EQ(gpu::put_value(ep_, 1, {there_, 8}, std::uint64_t{0xbbbb}), status::ok);
  abort_gpu_endpoint_x(&ep_).call();
  one().serve_st();
  job_.step(50);
  EXPECT_EQ(theirs_[0], 0xaaaau);
  EXPECT_EQ(theirs_[1], 0u);
}

// The network refuses it, so that lci has not taken it.
TEST_F(endpoint_test, abort__a_put_that_has_not_begun_never_does) {
  job_.meet();
  job_.sim().change([](test::sim_options& o) { o.refuse_one_in = 1; });
  EXPECT_EQ(put(), status::ok);
  one().serve_st();
  EXPECT_FALSE(one().is_idle_st());
  abort_gpu_endpoint_x(&ep_).call();
  one().serve_st();
  EXPECT_TRUE(one().is_idle_st());
  job_.sim().change([](test::sim_options& o) { o.refuse_one_in = 0; });
  job_.step(50);
  EXPECT_EQ(theirs_[0], 0u);
  EXPECT_TRUE(job_.thrown.empty());
}

// Nobody makes progress.
TEST_F(endpoint_test, limit__a_full_queue_and_waits) {
  gpu::endpoint_t short_of_time = job_.endpoint(16, 5);
  status s = status::ok;
  int posted = 0;
  while ((s = gpu::put(short_of_time, 0, {own_, 8}, {own_, 0}, 8)) == status::ok) ++posted;
  EXPECT_EQ(s, status::timed_out);
  EXPECT_GT(posted, 0);
  EXPECT_LE(posted, 16);
  std::uint64_t never = 0;
  EXPECT_EQ(gpu::wait_until(short_of_time, &never, gpu::comparison::equal, 1), status::timed_out);
  free_gpu_endpoint_x(&short_of_time).call();
}

TEST_F(endpoint_test, receives__no_more_than_the_endpoint_takes) {
  gpu::ticket_t tickets[5];
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(job_.run([&] {
      return gpu::recv(ep_, 0, {own_, 0}, 8, 5, tickets + i);
    }),
              status::ok);
  EXPECT_EQ(gpu::recv(ep_, 0, {own_, 0}, 8, 5, tickets + 4), status::no_receive_slot);
  job_.step(20);
  EXPECT_TRUE(one().has_receives());
}

TEST_F(endpoint_test, retire__copies_of_the_handle_find_out) {
  const gpu::endpoint_t copy = ep_;
  EXPECT_EQ(put(), status::ok);
  free_gpu_endpoint_x(&ep_).call();
  EXPECT_EQ(theirs_[0], 1u) << "what was posted is done first";
  EXPECT_EQ(gpu::put(copy, 1, {there_, 8}, {own_, 0}, 8), status::bad_endpoint);
  EXPECT_EQ(gpu::quiet(copy), status::bad_endpoint);
  EXPECT_EQ(theirs_[1], 0u);
}

}  // namespace
}  // namespace lci::proxy
