// Communication that kernels start, over the proxy: threads of the process in the place of kernels.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "kernel_threads.hpp"

namespace interface_test {
namespace {

using lci::gpu::status;

class gpu_proxy : public testing::TestWithParam<lci::attr_gpu_proxy_t> {};

std::uint64_t word_in(window& memory, std::size_t offset) {
  return reinterpret_cast<const std::atomic<std::uint64_t>*>(memory.bytes().data() + offset)
      ->load();
}
const std::uint64_t* word_at(window& memory, std::size_t offset) {
  return reinterpret_cast<const std::uint64_t*>(memory.bytes().data() + offset);
}

// Endpoint, memory, key, kernel, post, poll, verify: the shape of every program.
TEST_P(gpu_proxy, eight_steps__bytes_arrive) {
  constexpr std::size_t SIZE = 1024;
  window memory(2 * SIZE + 8);
  thread_endpoint ep(GetParam());
  std::memset(memory.bytes().data(), 42, SIZE);
  barrier();
  const int to = world().next();
  const lci::gpu::place_t from = own_place(ep, memory.mr());
  const lci::gpu::place_t there = peer_place(ep, memory.rmr(to), to, SIZE);
  const lci::gpu::place_t flag = peer_place(ep, memory.rmr(to), to, 2 * SIZE);
  run_kernel([&] {
    EXPECT_EQ(lci::gpu::put_signal(ep, to, there, from, SIZE, flag, 7), status::ok);
    EXPECT_EQ(lci::gpu::quiet(ep, to), status::ok);
    EXPECT_EQ(lci::gpu::wait_until(ep, word_at(memory, 2 * SIZE), lci::gpu::comparison::equal, 7,
                                   world().previous()),
              status::ok);
  });
  for (std::size_t i = 0; i < SIZE; ++i) ASSERT_EQ(memory.bytes()[SIZE + i], 42) << i;
  barrier();
}

// Keys without a mapping, so that every access takes a request, also to this rank.
TEST_P(gpu_proxy, put_signal_and_get__each_signal_finds_its_data) {
  constexpr std::size_t MOST = 100000;
  window memory(3 * MOST + 64);
  char* const bytes = memory.bytes().data();
  thread_endpoint ep(GetParam());
  const lci::gpu::key_t own = lci::get_gpu_key(memory.mr());
  const std::size_t flag = 3 * MOST / 8 * 8;
  const int to = world().next();
  const lci::gpu::key_t there = lci::get_gpu_key(memory.rmr(to));
  EXPECT_EQ(there.length, lci::gpu::UNKNOWN_LENGTH);
  EXPECT_EQ(own.mapped, 0u);
  std::uint64_t turn = 0;
  for (const std::size_t size : {std::size_t{1}, std::size_t{8}, std::size_t{220}, std::size_t{221},
                                 std::size_t{5000}, MOST}) {
    ++turn;
    const std::vector<char> out = pattern(size, turn + static_cast<std::uint64_t>(world().rank));
    std::copy(out.begin(), out.end(), bytes);
    run_kernel([&] {
      EXPECT_EQ(lci::gpu::put_signal(ep, to, {there, MOST}, {own, 0}, size, {there, flag}, turn),
                status::ok);
      EXPECT_EQ(lci::gpu::wait_until(ep, word_at(memory, flag), lci::gpu::comparison::equal, turn),
                status::ok);
      EXPECT_EQ(
          difference(bytes + MOST, size, turn + static_cast<std::uint64_t>(world().previous())),
          "");
      EXPECT_EQ(lci::gpu::get(ep, to, {own, 2 * MOST}, {there, MOST}, size), status::ok);
      EXPECT_EQ(lci::gpu::quiet(ep, to), status::ok);
      EXPECT_EQ(difference(bytes + 2 * MOST, size, turn + static_cast<std::uint64_t>(world().rank)),
                "");
    });
    barrier();
  }
}

// Values have no order, but the signal behind them comes last: to this rank and to the next.
TEST_P(gpu_proxy, values__are_there_when_the_signal_behind_them_is) {
  constexpr std::uint64_t VALUES = 200, ROUNDS = 20, FLAG = 8 * VALUES;
  window memory(2 * (FLAG + 8));
  std::memset(memory.bytes().data(), 0, memory.bytes().size());
  thread_endpoint ep(GetParam());
  barrier();
  const std::uint64_t half = FLAG + 8;
  const int me = world().rank, next = world().next();
  const lci::gpu::key_t own = lci::get_gpu_key(memory.rmr(me));
  const lci::gpu::key_t there = lci::get_gpu_key(memory.rmr(next));
  std::uint64_t wrong = 0;
  run_kernel([&] {
    for (std::uint64_t round = 1; round <= ROUNDS; ++round) {
      for (std::uint64_t i = 0; i < VALUES; ++i) {
        EXPECT_EQ(lci::gpu::put_value(ep, me, {own, 8 * i}, round), status::ok);
        EXPECT_EQ(lci::gpu::put_value(ep, next, {there, half + 8 * i}, round), status::ok);
      }
      EXPECT_EQ(lci::gpu::signal(ep, me, {own, FLAG}, round), status::ok);
      EXPECT_EQ(lci::gpu::signal(ep, next, {there, half + FLAG}, round), status::ok);
      for (const std::uint64_t begin : {std::uint64_t{0}, half}) {
        EXPECT_EQ(lci::gpu::wait_until(ep, word_at(memory, begin + FLAG),
                                       lci::gpu::comparison::greater_equal, round),
                  status::ok);
        // A neighbour may be further by now.
        for (std::uint64_t i = 0; i < VALUES; ++i) wrong += word_in(memory, begin + 8 * i) < round;
      }
    }
    EXPECT_EQ(lci::gpu::quiet(ep), status::ok);
  });
  EXPECT_EQ(wrong, 0u);
  barrier();
}

// As an owner may that has seen the signal.
TEST_P(gpu_proxy, quiet__of_puts_to_a_region_that_its_owner_has_ended) {
  std::vector<std::uint64_t> words(8);
  lci::mr_t region = lci::register_memory(words.data(), 64);
  const lci::rmr_t mine = lci::get_rmr(region);
  std::vector<lci::rmr_t> all(static_cast<std::size_t>(world().n));
  lci::allgather(&mine, all.data(), sizeof(mine));
  window source(8);
  thread_endpoint ep(GetParam());
  const lci::gpu::key_t own = lci::get_gpu_key(source.mr());
  const int to = world().next();
  const lci::gpu::key_t there = lci::get_gpu_key(all[static_cast<std::size_t>(to)]);
  run_kernel([&] {
    EXPECT_EQ(lci::gpu::put_signal(ep, to, {there, 0}, {own, 0}, 8, {there, 8}, 1), status::ok);
    EXPECT_EQ(lci::gpu::wait_until(ep, words.data() + 1, lci::gpu::comparison::equal, 1),
              status::ok);
  });
  lci::deregister_memory(&region);
  barrier();
  barrier();  // the first one may overtake what says that the region has ended
  run_kernel([&] { EXPECT_EQ(lci::gpu::quiet(ep, to), status::ok); });
  barrier();
}

TEST_P(gpu_proxy, atomics__all_are_counted) {
  window memory(64);
  std::memset(memory.bytes().data(), 0, 64);
  thread_endpoint ep(GetParam());
  barrier();
  constexpr std::uint64_t TIMES = 25;
  std::atomic<int> odd{0};
  for (const bool is_mapped : {true, false}) {
    run_kernel(3, [&](int) {
      for (int to = 0; to < world().n; ++to) {
        const lci::gpu::key_t key =
            is_mapped ? peer_place(ep, memory.rmr(to), to).key : lci::get_gpu_key(memory.rmr(to));
        std::uint64_t before = 0;
        for (std::uint64_t i = 0; i < TIMES; ++i) {
          std::uint64_t old = 0;
          if (lci::gpu::fetch_add(ep, to, {key, 0}, std::uint64_t{1}, &old) != status::ok ||
              (i != 0 && old <= before))
            odd.fetch_add(1);
          before = old;
          if (lci::gpu::add(ep, to, {key, 8}, std::uint64_t{2}) != status::ok) odd.fetch_add(1);
        }
        EXPECT_EQ(lci::gpu::quiet(ep, to), status::ok);
      }
    });
    barrier();
    const auto ranks = static_cast<std::uint64_t>(world().n);
    EXPECT_EQ(word_in(memory, 0), (is_mapped ? 1 : 2) * 3 * TIMES * ranks);
    EXPECT_EQ(word_in(memory, 8), (is_mapped ? 1 : 2) * 6 * TIMES * ranks);
    barrier();
  }
  EXPECT_EQ(odd.load(), 0);
}

TEST_P(gpu_proxy, sends__hosts_receive_them) {
  constexpr std::size_t LONG = 200000;
  window memory(LONG);
  thread_endpoint ep(GetParam());
  const int to = world().next(), of = world().previous();
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{8}, std::size_t{180}, std::size_t{181}, LONG}) {
    const std::vector<char> out = pattern(size, size + static_cast<std::uint64_t>(world().rank));
    std::copy(out.begin(), out.end(), memory.bytes().begin());
    barrier();
    run_kernel([&] {
      EXPECT_EQ(lci::gpu::send(ep, to, own_place(ep, memory.mr()), size, 5), status::ok);
    });
    std::vector<char> in(size);
    owned_comp got(lci::alloc_cq());
    lci::status_t status = lci::post_recv_x(of, in.data(), size, 5, got).device(world().device)();
    if (status.is_posted()) status = pop(got);
    EXPECT_EQ(status.size, size);
    EXPECT_EQ(status.rank, of);
    EXPECT_EQ(difference(in.data(), size, size + static_cast<std::uint64_t>(of)), "");
    run_kernel([&] { EXPECT_EQ(lci::gpu::quiet(ep, to), status::ok); });
    barrier();
  }
}

TEST_P(gpu_proxy, ams__hosts_and_kernels_get_them_in_order) {
  constexpr std::uint64_t COUNT = 300;
  window memory(512);
  thread_endpoint ep(GetParam());
  inbox box;
  lci::gpu::queue_t queue = lci::alloc_gpu_queue_x(ep).capacity(16).message_size(200)();
  const lci::rcomp_t to_queue = lci::register_rcomp(lci::get_gpu_queue_comp(queue));
  barrier();
  const int to = world().next(), of = world().previous();
  const lci::rcomp_t to_box = box.rcomp();
  std::atomic<std::uint64_t> wrong{0};
  run_kernel(2, [&](int which) {
    if (which == 0) {
      for (std::uint64_t i = 0; i < COUNT; ++i) {
        EXPECT_EQ(lci::gpu::am_value(ep, to, i, to_queue, i + 1), status::ok);
        EXPECT_EQ(lci::gpu::am_value(ep, to, i, to_box, i + 2), status::ok);
      }
      EXPECT_EQ(lci::gpu::quiet(ep, to), status::ok);
    } else {
      for (std::uint64_t i = 0; i < COUNT; ++i) {
        std::uint64_t got = 0;
        lci::gpu::message_t what;
        EXPECT_EQ(lci::gpu::wait(queue, &got, sizeof got, &what), status::ok);
        if (got != i || what.tag != i + 1 || what.rank != of || what.size != 8) wrong.fetch_add(1);
      }
    }
  });
  EXPECT_EQ(wrong.load(), 0u);
  for (std::uint64_t i = 0; i < COUNT; ++i) {
    const lci::status_t got = pop(box.cq());
    ASSERT_EQ(got.size, sizeof(i));
    EXPECT_EQ(std::memcmp(got.buffer, &i, sizeof i), 0);
    EXPECT_EQ(got.tag, i + 2);
    lci::get_allocator()->deallocate(got.buffer);
  }
  barrier();
  lci::deregister_rcomp(to_queue);
  lci::free_gpu_queue(&queue);
}

TEST_P(gpu_proxy, receive_of_a_kernel__gets_what_hosts_and_kernels_send) {
  constexpr std::size_t LONG = 100000;
  window memory(2 * LONG);
  thread_endpoint ep(GetParam());
  const int to = world().next(), of = world().previous();
  for (const std::size_t size : {std::size_t{0}, std::size_t{8}, LONG}) {
    for (const bool by_kernel : {false, true}) {
      const std::vector<char> out = pattern(size, 9 + static_cast<std::uint64_t>(world().rank));
      std::copy(out.begin(), out.end(), memory.bytes().begin());
      barrier();
      lci::gpu::ticket_t ticket;
      run_kernel([&] {
        EXPECT_EQ(lci::gpu::recv(ep, by_kernel ? of : lci::gpu::ANY_RANK,
                                 own_place(ep, memory.mr(), LONG), size, 77, &ticket),
                  status::ok);
        if (by_kernel) {
          EXPECT_EQ(lci::gpu::send(ep, to, own_place(ep, memory.mr()), size, 77), status::ok);
        }
      });
      owned_comp sent(lci::alloc_cq());
      lci::status_t answer;
      answer.set_done();
      if (!by_kernel)
        answer = insist(
            lci::post_send_x(to, memory.bytes().data(), size, 77, sent).device(world().device));
      lci::gpu::message_t got;
      run_kernel([&] { EXPECT_EQ(lci::gpu::wait_receive(ep, ticket, &got), status::ok); });
      EXPECT_EQ(got.rank, of);
      EXPECT_EQ(got.size, size);
      EXPECT_EQ(got.tag, 77u);
      EXPECT_EQ(difference(memory.bytes().data() + LONG, size, 9 + static_cast<std::uint64_t>(of)),
                "");
      if (answer.is_posted()) pop(sent);
      run_kernel([&] { EXPECT_EQ(lci::gpu::quiet(ep), status::ok); });
      barrier();
    }
  }
}

// Its buffer is the program's again: a message that comes later is for somebody else.
TEST_P(gpu_proxy, receive_of_a_kernel__is_taken_back_with_its_endpoint) {
  window memory(64);
  std::memset(memory.bytes().data(), 0, 64);
  const int me = world().rank;
  lci::gpu::ticket_t ticket;
  {
    thread_endpoint ep(GetParam());
    run_kernel([&] {
      EXPECT_EQ(lci::gpu::recv(ep, me, own_place(ep, memory.mr()), 8, 91, &ticket), status::ok);
      EXPECT_EQ(lci::gpu::recv(ep, lci::gpu::ANY_RANK, own_place(ep, memory.mr()), 8, 92, &ticket),
                status::ok);
    });
  }
  const std::uint64_t out = 12345;
  for (const lci::tag_t tag : {lci::tag_t{91}, lci::tag_t{92}}) {
    std::uint64_t in = 0;
    insist(lci::post_send_x(me, const_cast<std::uint64_t*>(&out), 8, tag, lci::COMP_NULL)
               .device(world().device));
    owned_comp got(lci::alloc_cq());
    lci::status_t said = lci::post_recv_x(me, &in, 8, tag, got).device(world().device)();
    if (said.is_posted()) said = pop(got);
    EXPECT_EQ(in, out);
  }
  EXPECT_EQ(word_in(memory, 0), 0u);
  barrier();
}

// A message longer than its receive ends it, and waits for one that is long enough.
TEST_P(gpu_proxy, receive_that_is_too_short__says_so) {
  window memory(64);
  thread_endpoint ep(GetParam());
  const int me = world().rank;
  const auto kernel = [&] {
    lci::gpu::ticket_t small, large;
    EXPECT_EQ(lci::gpu::recv(ep, me, own_place(ep, memory.mr()), 4, 3, &small), status::ok);
    EXPECT_EQ(lci::gpu::send_value(ep, me, std::uint64_t{12345}, 3), status::ok);
    EXPECT_EQ(lci::gpu::recv(ep, me, own_place(ep, memory.mr(), 8), 8, 3, &large), status::ok);
    EXPECT_EQ(lci::gpu::quiet(ep), status::ok);
    EXPECT_EQ(lci::gpu::wait_receive(ep, small), status::too_long);
    EXPECT_EQ(lci::gpu::wait_receive(ep, large), status::ok);
  };
  // The thread of the proxy may tell it after the kernel has ended.
  const auto until_told = [&] {
    run_kernel(kernel);
    for (;;) progress();
  };
  EXPECT_THROW(until_told(), lci::truncation_error);
  EXPECT_EQ(word_in(memory, 8), 12345u);
  barrier();
}

// Any number of threads post to a ring that is much shorter than what they post, of as many
// messages as LCI_TEST_GPU_STORM says.
TEST_P(gpu_proxy, many_threads__none_lost_none_doubled_and_in_order) {
  constexpr int THREADS = 8;
  const char* const wanted = std::getenv("LCI_TEST_GPU_STORM");
  const std::uint64_t each = (wanted != nullptr   ? std::strtoull(wanted, nullptr, 10)
                              : world().long_mode ? 800'000
                                                  : 2000) /
                             THREADS;
  struct item {
    std::uint64_t thread, number;
    unsigned char rest[160];
  };
  thread_endpoint ep(GetParam(), 1024);
  lci::gpu::queue_t queue = lci::alloc_gpu_queue_x(ep).capacity(1024).message_size(sizeof(item))();
  const lci::rcomp_t rcomp = lci::register_rcomp(lci::get_gpu_queue_comp(queue));
  window memory(64);
  std::memset(memory.bytes().data(), 0, 64);
  barrier();
  const int to = world().next();
  const lci::gpu::place_t counter = peer_place(ep, memory.rmr(to), to);
  std::atomic<int> failures{0};
  std::uint64_t next[THREADS] = {};
  run_kernel(THREADS + 1, [&](int which) {
    if (which < THREADS) {
      item out{static_cast<std::uint64_t>(which), 0, {}};
      for (; out.number < each; ++out.number) {
        // Of one block to four.
        status s;
        if (out.number % 2 == 0) {
          s = lci::gpu::am_value(ep, to, out, rcomp, 0);
        } else {
          const std::uint64_t two[2] = {out.thread, out.number};
          struct pair {
            std::uint64_t a, b;
          };
          s = lci::gpu::am_value(ep, to, pair{two[0], two[1]}, rcomp, 0);
        }
        if (s != status::ok) failures.fetch_add(1);
        if (out.number % 16 == 0 && lci::gpu::add(ep, to, counter, std::uint64_t{1}) != status::ok)
          failures.fetch_add(1);
      }
      if (lci::gpu::quiet(ep, to) != status::ok) failures.fetch_add(1);
    } else {
      for (std::uint64_t i = 0; i < THREADS * each; ++i) {
        item in{};
        lci::gpu::message_t what;
        if (lci::gpu::wait(queue, &in, sizeof in, &what) != status::ok || in.thread >= THREADS ||
            in.number != next[in.thread]++ || what.size != (in.number % 2 == 0 ? sizeof(item) : 16))
          failures.fetch_add(1);
      }
    }
  });
  EXPECT_EQ(failures.load(), 0);
  for (const std::uint64_t count : next) EXPECT_EQ(count, each);
  barrier();
  EXPECT_EQ(word_in(memory, 0), THREADS * ((each + 15) / 16));
  lci::deregister_rcomp(rcomp);
  lci::free_gpu_queue(&queue);
  barrier();
}

INSTANTIATE_TEST_SUITE_P(by, gpu_proxy,
                         testing::Values(lci::attr_gpu_proxy_t::progress,
                                         lci::attr_gpu_proxy_t::thread),
                         proxy_name);

}  // namespace
}  // namespace interface_test
