// Attributes that `interface --away` leaves as they are, since its tests are about what they switch
// off: one by one here. Without a default object everything works
// that is given one, and what is not says which attribute is off.
//   lcrun -n 2 interface_no_default
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "lci.hpp"
#include "tests/support/watchdog.hpp"

namespace {

void add_up(const void* left, const void* right, void* into, std::size_t n) {
  const auto* const a = static_cast<const std::uint64_t*>(left);
  const auto* const b = static_cast<const std::uint64_t*>(right);
  for (std::size_t i = 0; i < n; ++i) static_cast<std::uint64_t*>(into)[i] = a[i] + b[i];
}

// What each call is given beside its arguments; the library's default where it is empty.
struct given_t {
  lci::device_t device;
  lci::endpoint_t endpoint;
  lci::matching_engine_t engine;

  template <class Op>
  auto operator()(Op&& op) const {
    if (!device.is_empty()) op.device(device);
    if (!endpoint.is_empty()) op.endpoint(endpoint);
    if constexpr (requires { op.matching_engine(engine); }) {
      if (!engine.is_empty()) op.matching_engine(engine);
    }
    return op();
  }
};

struct call_t {
  const char* name;
  std::function<void()> run;
};

class no_default : public testing::Test {
 protected:
  // With these defaults.
  template <class Change>
  void start(Change&& change) {
    lci::global_attr_t attr = before_;
    change(attr);
    lci::set_g_default_attr(attr);
    lci::g_runtime_init();
  }
  void TearDown() override {
    lci::g_runtime_fina();
    lci::set_g_default_attr(before_);
  }
  std::uint64_t sum() const { return static_cast<std::uint64_t>(n_ * (n_ - 1) / 2); }

  std::vector<call_t> collectives(const given_t& with) {
    in_.assign(n(), static_cast<std::uint64_t>(me_));
    out_.assign(n(), 99);
    std::uint64_t* const in = in_.data();
    std::uint64_t* const out = out_.data();
    return {
        {"barrier", [=] { with(lci::barrier_x()); }},
        {"broadcast",
         [=, this] {
           with(lci::broadcast_x(in, 8, 0));
           EXPECT_EQ(*in, 0u);
           *in = static_cast<std::uint64_t>(me_);
         }},
        {"allreduce",
         [=, this] {
           with(lci::allreduce_x(in, out, 1, 8, add_up));
           EXPECT_EQ(*out, sum());
         }},
        {"reduce",
         [=, this] {
           with(lci::reduce_x(in, out, 1, 8, add_up, 0));
           if (me_ == 0) {
             EXPECT_EQ(*out, sum());
           }
         }},
        {"reduce_scatter",
         [=, this] {
           with(lci::reduce_scatter_x(in, out, 1, 8, add_up));
           EXPECT_EQ(*out, sum());
         }},
        {"allgather",
         [=, this] {
           with(lci::allgather_x(in, out, 8));
           EXPECT_EQ(std::accumulate(out_.begin(), out_.end(), std::uint64_t{0}), sum());
         }},
        {"alltoall",
         [=, this] {
           with(lci::alltoall_x(in, out, 8));
           EXPECT_EQ(std::accumulate(out_.begin(), out_.end(), std::uint64_t{0}), sum());
         }},
    };
  }

  // Small and by rendezvous.
  void send_around(const given_t& with) {
    for (const std::size_t size : {std::size_t{8}, std::size_t{300'000}}) {
      std::vector<char> out(size, static_cast<char>(me_ + 1)), in(size);
      lci::comp_t received = lci::alloc_counter();
      with(lci::post_recv_x((me_ + n_ - 1) % n_, in.data(), size, 5, received).allow_done(false));
      with(lci::post_send_x((me_ + 1) % n_, out.data(), size, 5, lci::COMP_NULL));
      while (lci::counter_get(received) == 0) progress(with);
      EXPECT_EQ(in, std::vector<char>(size, static_cast<char>((me_ + n_ - 1) % n_ + 1)));
      lci::free_comp(&received);
    }
  }
  void message_around(const given_t& with) {
    lci::comp_t arrived = lci::alloc_cq();
    const lci::rcomp_t number = lci::register_rcomp(arrived);
    with(lci::barrier_x());
    int word = me_;
    with(lci::post_am_x((me_ + 1) % n_, &word, sizeof word, lci::COMP_NULL, number));
    lci::status_t got;
    while (!(got = lci::cq_pop(arrived)).is_done()) progress(with);
    EXPECT_EQ(*static_cast<const int*>(got.buffer), (me_ + n_ - 1) % n_);
    if (lci::get_g_default_attr().zero_copy_am)
      lci::put_upacket(got.buffer);
    else
      std::free(got.buffer);
    with(lci::barrier_x());
    lci::deregister_rcomp(number);
    lci::free_comp(&arrived);
  }
  void everything_works(const given_t& with) {
    for (const call_t& each : collectives(with)) {
      SCOPED_TRACE(each.name);
      each.run();
    }
    send_around(with);
    message_around(with);
    with(lci::barrier_x());
  }
  static void progress(const given_t& with) {
    lci::progress_x op;
    if (!with.device.is_empty()) op.device(with.device);
    op();
  }

  static void is_refused(const char* attribute, const std::vector<call_t>& calls) {
    for (const call_t& each : calls) {
      try {
        each.run();
        ADD_FAILURE() << each.name << ": nothing thrown";
      } catch (const lci::argument_error& error) {
        EXPECT_NE(std::string(error.what()).find(attribute), std::string::npos)
            << each.name << ": " << error.what();
      }
    }
  }
  std::vector<call_t> messages(const given_t& with) {
    return {
        {"send", [=, this] { with(lci::post_send_x(me_, &word_, 8, 5, lci::COMP_NULL)); }},
        {"recv", [=, this] { with(lci::post_recv_x(me_, &word_, 8, 5, lci::COMP_NULL)); }},
        {"am", [=, this] { with(lci::post_am_x(me_, &word_, 8, lci::COMP_NULL, 9)); }},
    };
  }

  std::size_t n() const { return static_cast<std::size_t>(n_); }
  const lci::global_attr_t before_ = lci::get_g_default_attr();
  const int me_ = lci::get_rank_me(), n_ = lci::get_rank_n();
  std::uint64_t word_ = 0;
  std::vector<std::uint64_t> in_, out_;
};

TEST_F(no_default, device) {
  start([](auto& attr) { attr.alloc_default_device = false; });
  is_refused("alloc_default_device", collectives({}));
  is_refused("alloc_default_device", messages({}));
  is_refused("alloc_default_device", {{"progress", [] { lci::progress(); }}});
  given_t with;
  with.device = lci::alloc_device();
  everything_works(with);
  // The endpoint alone says which device.
  given_t with_endpoint;
  with_endpoint.endpoint = lci::alloc_endpoint_x().device(with.device)();
  for (const call_t& each : collectives(with_endpoint)) {
    SCOPED_TRACE(each.name);
    each.run();
  }
  with(lci::barrier_x());
  lci::free_endpoint(&with_endpoint.endpoint);
  lci::free_device(&with.device);
}

TEST_F(no_default, endpoint) {
  start([](auto& attr) { attr.alloc_default_endpoint = false; });
  if (n_ > 1)
    is_refused("alloc_default_endpoint", collectives({}));  // alone there is nothing to send
  is_refused("alloc_default_endpoint", messages({}));
  given_t with;
  with.endpoint = lci::alloc_endpoint();
  everything_works(with);
  lci::free_endpoint(&with.endpoint);
}

// Packets of the library's own are there all the same.
TEST_F(no_default, packet_pool) {
  start([](auto& attr) { attr.alloc_default_packet_pool = false; });
  is_refused("alloc_default_packet_pool", {{"get_upacket", [] { lci::get_upacket(); }},
                                           {"bcopy size", [] { lci::get_max_bcopy_size(); }}});
  everything_works({});
}

TEST_F(no_default, matching_engine) {
  start([](auto& attr) { attr.alloc_default_matching_engine = false; });
  is_refused("alloc_default_matching_engine", collectives({}));
  std::vector<call_t> matched = messages({});
  matched.pop_back();  // an active message needs none
  is_refused("alloc_default_matching_engine", matched);
  given_t with;
  with.engine = lci::alloc_matching_engine();
  everything_works(with);
  lci::free_matching_engine(&with.engine);
}

TEST_F(no_default, zero_copy_am__is_for_objects_of_the_program) {
  start([](auto& attr) { attr.zero_copy_am = true; });
  everything_works({});
}

TEST_F(no_default, pipelined_copy) {
  start([](auto& attr) { attr.shm_pipelined_copy = false; });
  everything_works({});
}

}  // namespace

int main(int argc, char** argv) {
  lci::global_initialize();
  const int rank = lci::get_rank_me();
  if (rank != 0) GTEST_FLAG_SET(brief, true);
  testing::InitGoogleTest(&argc, argv);
  const lci::test::watchdog watchdog("interface without defaults, rank " + std::to_string(rank));
  const int failed = RUN_ALL_TESTS();
  lci::global_finalize();
  return failed;
}
