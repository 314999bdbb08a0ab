// What work requests become, and every reason for which one is refused.
#include "lci/proxy/proxy_world.hpp"

#include "lci/proxy/messages.hpp"
#include "tests/unit/proxy/proxied_job.hpp"

namespace lci::proxy {
namespace {

using device::outcome;
using wqe::opcode;
using wqe::syndrome;

class proxy_world_test : public testing::Test {
 protected:
  static constexpr std::uint64_t WORDS = 64;
  proxy_world_test() {
    for (std::uint64_t i = 0; i < WORDS; ++i) mine_[i] = i + 1;
    mr_ = register_memory_x(mine_, sizeof(mine_)).runtime(job_.handle())();
    rmr_ = job_.expose(theirs_, sizeof(theirs_));
    key_ = job_.side().all_keys.of(rmr_, test::proxied_job::PEER, nullptr);
    own_key_ = get_gpu_key(mr_).key;
  }
  ~proxy_world_test() override {
    if (!mr_.is_empty()) deregister_memory(&mr_);
    EXPECT_TRUE(job_.step_until([this] { return !world_.is_in_use() && !own_.is_in_use(); }));
  }
  device::remote_place there(std::uint64_t word = 0) const {
    return {reinterpret_cast<std::uintptr_t>(theirs_ + word), key_};
  }
  device::local_data data(std::uint64_t word, std::uint32_t size) {
    piece_ = {reinterpret_cast<std::byte*>(mine_ + word), size, own_key_};
    return {&piece_, 1, size};
  }
  // Until it is over.
  device::answer finish(proxy_world& w, device::answer a) {
    job_.step_until([&] {
      if (a.what == outcome::posted) a = w.poll();
      return a.what != outcome::posted;
    });
    return a;
  }
  device::answer finish(device::answer a) { return finish(world_, a); }
  void expect_refused(device::answer a, syndrome why, const char* text) {
    a = finish(a);
    EXPECT_EQ(a.what, outcome::failed);
    EXPECT_EQ(a.why, why) << wqe::text_of(a.why);
    EXPECT_NE(world_.reason().find(text), std::string::npos) << world_.reason();
  }

  std::uint64_t mine_[WORDS], theirs_[WORDS] = {};
  test::proxied_job job_;
  mr_t mr_;
  rmr_t rmr_;
  std::uint32_t key_ = 0, own_key_ = 0;
  device::local_piece piece_{};
  gpu::receive_slot slots_[2] = {};
  open_receives receives_{slots_, 2};
  std::atomic<bool> aborted_{false};
  proxy_world world_{job_.device(), test::proxied_job::PEER, job_.side().all_keys, receives_,
                     aborted_};
  proxy_world own_{job_.device(), test::proxied_job::ME, job_.side().all_keys, receives_, aborted_};
};

TEST_F(proxy_world_test, put__and_get_of_what_was_put) {
  world_.expect_completion(true);
  EXPECT_EQ(finish(world_.put(opcode::rdma_write, data(0, 64), there(8), 0, false)).what,
            outcome::done);
  EXPECT_EQ(theirs_[8], 1u);
  EXPECT_EQ(theirs_[15], 8u);
  EXPECT_EQ(theirs_[16], 0u);
  EXPECT_EQ(finish(world_.get(there(8), data(32, 64))).what, outcome::done);
  EXPECT_EQ(mine_[32], 1u);
  EXPECT_EQ(mine_[39], 8u);
  EXPECT_EQ(finish(world_.put(opcode::rdma_write, data(0, 0), {1, 2}, 0, false)).what,
            outcome::done)
      << "nothing needs no key";
}

TEST_F(proxy_world_test, put__in_pieces_that_are_looked_at_first) {
  device::local_piece pieces[3];
  for (std::uint32_t i = 0; i < 3; ++i)
    pieces[i] = {reinterpret_cast<std::byte*>(mine_ + 10 * i), 16, own_key_};
  EXPECT_EQ(finish(world_.put(opcode::rdma_write, {pieces, 3, 48}, there(0), 0, false)).what,
            outcome::done);
  for (std::uint64_t i = 0; i < 6; ++i) EXPECT_EQ(theirs_[i], i / 2 * 10 + i % 2 + 1);
  // The last piece would be outside: none is written.
  expect_refused(world_.put(opcode::rdma_write, {pieces, 3, 48}, there(WORDS - 4), 0, false),
                 syndrome::remote_access, "");
  EXPECT_EQ(theirs_[WORDS - 4], 0u);
}

TEST_F(proxy_world_test, put__remote_keys_that_name_nothing_there) {
  const auto put = [&](device::remote_place at) {
    return world_.put(opcode::rdma_write, data(0, 8), at, 0, false);
  };
  expect_refused(put({there().address, key_ + 1}), syndrome::remote_access, "names no memory");
  expect_refused(put({there().address, 0}), syndrome::remote_access, "names no memory");
  expect_refused(put({there().address - 1, key_}), syndrome::remote_access, "names no memory");
  expect_refused(put({there().address, own_key_}), syndrome::remote_access, "names no memory");
  EXPECT_EQ(theirs_[0], 0u);
}

TEST_F(proxy_world_test, put__beyond_the_region_of_the_peer) {
  expect_refused(world_.put(opcode::rdma_write, data(0, 16), there(WORDS - 1), 0, false),
                 syndrome::remote_access, "");
  EXPECT_EQ(theirs_[WORDS - 1], 0u);
}
TEST_F(proxy_world_test, get__beyond_the_region_of_the_peer) {
  const std::uint64_t before = mine_[0];
  expect_refused(world_.get(there(WORDS), data(0, 8)), syndrome::remote_access, "");
  EXPECT_EQ(mine_[0], before);
}

TEST_F(proxy_world_test, put__what_only_cards_do) {
  expect_refused(world_.put(opcode::rdma_write_imm, data(0, 8), there(), 1, false),
                 syndrome::local_qp_operation, "immediate");
}

TEST_F(proxy_world_test, all__end_as_flushed_once_aborted) {
  aborted_.store(true);
  for (const device::answer a : {world_.put(opcode::rdma_write, data(0, 8), there(), 0, false),
                                 world_.get(there(), data(0, 8)), world_.flush(),
                                 world_.send(opcode::send_imm, data(0, 8), gpu::MESSAGE, false),
                                 world_.atomic(opcode::atomic_fa, {1, 0, 0, 0, 8}, there(),
                                               reinterpret_cast<std::byte*>(mine_))}) {
    EXPECT_EQ(a.what, outcome::failed);
    EXPECT_EQ(a.why, syndrome::flushed);
  }
  EXPECT_EQ(world_.reason(), "") << "the program has done it";
  EXPECT_EQ(theirs_[0], 0u);
}

// Under way, it is the card's no more: what lci still has ends later.
TEST_F(proxy_world_test, poll__ends_as_flushed_when_aborted_under_way) {
  job_.sim().change([](test::sim_options& o) { o.late = true; });
  const device::answer a = world_.get(there(), data(0, 8));
  ASSERT_EQ(a.what, outcome::posted);
  aborted_.store(true);
  EXPECT_EQ(world_.poll().why, syndrome::flushed);
}

TEST_F(proxy_world_test, put__to_a_peer_that_has_died) {
  job_.kill();
  ASSERT_TRUE(job_.step_until([&] { return job_.runtime().core.peers.has_ended(1); }));
  expect_refused(world_.put(opcode::rdma_write, data(0, 8), there(), 0, false),
                 syndrome::retry_exceeded, "");
}
TEST_F(proxy_world_test, get__from_a_peer_that_dies_meanwhile) {
  job_.meet();
  job_.sim().change([](test::sim_options& o) { o.late = true; });
  const device::answer a = world_.get(there(), data(0, 8));
  ASSERT_EQ(a.what, outcome::posted);
  job_.kill();
  expect_refused(a, syndrome::retry_exceeded, "");
}

// It goes on over other networks: only this one's endpoints have lost it.
TEST_F(proxy_world_test, get__from_a_peer_that_leaves_the_network_meanwhile) {
  job_.meet();
  job_.sim().change([](test::sim_options& o) { o.late = true; });
  const device::answer a = world_.get(there(), data(0, 8));
  ASSERT_EQ(a.what, outcome::posted);
  job_.leave_network();
  expect_refused(a, syndrome::retry_exceeded, "");
  EXPECT_FALSE(job_.runtime().core.peers.has_ended(1));
}

TEST_F(proxy_world_test, flush__behind_puts_whose_region_has_ended) {
  world_.expect_completion(false);
  ASSERT_EQ(finish(world_.put(opcode::rdma_write, data(0, 8), there(), 0, false)).what,
            outcome::done);
  job_.peer().core.regions.erase({static_cast<std::uint32_t>(rmr_.opaque_rkey),
                                  static_cast<std::uint32_t>(rmr_.opaque_rkey >> 32)});
  EXPECT_EQ(finish(world_.flush()).what, outcome::done);
  EXPECT_EQ(theirs_[0], 1u);
}

TEST_F(proxy_world_test, own_rank__host_memory_needs_no_post) {
  const device::remote_place at{reinterpret_cast<std::uintptr_t>(mine_ + 40), own_key_};
  EXPECT_EQ(own_.put(opcode::rdma_write, data(0, 8), at, 0, false).what, outcome::done);
  EXPECT_EQ(mine_[40], 1u);
  EXPECT_EQ(own_.get(at, data(50, 8)).what, outcome::done);
  EXPECT_EQ(mine_[50], 1u);
  EXPECT_EQ(own_.flush().what, outcome::done);
}

TEST_F(proxy_world_test, is_in_use__as_long_as_lci_has_an_object) {
  EXPECT_FALSE(world_.is_in_use());
  job_.sim().change([](test::sim_options& o) { o.late = true; });
  ASSERT_EQ(finish(world_.get(there(), data(0, 8))).what, outcome::done);
  const device::answer a = world_.get(there(), data(0, 8));
  EXPECT_TRUE(world_.is_in_use());
  finish(a);
  EXPECT_FALSE(world_.is_in_use());
}

}  // namespace
}  // namespace lci::proxy
