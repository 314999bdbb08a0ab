// Tiers T0 and T1 on a stand-in: what a thread posts with the code of kernels is, byte for byte and
// in the right order, in the ring, the record and the register of the card.
#include "experimental/ibv/gpu_tiers/direct_queue.hpp"

#include <infiniband/mlx5dv.h>

#include <array>
#include <cerrno>

#include "experimental/tests/unit/ibv/gpu_tiers_world.hpp"
#include "experimental/tests/unit/ibv/store_watch.hpp"

namespace lci::ibv {
namespace {

using bytes = std::vector<unsigned char>;
using net::gpu_tier;

std::uint64_t word_of(const void* at) {
  std::uint64_t out = 0;
  std::memcpy(&out, at, sizeof(out));
  return out;
}
std::uint64_t first_word_of(const bytes& of) { return word_of(of.data()); }

// What was in memory when the record and when the register was stored to, one after the other.
// Written where a thread was interrupted, so nothing is allocated.
struct stores {
  struct moment {
    char what;  // 'd' doorbell record, 'r' register
    unsigned char ring[64];
    std::uint32_t record;
  };
  std::array<moment, 4> all;
  std::size_t count = 0;
};

// The record when the request is whole, the register when the record says so.
void expect_in_order(const stores& seen, const bytes& request, std::uint64_t next) {
  ASSERT_EQ(seen.count, 2u);
  ASSERT_LE(request.size(), sizeof(stores::moment::ring));
  EXPECT_EQ(seen.all[0].what, 'd') << "the record is not stored first";
  EXPECT_EQ(seen.all[1].what, 'r') << "the register is not stored last";
  EXPECT_EQ(bytes(seen.all[0].ring, seen.all[0].ring + request.size()), request)
      << "the record is stored before the request is there";
  EXPECT_EQ(seen.all[1].record, wqe::work_record(next))
      << "the register says what the record lacks";
}

class direct_queue_test : public on_an_mlx5_card {
 protected:
  // Watches the next ring for the request at the ring's begin.
  void watch(const test::fake_direct_queue& q) {
    seen_.count = 0;
    const auto note = [this, q](char what) {
      stores::moment& now = seen_.all[seen_.count++ % seen_.all.size()];
      now.what = what;
      std::memcpy(now.ring, q.ring, sizeof(now.ring));
      now.record = q.record[wqe::SEND_RECORD];
    };
    record_.emplace(q.record, [note] { note('d'); });
    register_.emplace(q.page_of_register, [note] { note('r'); });
  }
  void stop_watching() {
    record_.reset();
    register_.reset();
  }
  std::string refusal(gpu_tier tier, std::uint32_t blocks = 64) {
    try {
      open_tier(tier, blocks);
    } catch (const backend_error& problem) {
      return problem.what();
    }
    return "it was made";
  }
  stores seen_;
  std::optional<test::store_watch> record_, register_;
};

TEST_F(direct_queue_test, made__without_data_in_completions_and_with_what_was_granted) {
  const auto queue = open_tier(gpu_tier::gpu_direct);
  const auto q = seen();
  EXPECT_EQ(q.create_flags, unsigned{MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE});
  EXPECT_EQ(q.send_ops, 0u);
  EXPECT_TRUE(q.is_connected);
  const wqe::send_queue& here = queue->here();
  EXPECT_EQ(here.ring.base, q.ring);
  EXPECT_EQ(here.ring.blocks, 64u);
  EXPECT_EQ(here.cq.base, q.completions);
  EXPECT_EQ(here.cq.count, 64u);
  EXPECT_EQ(here.cq.record, q.consumer);
  EXPECT_EQ(here.qpn, q.qpn);
  EXPECT_EQ(here.bell.record, q.record);
  EXPECT_EQ(here.bell.target, q.target);
  EXPECT_EQ(here.bell.buffer_size, q.half);
  EXPECT_EQ(here.bell.form, wqe::doorbell_form::eight_bytes);
  EXPECT_EQ(here.limits.max_inline, 220u);
  EXPECT_EQ(queue->address().qpn, q.qpn);
  EXPECT_EQ(wqe::check(here), wqe::status::ok);
}

TEST_F(direct_queue_test, gpu_direct__request_then_record_then_register) {
  const auto queue = open_tier(gpu_tier::gpu_direct);
  const auto q = seen();
  const prepared what = write_of(2);
  const bytes wanted = bytes_of(what, 0, q.qpn);
  watch(q);
  std::uint64_t end = 0;
  std::thread kernel([&] { EXPECT_EQ(wqe::post(queue->here(), of(what), &end), wqe::status::ok); });
  kernel.join();
  stop_watching();
  expect_in_order(seen_, wanted, 1);
  EXPECT_EQ(word_of(q.target), first_word_of(wanted));
  EXPECT_EQ(queue->progress_st(), 0u);
  // The keys of the region are those of the library.
  EXPECT_EQ(wqe::be32(*reinterpret_cast<const std::uint32_t*>(wanted.data() + 24)), region_->rkey);
  EXPECT_EQ(wqe::be32(*reinterpret_cast<const std::uint32_t*>(wanted.data() + 36)), region_->lkey);
}

// That the checks of the test above can fail.
TEST_F(direct_queue_test, watch__sees_the_wrong_order) {
  const auto queue = open_tier(gpu_tier::gpu_direct);
  const auto q = seen();
  const prepared what = write_of(1);
  const bytes wanted = bytes_of(what, 0, q.qpn);
  const auto store_register = [&] { *static_cast<std::uint64_t*>(q.target) = 1; };
  const auto store_record = [&] { q.record[wqe::SEND_RECORD] = wqe::work_record(1); };
  watch(q);
  store_register();
  store_record();
  stop_watching();
  for (const char* text : {"the record is not stored first", "the register is not stored last",
                           "before the request is there"})
    EXPECT_TRUE(test::must_fire([&] { expect_in_order(seen_, wanted, 1); }, text));
  watch(q);
  q.record[wqe::SEND_RECORD] = 0;
  store_register();
  stop_watching();
  EXPECT_TRUE(test::must_fire([&] { expect_in_order(seen_, wanted, 1); },
                              "the register says what the record lacks"));
}

TEST_F(direct_queue_test, gpu_direct__the_halves_of_the_register_take_turns) {
  for (const std::uint32_t half : {256u, 0u}) {
    test::fake_mlx5_config config;
    config.blueflame_half = half;
    maker().reset(config);
    const auto queue = open_tier(gpu_tier::gpu_direct);
    const auto q = seen();
    stand_in_card a_card(q);
    for (std::uint64_t i = 0; i < 5; ++i) {
      const prepared what = write_of(1);
      std::uint64_t end = 0;
      ASSERT_EQ(wqe::post(queue->here(), of(what), &end), wqe::status::ok);
      const auto* const at = static_cast<std::byte*>(q.target) + (i % 2) * half;
      EXPECT_EQ(word_of(at), first_word_of(bytes_of(what, i, q.qpn)));
      a_card.progress();
    }
  }
}

// Requests of one and of several blocks, over the ring's end many times; a card carries them out.
TEST_F(direct_queue_test, gpu_direct__rounds_of_the_ring_and_of_completions) {
  const auto queue = open_tier(gpu_tier::gpu_direct);
  const auto q = seen();
  stand_in_card a_card(q);
  std::uint64_t index = 0;
  bool has_wrapped = false;
  for (std::uint32_t i = 0; i < 300; ++i) {
    const prepared what = write_of(1 + i % 11);  // up to 4 blocks
    memory_[0] = static_cast<unsigned char>(i);
    std::uint64_t end = 0;
    ASSERT_EQ(wqe::post(queue->here(), of(what), &end), wqe::status::ok);
    const bytes wanted = bytes_of(what, index, q.qpn);
    for (std::size_t k = 0; k < wanted.size(); ++k) {
      const std::size_t at = (index * 64 + k) % (q.blocks * std::size_t{64});
      ASSERT_EQ(static_cast<unsigned char>(q.ring[at]), wanted[k]) << "request " << i << ", " << k;
    }
    has_wrapped |= index % q.blocks + (end - index) > q.blocks;
    EXPECT_EQ(q.record[wqe::SEND_RECORD], wqe::work_record(end));
    EXPECT_EQ(a_card.progress(), 1u);
    EXPECT_EQ(memory_[4096], memory_[0]);
    ASSERT_EQ(wqe::wait_until_done(queue->here(), end), wqe::status::ok);
    EXPECT_EQ(*q.consumer, wqe::consumer_record(i + 1));
    index = end;
  }
  EXPECT_TRUE(has_wrapped);
  EXPECT_GT(index, 4u * q.blocks);
}

TEST_F(direct_queue_test, gpu_direct__an_error_of_the_card_ends_the_queue_with_its_syndrome) {
  const auto queue = open_tier(gpu_tier::gpu_direct);
  stand_in_card a_card(seen());
  a_card.fails_with = wqe::syndrome::remote_access;
  std::uint64_t end = 0;
  ASSERT_EQ(wqe::post(queue->here(), of(write_of(1)), &end), wqe::status::ok);
  a_card.progress();
  EXPECT_EQ(wqe::wait_until_done(queue->here(), end), wqe::status::failed);
  EXPECT_EQ(queue->here().state->error.error, wqe::syndrome::remote_access);
}

// What the stand-in does not do must not look as if it were done.
TEST_F(direct_queue_test, stand_in__fails_what_it_does_not_carry_out) {
  for (const wqe::opcode op :
       {wqe::opcode::atomic_fa, wqe::opcode::atomic_cs, wqe::opcode::atomic_masked_fa,
        wqe::opcode::send_imm, wqe::opcode::rdma_write_imm}) {
    const auto queue = open_tier(gpu_tier::gpu_direct);
    stand_in_card a_card(seen());
    const prepared what = write_of(1);
    wqe::send_request r = of(what);
    r.op = op;
    std::uint64_t end = 0;
    ASSERT_EQ(wqe::post(queue->here(), r, &end), wqe::status::ok);
    EXPECT_EQ(a_card.progress(), 1u);
    EXPECT_EQ(wqe::wait_until_done(queue->here(), end), wqe::status::failed);
    EXPECT_EQ(queue->here().state->error.error, wqe::is_atomic(op)
                                                    ? wqe::syndrome::remote_access
                                                    : wqe::syndrome::local_qp_operation);
  }
}

TEST_F(direct_queue_test, cpu_rings__nothing_is_told_before_the_processor_does) {
  const auto queue = open_tier(gpu_tier::cpu_rings);
  const auto q = seen();
  EXPECT_EQ(queue->here().bell.form, wqe::doorbell_form::mailbox);
  EXPECT_EQ(queue->here().bell.record, nullptr);
  EXPECT_EQ(queue->progress_st(), 0u);
  const prepared what = write_of(1);
  std::uint64_t end = 0;
  std::thread kernel([&] {
    for (int i = 0; i < 3; ++i)
      EXPECT_EQ(wqe::post(queue->here(), of(what), &end), wqe::status::ok);
  });
  kernel.join();
  EXPECT_EQ(q.record[wqe::SEND_RECORD], 0u);
  EXPECT_EQ(word_of(q.target), 0u);
  const bytes wanted = bytes_of(what, 0, q.qpn);
  watch(q);
  EXPECT_EQ(queue->progress_st(), 3u);
  stop_watching();
  expect_in_order(seen_, wanted, 3);
  EXPECT_EQ(word_of(q.target), first_word_of(bytes_of(what, 2, q.qpn))) << "the last one's";
  EXPECT_EQ(queue->progress_st(), 0u) << "each is rung for once";
  stand_in_card a_card(q);
  EXPECT_EQ(a_card.progress(), 3u);
  EXPECT_EQ(wqe::wait_until_done(queue->here(), end), wqe::status::ok);
}

TEST_F(direct_queue_test, cpu_rings__a_mailbox_that_says_too_much_is_believed_for_a_ring) {
  const auto queue = open_tier(gpu_tier::cpu_rings);
  const auto q = seen();
  *static_cast<std::uint64_t*>(queue->here().bell.target) = ~std::uint64_t{0};
  EXPECT_EQ(queue->progress_st(), q.blocks) << "requests of no length count as a block";
  EXPECT_EQ(q.record[wqe::SEND_RECORD], wqe::work_record(q.blocks));
}

// Threads that post at once, a processor that rings, and a card: counts, no clock.
TEST_F(direct_queue_test, cpu_rings__many_threads) {
  constexpr std::uint64_t THREADS = 4, EACH = 500;
  const auto queue = open_tier(gpu_tier::cpu_rings);
  stand_in_card a_card(seen());
  const prepared what = write_of(5);
  std::atomic<std::uint64_t> running{THREADS};
  std::vector<std::thread> kernels;
  for (std::uint64_t t = 0; t < THREADS; ++t)
    kernels.emplace_back([&] {
      std::uint64_t end = 0;
      for (std::uint64_t i = 0; i < EACH; ++i)
        EXPECT_EQ(wqe::post(queue->here(), of(what), &end), wqe::status::ok);
      EXPECT_EQ(wqe::wait_until_done(queue->here(), end), wqe::status::ok);
      running.fetch_sub(1);
    });
  std::uint64_t rung = 0, done = 0;
  while (running.load() != 0) {
    const std::size_t moved = queue->progress_st();
    rung += moved;
    const std::size_t ended = a_card.progress();
    done += ended;
    if (moved + ended == 0) std::this_thread::yield();
  }
  for (std::thread& one : kernels) one.join();
  EXPECT_EQ(rung, THREADS * EACH);
  EXPECT_EQ(done, THREADS * EACH);
}

TEST_F(direct_queue_test, at_gpu__every_address_is_the_mapped_one) {
  for (const gpu_tier tier : {gpu_tier::gpu_direct, gpu_tier::cpu_rings}) {
    written_maps maps;
    {
      const auto queue = open_tier(tier, 64, &maps);
      const auto q = seen();
      const wqe::send_queue &here = queue->here(), &gpu = queue->at_gpu();
      EXPECT_EQ(gpu.ring.base, written_maps::at(here.ring.base));
      EXPECT_EQ(gpu.cq.base, written_maps::at(here.cq.base));
      EXPECT_EQ(gpu.cq.record, written_maps::at(here.cq.record));
      EXPECT_EQ(gpu.state, written_maps::at(here.state));
      EXPECT_EQ(gpu.bell.target, written_maps::at(here.bell.target));
      EXPECT_EQ(gpu.qpn, here.qpn);
      EXPECT_EQ(gpu.ring.blocks, here.ring.blocks);
      const bool is_direct = tier == gpu_tier::gpu_direct;
      EXPECT_EQ(gpu.bell.record, is_direct ? written_maps::at(here.bell.record) : nullptr);
      EXPECT_EQ(maps.mapped.count(q.target), is_direct ? 1u : 0u);
      if (is_direct) {
        EXPECT_TRUE(maps.mapped.find(q.target)->second.is_register);
        EXPECT_EQ(maps.mapped.find(q.target)->second.size, 2u * q.half);
      }
    }
    EXPECT_EQ(maps.mapped.size(), 0u);
    EXPECT_EQ(maps.wrong, 0) << "something is unmapped after the queue pair is gone";
  }
}

TEST_F(direct_queue_test, at_gpu__a_state_elsewhere_is_left_alone) {
  wqe::send_queue_state elsewhere;
  std::memset(static_cast<void*>(&elsewhere), 0x77, sizeof(elsewhere));
  tier_options options;
  options.blocks = 64;
  options.state = &elsewhere;
  const auto queue = gpu_tiers::open(port(), domain(), options);
  EXPECT_EQ(queue->here().state, &elsewhere);
  EXPECT_EQ(queue->at_gpu().state, &elsewhere);
  EXPECT_EQ(elsewhere.reserved, 0x7777777777777777u);
}

TEST_F(direct_queue_test, mapping_that_is_refused__leaves_nothing) {
  written_maps maps;
  maps.refuses_registers = true;
  EXPECT_TRUE(test::throws_with<backend_error>([&] { open_tier(gpu_tier::gpu_direct, 64, &maps); },
                                               {"no register for kernels"}));
  EXPECT_GT(maps.most, 0u);
  EXPECT_EQ(maps.mapped.size(), 0u);
  open_tier(gpu_tier::cpu_rings, 64, &maps);  // needs none
  EXPECT_EQ(maps.wrong, 0);
}

TEST_F(direct_queue_test, refused__each_call_and_each_shape_with_its_name) {
  for (const char* call :
       {"mlx5dv_create_cq", "mlx5dv_create_qp", "mlx5dv_init_obj", "ibv_modify_qp"}) {
    card().fail_nth(call, 1, EPERM);
    const std::string why = refusal(gpu_tier::cpu_rings);
    EXPECT_NE(why.find(call), std::string::npos) << why;
    EXPECT_NE(why.find("Operation not permitted"), std::string::npos) << why;
    card().reset_failures();
  }
  test::fake_mlx5_config config;
  config.stride = 128;
  maker().reset(config);
  EXPECT_NE(refusal(gpu_tier::gpu_direct).find("blocks of 128 bytes"), std::string::npos);
  config = {};
  config.completions_divided = 2;
  maker().reset(config);
  EXPECT_NE(refusal(gpu_tier::gpu_direct).find(wqe::text_of(wqe::status::too_few_completions)),
            std::string::npos);
  maker().reset({.is_mlx5 = false});
  EXPECT_NE(refusal(gpu_tier::gpu_direct).find("is not of an mlx5 card"), std::string::npos);
  maker().reset();
  for (const std::uint32_t blocks : {0u, 1u, 48u, 65536u})
    EXPECT_NE(refusal(gpu_tier::gpu_direct, blocks).find("a power of two"), std::string::npos);
  EXPECT_NE(refusal(gpu_tier::proxy).find("T3 CPU proxy is not one of a card"), std::string::npos);
  EXPECT_NE(refusal(gpu_tier::automatic).find("not one of a card"), std::string::npos);
}

}  // namespace
}  // namespace lci::ibv
