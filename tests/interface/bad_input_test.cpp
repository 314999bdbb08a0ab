// Wrong arguments, one test per row of docs/errors.md: a typed error whose text has the value and
// what would be legal, thrown by the call that made the mistake; and afterwards nothing is lost or
// changed, which every test proves by sending a message.
#include <cstring>

#include "bad_input.hpp"

namespace interface_test {
namespace {

TEST_F(bad_input, rank__beyond_the_last) {
  window memory(64);
  for (const int rank : {world().n, 1 << 30, -2}) {
    const std::string value = std::to_string(rank);
    refused([&] { lci::post_send_x(rank, buffer_, 8, 1, cq_).device(world().device)(); },
            {value, last_rank()});
    refused([&] { lci::post_recv_x(rank, buffer_, 8, 1, cq_).device(world().device)(); },
            {value, last_rank()});
    refused([&] { lci::post_am_x(rank, buffer_, 8, cq_, 9).device(world().device)(); },
            {value, last_rank()});
    refused(
        [&] { lci::post_put_x(rank, buffer_, 8, cq_, 0, memory.rmr(0)).device(world().device)(); },
        {value, last_rank()});
    refused(
        [&] { lci::post_get_x(rank, buffer_, 8, cq_, 0, memory.rmr(0)).device(world().device)(); },
        {value, last_rank()});
  }
}

TEST_F(bad_input, rank__any_source_for_an_outgoing_operation) {
  refused([&] { lci::post_send_x(lci::ANY_SOURCE, buffer_, 8, 1, cq_).device(world().device)(); },
          {"-1", last_rank()});
}

TEST_F(bad_input, buffer__null_with_a_size) {
  window memory(64);
  const int to = world().next();
  refused([&] { lci::post_send_x(to, nullptr, 8, 1, cq_).device(world().device)(); },
          {"null", "8"});
  refused([&] { lci::post_recv_x(to, nullptr, 8, 1, cq_).device(world().device)(); },
          {"null", "8"});
  refused([&] { lci::post_am_x(to, nullptr, 8, cq_, 9).device(world().device)(); }, {"null", "8"});
  refused([&] { lci::post_put_x(to, nullptr, 8, cq_, 0, memory.rmr(to)).device(world().device)(); },
          {"null", "8"});
  refused([&] { lci::post_get_x(to, nullptr, 8, cq_, 0, memory.rmr(to)).device(world().device)(); },
          {"null", "8"});
  refused([&] { lci::register_memory_x(nullptr, 8).device(world().device)(); }, {"null", "8"});
}

TEST_F(bad_input, remote_comp__zero_for_an_active_message) {
  refused([&] { lci::post_am_x(world().next(), buffer_, 8, cq_, 0).device(world().device)(); },
          {"remote_comp", "0"});
}

// The sender cannot know the number, so the target's progress tells; the message is dropped.
TEST_F(bad_input, remote_comp__unknown_number) {
  constexpr lci::rcomp_t UNKNOWN = 31000;
  lci::post_am_x(world().rank, buffer_, 8, lci::COMP_NULL, UNKNOWN).device(world().device)();
  refused(
      [] {
        for (int i = 0; i < 100000; ++i) progress();
      },
      {std::to_string(UNKNOWN), std::to_string(world().rank)});
}

TEST_F(bad_input, remote_comp__deregistered_number) {
  lci::comp_t counter = lci::alloc_counter();
  const lci::rcomp_t rcomp = lci::register_rcomp(counter);
  lci::deregister_rcomp(rcomp);
  lci::post_am_x(world().rank, buffer_, 8, lci::COMP_NULL, rcomp).device(world().device)();
  refused(
      [] {
        for (int i = 0; i < 100000; ++i) progress();
      },
      {std::to_string(rcomp)});
  EXPECT_EQ(lci::counter_get(counter), 0);
  lci::free_comp(&counter);
  refused([&] { lci::deregister_rcomp(rcomp); }, {std::to_string(rcomp)});
}

TEST_F(bad_input, answers__none_left) {
  refused(
      [&] {
        lci::post_send_x(world().next(), buffer_, 8, 1, cq_)
            .device(world().device)
            .allow_done(false)
            .allow_posted(false)();
      },
      {"allow_done", "allow_posted"});
}

TEST_F(bad_input, rmr__empty) {
  const int to = world().next();
  refused([&] { lci::post_put_x(to, buffer_, 8, cq_, 0, lci::RMR_NULL).device(world().device)(); },
          {"rmr"});
  refused([&] { lci::post_get_x(to, buffer_, 8, cq_, 0, lci::RMR_NULL).device(world().device)(); },
          {"rmr"});
}

TEST_F(bad_input, rmr__of_a_region_that_has_ended) {
  const int to = world().next();
  lci::rmr_t stale;
  {
    window memory(64);
    stale = memory.rmr(to);
    // Contact is made and the key is known before it ends, and nothing is under way any more.
    lci::post_put_x(to, buffer_, 8, lci::COMP_NULL, 0, stale)
        .device(world().device)
        .comp_semantic(lci::comp_semantic_t::network)();
  }
  barrier();
  const std::string rank = std::to_string(to);
  refused(
      [&] {
        lci::post_put_x(to, buffer_, 8, cq_, 0, stale).device(world().device).allow_retry(false)();
      },
      {"rmr", rank});
  refused(
      [&] {
        lci::post_get_x(to, buffer_, 8, cq_, 0, stale).device(world().device).allow_retry(false)();
      },
      {"rmr", rank});
}

TEST_F(bad_input, rmr__that_was_never_given_out) {
  const int to = world().next();
  window memory(64);
  lci::rmr_t forged = memory.rmr(to);
  forged.opaque_rkey ^= 0x123400000000ull;
  refused(
      [&] {
        lci::post_put_x(to, buffer_, 8, cq_, 0, forged).device(world().device).allow_retry(false)();
      },
      {"rmr"});
  forged = memory.rmr(to);
  forged.opaque_rkey |= 0xfffffff0ull;
  refused(
      [&] {
        lci::post_get_x(to, buffer_, 8, cq_, 0, forged).device(world().device).allow_retry(false)();
      },
      {"rmr"});
}

// Also where the changed name is that of another region, since there are many.
TEST_F(bad_input, rmr__changed_in_any_bit_or_of_another_rank) {
  const int to = world().next();
  window memory(64), same_size(64);
  std::vector<lci::mr_t> again;  // the same memory under other names
  for (int i = 0; i < 64; ++i)
    again.push_back(lci::register_memory_x(memory.bytes().data(), 64).device(world().device)());
  barrier();
  int accepted = 0;
  const auto try_name = [&](const lci::rmr_t& name) {
    try {
      lci::post_put_x(to, buffer_, 8, lci::COMP_NULL, 0, name).device(world().device)();
      ++accepted;
    } catch (const lci::argument_error&) {
    }
  };
  for (std::size_t bit = 0; bit < 8 * sizeof(lci::rmr_t); ++bit) {
    unsigned char bytes[sizeof(lci::rmr_t)];
    lci::rmr_t name = memory.rmr(to);
    std::memcpy(bytes, &name, sizeof name);
    bytes[bit / 8] = static_cast<unsigned char>(bytes[bit / 8] ^ 1u << bit % 8);
    std::memcpy(static_cast<void*>(&name), bytes, sizeof name);
    try_name(name);
  }
  for (std::uint64_t slot = 1; slot < 200; ++slot)
    for (std::uint64_t generation = 1; generation < 4; ++generation) {
      lci::rmr_t name = memory.rmr(to);
      name.mr_base = name.base;
      name.opaque_rkey = generation << 32 | slot;
      try_name(name);
    }
  lci::rmr_t mixed = memory.rmr(to);
  mixed.base = same_size.rmr(to).base;
  try_name(mixed);
  if (world().n > 1) try_name(memory.rmr(world().rank));
  EXPECT_EQ(accepted, 0);
  barrier();
  for (lci::mr_t& one : again) lci::deregister_memory(&one);
}

TEST_F(bad_input, put_and_get__beyond_the_region) {
  const int to = world().next();
  window memory(64);
  const struct {
    std::uintptr_t disp;
    std::size_t size;
  } wrong[] = {{60, 8}, {64, 1}, {65, 0}, {~std::uintptr_t{0}, 8}, {~std::uintptr_t{0} - 3, 8}};
  for (const auto& w : wrong) {
    const std::string disp = std::to_string(w.disp), size = std::to_string(w.size);
    refused(
        [&] {
          lci::post_put_x(to, buffer_, w.size, cq_, w.disp, memory.rmr(to))
              .device(world().device)
              .allow_retry(false)();
        },
        {disp, size, "64"});
    refused(
        [&] {
          lci::post_get_x(to, buffer_, w.size, cq_, w.disp, memory.rmr(to))
              .device(world().device)
              .allow_retry(false)();
        },
        {disp, size, "64"});
  }
  barrier();
  EXPECT_EQ(std::string(memory.bytes().begin(), memory.bytes().end()), std::string(64, '\0'));
}

TEST_F(bad_input, put__tag_or_number_too_wide_for_the_notification) {
  const int to = world().next();
  window memory(64);
  const std::uint64_t tag = lci::get_g_runtime().get_attr_max_imm_tag() + 1;
  const std::uint64_t number = lci::get_g_runtime().get_attr_max_imm_rcomp() + 1;
  refused(
      [&] {
        lci::post_put_x(to, buffer_, 8, cq_, 0, memory.rmr(to))
            .device(world().device)
            .tag(tag)
            .remote_comp(9)();
      },
      {std::to_string(tag), std::to_string(tag - 1)});
  refused(
      [&] {
        lci::post_put_x(to, buffer_, 8, cq_, 0, memory.rmr(to))
            .device(world().device)
            .remote_comp(static_cast<lci::rcomp_t>(number))();
      },
      {std::to_string(number), std::to_string(number - 1)});
}

TEST_F(bad_input, get__with_a_notification) {
  const int to = world().next();
  window memory(64);
  refused(
      [&] {
        lci::post_get_x(to, buffer_, 8, cq_, 0, memory.rmr(to))
            .device(world().device)
            .remote_comp(9)();
      },
      {"remote_comp", "9"});
}

TEST_F(bad_input, policy__that_is_none) {
  const auto wrong = static_cast<lci::matching_policy_t>(7);
  refused(
      [&] {
        lci::post_send_x(world().next(), buffer_, 8, 1, cq_)
            .device(world().device)
            .matching_policy(wrong)();
      },
      {"matching_policy", "7"});
  refused(
      [&] {
        lci::post_recv_x(world().next(), buffer_, 8, 1, cq_)
            .device(world().device)
            .matching_policy(wrong)();
      },
      {"matching_policy", "7"});
}

TEST_F(bad_input, handles__that_were_freed) {
  lci::device_t device = lci::alloc_device(), stale_device = device;
  lci::free_device(&device);
  lci::matching_engine_t engine = lci::alloc_matching_engine(), stale_engine = engine;
  lci::free_matching_engine(&engine);
  lci::comp_t comp = lci::alloc_counter(), stale_comp = comp;
  lci::free_comp(&comp);
  lci::mr_t mr = lci::register_memory_x(buffer_, 8).device(world().device)(), stale_mr = mr;
  lci::deregister_memory(&mr);
  lci::packet_pool_t pool = lci::alloc_packet_pool_x().npackets(1)(), stale_pool = pool;
  lci::free_packet_pool(&pool);
  const int to = world().next();
  refused([&] { lci::post_send_x(to, buffer_, 8, 1, cq_).device(stale_device)(); },
          {"device", "freed"});
  refused([&] { lci::progress_x().device(stale_device)(); }, {"device", "freed"});
  refused([&] { (void)stale_device.get_attr_uid(); }, {"device", "freed"});
  refused(
      [&] {
        lci::post_send_x(to, buffer_, 8, 1, cq_)
            .device(world().device)
            .matching_engine(stale_engine)();
      },
      {"matching_engine", "freed"});
  refused([&] { lci::counter_get(stale_comp); }, {"comp", "freed"});
  refused([&] { lci::get_rmr(stale_mr); }, {"mr", "freed"});
  refused([&] { lci::deregister_memory(&stale_mr); }, {"mr", "freed"});
  refused([&] { lci::get_upacket_x().packet_pool(stale_pool)(); }, {"packet_pool", "freed"});
  refused([&] { lci::free_device(&stale_device); }, {"device", "freed"});
}

TEST_F(bad_input, completion__freed_object_as_target_of_a_post) {
  lci::comp_t comp = lci::alloc_counter(), stale = comp;
  lci::free_comp(&comp);
  refused(
      [&] {
        lci::post_send_x(world().next(), buffer_, 8, 1, stale)
            .device(world().device)
            .allow_done(false)();
      },
      {"comp", "freed"});
}

TEST_F(bad_input, handles__that_are_empty) {
  EXPECT_THROW(lci::get_rmr(lci::MR_HOST), std::runtime_error);
  EXPECT_THROW(lci::get_rmr(lci::MR_DEVICE), std::runtime_error);
  EXPECT_THROW(lci::cq_pop(lci::COMP_NULL), std::runtime_error);
  EXPECT_THROW(lci::counter_get(lci::COMP_NULL_RETRY), std::runtime_error);
  EXPECT_THROW((void)lci::device_t().get_attr_uid(), std::runtime_error);
  lci::device_t none;
  EXPECT_THROW(lci::free_device(&none), std::runtime_error);
  EXPECT_THROW(lci::free_device(nullptr), std::runtime_error);
}

TEST_F(bad_input, rcomp__that_was_not_reserved_or_is_taken) {
  owned_comp counter(lci::alloc_counter());
  refused([&] { lci::register_rcomp_x(counter).rcomp(30000)(); }, {"30000"});
  refused([&] { lci::register_rcomp_x(counter).rcomp(1)(); }, {"1"});
  const lci::rcomp_t taken = lci::register_rcomp(counter);
  refused([&] { lci::register_rcomp_x(counter).rcomp(taken)(); }, {std::to_string(taken)});
  lci::deregister_rcomp(taken);
}

TEST_F(bad_input, allocator__null) {
  lci::allocator_base_t* const before = lci::get_allocator();
  refused([] { lci::set_allocator(nullptr); }, {"allocator", "null"});
  EXPECT_EQ(lci::get_allocator(), before);
}

TEST_F(bad_input, collectives__root_and_buffers) {
  const std::string n = std::to_string(world().n);
  refused([&] { lci::broadcast_x(buffer_, 8, world().n).device(world().device)(); },
          {n, last_rank()});
  refused([&] { lci::broadcast_x(nullptr, 8, 0).device(world().device)(); }, {"null", "8"});
  refused([&] { lci::allgather_x(buffer_, nullptr, 8).device(world().device)(); }, {"null", "8"});
}

// What a program that was written for GPUs does where there is none. Once a process a line says so.
TEST(no_gpu, memory_said_to_be_of_one__is_host_memory) {
  const std::vector<char> out = pattern(20'000, 5);
  std::vector<char> in(out.size());
  testing::internal::CaptureStderr();
  for (const std::size_t size : {std::size_t{8}, std::size_t{2000}, out.size()}) {
    const owned_comp received(lci::alloc_counter());
    lci::post_recv_x(world().rank, in.data(), size, 1, received)
        .device(world().device)
        .mr(lci::MR_DEVICE)
        .allow_done(false)();
    lci::post_send_x(world().rank, const_cast<char*>(out.data()), size, 1, lci::COMP_NULL)
        .device(world().device)
        .mr(lci::MR_DEVICE)();
    wait_until([&] { return lci::counter_get(received) == 1; });
    EXPECT_EQ(difference(in.data(), size, 5), "");
  }
  // Raw posts know of it, too. A device of their own: these and progress do not go together.
  lci::device_t raw = lci::alloc_device();
  std::uint64_t value = 7, got = 0;
  lci::net_post_recv_x(&got, sizeof got, lci::MR_DEVICE).device(raw)();
  wait_until([&] {
    lci::net_poll_cq_x(1, nullptr).device(raw)();
    return !lci::net_post_send_x(world().rank, &value, sizeof value, lci::MR_DEVICE)
                .device(raw)()
                .is_retry();
  });
  wait_until([&] {
    lci::net_poll_cq_x(1, nullptr).device(raw)();
    return got == 7;
  });
  barrier();
  lci::free_device(&raw);
  const std::string said = testing::internal::GetCapturedStderr();
  const std::size_t first = said.find("MR_DEVICE");
  EXPECT_NE(first, std::string::npos) << said;
  EXPECT_EQ(said.find("MR_DEVICE", first + 1), std::string::npos) << said;
}

TEST_F(bad_input, settings__out_of_range) {
  refused([] { lci::alloc_packet_pool_x().packet_size(16)(); }, {"packet_size", "16"});
  refused([] { lci::alloc_runtime_x().imm_nbits_tag(20).imm_nbits_rcomp(20)(); }, {"20", "31"});
}

}  // namespace
}  // namespace interface_test
