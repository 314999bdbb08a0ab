// Many threads and several devices at once: posts, progress, queues, packets and registrations from
// all of them.
#include <atomic>
#include <thread>

#include "world.hpp"

namespace interface_test {
namespace {

// Runs body(thread number) in all threads of the suite and waits for them; what a thread throws
// fails the test.
template <class Body>
void in_threads(Body body) {
  std::vector<std::thread> threads;
  for (int t = 0; t < world().threads; ++t)
    threads.emplace_back([&body, t] {
      try {
        body(t);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "thread " << t << ": " << error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  // What the threads left in the queues of their devices still has to leave.
  barrier_over(world().devices);
}

lci::device_t device_of(int thread) {
  const auto& devices = world().devices;
  return devices[static_cast<std::size_t>(thread) % devices.size()];
}

// Every thread talks to its twin on the next rank, on its own tag, all sizes mixed.
TEST(threads, send_and_receive__each_with_its_twin) {
  constexpr int ROUNDS = 40;
  in_threads([](int t) {
    const lci::device_t device = device_of(t);
    const auto tag = static_cast<lci::tag_t>(1000 + t);
    owned_comp cq(lci::alloc_cq());
    for (int round = 0; round < ROUNDS; ++round) {
      const std::size_t size =
          bytes(ALL_SIZES[static_cast<std::size_t>(round) % std::size(ALL_SIZES)]);
      const auto seed = [&](int rank) {
        return static_cast<std::uint64_t>(rank * 1000 + t * 100 + round);
      };
      std::vector<char> out = pattern(size, seed(world().rank)), in(size);
      int open = 0;
      const lci::status_t recv =
          lci::post_recv_x(world().previous(), in.data(), size, tag, cq).device(device)();
      open += recv.is_posted() ? 1 : 0;
      lci::status_t send;
      do {
        send = lci::post_send_x(world().next(), out.data(), size, tag, cq).device(device)();
        if (send.is_retry()) lci::progress_x().device(device)();
      } while (send.is_retry());
      open += send.is_posted() ? 1 : 0;
      while (open > 0) {
        lci::progress_x().device(device)();
        if (lci::cq_pop(cq).is_done()) --open;
      }
      ASSERT_EQ(difference(in.data(), size, seed(world().previous())), "")
          << "thread " << t << " round " << round;
    }
  });
}

// All threads send to all ranks and all take from one queue: every message arrives exactly once.
TEST(threads, active_messages__into_one_queue) {
  constexpr std::uint32_t EACH = 3000;
  inbox box(true);
  const auto threads = static_cast<std::uint32_t>(world().threads);
  const auto n = static_cast<std::uint32_t>(world().n);
  std::vector<std::atomic<int>> seen(n * threads * EACH);
  std::atomic<std::uint32_t> arrived{0};
  // Each rank gets EACH messages from every thread of every rank.
  const std::uint32_t expected = n * threads * EACH;
  in_threads([&](int t) {
    const lci::device_t device = device_of(t);
    std::uint32_t sent = 0;
    while (sent < EACH * n || arrived < expected) {
      if (sent < EACH * n) {
        const std::uint32_t number =
            (static_cast<std::uint32_t>(world().rank) * threads + static_cast<std::uint32_t>(t)) *
                EACH +
            sent / n;
        std::uint32_t words[16] = {number, ~number};
        const lci::status_t answer =
            lci::post_am_x(static_cast<int>(sent % n), words, 8 + number % 57, lci::COMP_NULL_RETRY,
                           box.rcomp())
                .device(device)();
        // A refused post needs progress: all threads may be refused at once.
        if (answer.is_done())
          ++sent;
        else
          lci::progress_x().device(device)();
      }
      if (sent % 8 == 0 || sent == EACH * n) lci::progress_x().device(device)();
      for (lci::status_t got = lci::cq_pop(box.cq()); got.is_done(); got = lci::cq_pop(box.cq())) {
        std::uint32_t words[2];
        std::memcpy(words, got.buffer, sizeof words);
        EXPECT_EQ(words[0], ~words[1]);
        EXPECT_EQ(got.size, 8 + words[0] % 57);
        ++seen.at(words[0]);
        ++arrived;
        lci::put_upacket(got.buffer);
      }
    }
  });
  for (const auto& count : seen) ASSERT_EQ(count, 1);
}

// Messages of one thread to one rank on one key stay in order whatever the other threads do.
TEST(threads, order__per_key_survives_contention) {
  constexpr int COUNT = 2000;
  in_threads([](int t) {
    const lci::device_t device = device_of(t);
    const auto tag = static_cast<lci::tag_t>(t);
    int sent = 0, received = 0;
    owned_comp cq(lci::alloc_cq());
    int value = -1;
    bool open = false;
    while (sent < COUNT || received < COUNT) {
      if (sent < COUNT &&
          lci::post_send_x(world().next(), &sent, sizeof sent, tag, lci::COMP_NULL_RETRY)
              .device(device)()
              .is_done())
        ++sent;
      if (received < COUNT && !open) {
        open = true;
        const lci::status_t answer =
            lci::post_recv_x(world().previous(), &value, sizeof value, tag, cq).device(device)();
        if (answer.is_done()) {
          ASSERT_EQ(value, received++);
          open = false;
        }
      }
      lci::progress_x().device(device)();
      if (open && lci::cq_pop(cq).is_done()) {
        ASSERT_EQ(value, received++);
        open = false;
      }
    }
  });
}

TEST(threads, put_and_get__each_in_its_own_part_of_one_window) {
  constexpr std::size_t PART = 30000;
  window memory(PART * static_cast<std::size_t>(world().threads));
  in_threads([&](int t) {
    const lci::device_t device = world().device;
    const auto at = PART * static_cast<std::size_t>(t);
    for (std::uint64_t round = 0; round < 20; ++round) {
      std::vector<char> out = pattern(PART, round * 100 + static_cast<std::uint64_t>(t)),
                        back(PART);
      lci::mr_t mr = lci::register_memory_x(out.data(), PART).device(device)();
      owned_comp put(lci::alloc_sync_x().threshold(1)());
      lci::status_t answer;
      do {
        answer =
            lci::post_put_x(world().next(), out.data(), PART, put, at, memory.rmr(world().next()))
                .device(device)
                .mr(mr)
                .comp_semantic(lci::comp_semantic_t::network)();
        if (answer.is_retry()) lci::progress_x().device(device)();
      } while (answer.is_retry());
      if (answer.is_posted()) lci::sync_wait_x(put, nullptr).device(device)();
      lci::post_get_x(world().next(), back.data(), PART, lci::COMP_NULL, at,
                      memory.rmr(world().next()))
          .device(device)();
      ASSERT_EQ(back, out) << "thread " << t << " round " << round;
      lci::deregister_memory(&mr);
    }
  });
}

TEST(threads, packets__taken_and_returned_by_different_threads) {
  std::atomic<void*> box{nullptr};
  std::atomic<int> moved{0};
  constexpr int COUNT = 5000;
  in_threads([&](int) {
    while (moved < COUNT) {
      void* const packet = lci::get_upacket();
      ASSERT_NE(packet, nullptr);
      std::memset(packet, 1, 64);
      void* const other = box.exchange(packet);
      if (other != nullptr) lci::put_upacket(other);
      ++moved;
    }
  });
  lci::put_upacket(box.load());
}

TEST(threads, short_lived__leave_nothing_behind) {
  inbox box;
  for (int round = 0; round < 20; ++round)
    in_threads([&](int) {
      std::uint64_t value = 1;
      lci::post_am_x(world().next(), &value, sizeof value, lci::COMP_NULL, box.rcomp())
          .device(world().device)();
    });
  int arrived = 0;
  wait_until([&] {
    const lci::status_t got = lci::cq_pop(box.cq());
    if (got.is_done()) {
      std::free(got.buffer);
      ++arrived;
    }
    return arrived == 20 * world().threads;
  });
  EXPECT_TRUE(stays_empty(box.cq()));
}

TEST(devices, alloc_and_free__in_turns_with_traffic) {
  for (int round = 0; round < 5; ++round) {
    lci::device_t a = lci::alloc_device(), b = lci::alloc_device();
    lci::endpoint_t extra = lci::alloc_endpoint_x().device(b)();
    EXPECT_NE(a.get_attr_uid(), b.get_attr_uid());
    EXPECT_FALSE(extra.is_empty());
    int values[2] = {}, out[2] = {round + 1, round + 2};
    owned_comp done(lci::alloc_counter());
    const auto receive = [&](int* value, lci::device_t device, lci::tag_t tag) {
      lci::post_recv_x(world().previous(), value, sizeof *value, tag, done)
          .device(device)
          .allow_done(false)();
    };
    receive(&values[0], a, 1);
    receive(&values[1], b, 2);
    lci::post_send_x(world().next(), &out[0], sizeof out[0], 1, lci::COMP_NULL).device(a)();
    lci::post_send_x(world().next(), &out[1], sizeof out[1], 2, lci::COMP_NULL)
        .device(b)
        .endpoint(extra)();
    while (lci::counter_get(done) < 2) {
      lci::progress_x().device(a)();
      lci::progress_x().device(b)();
    }
    EXPECT_EQ(values[0], round + 1);
    EXPECT_EQ(values[1], round + 2);
    barrier_over({a, b});
    lci::free_endpoint(&extra);
    lci::free_device(&a);
    lci::free_device(&b);
  }
}

// More devices, one after the other, than a network has numbers for.
TEST(devices, alloc_and_free__as_often_as_one_likes) {
  for (int round = 0; round < 70; ++round) {
    lci::device_t one = lci::alloc_device();
    int in = -1, out = round;
    lci::post_send_x(world().next(), &out, sizeof out, 3, lci::COMP_NULL).device(one)();
    lci::post_recv_x(world().previous(), &in, sizeof in, 3, lci::COMP_NULL).device(one)();
    EXPECT_EQ(in, round);
    barrier_over({one});
    lci::free_device(&one);
  }
}

// Matching belongs to the runtime: a receive posted with one device takes what arrives on another.
TEST(devices, receive__matches_across_devices) {
  lci::device_t a = lci::alloc_device(), b = lci::alloc_device();
  int value = 0, out = 77;
  owned_comp done(lci::alloc_counter());
  lci::post_recv_x(world().previous(), &value, sizeof value, 4, done).device(a).allow_done(false)();
  barrier();
  lci::post_send_x(world().next(), &out, sizeof out, 4, lci::COMP_NULL).device(b)();
  while (lci::counter_get(done) == 0) lci::progress_x().device(b)();
  EXPECT_EQ(value, 77);
  barrier_over({a, b});
  lci::free_device(&a);
  lci::free_device(&b);
}

TEST(devices, free__receives_that_wait_leave) {
  lci::device_t gone = lci::alloc_device();
  int old = 0, value = 0, out = 78;
  owned_comp never(lci::alloc_counter());
  lci::post_recv_x(world().previous(), &old, sizeof old, 5, never).device(gone).allow_done(false)();
  lci::free_device(&gone);
  barrier();
  lci::post_send(world().next(), &out, sizeof out, 5, lci::COMP_NULL);
  lci::post_recv(world().previous(), &value, sizeof value, 5, lci::COMP_NULL);
  EXPECT_EQ(value, 78);
  EXPECT_EQ(old, 0);
  EXPECT_EQ(lci::counter_get(never), 0u);
  barrier();
}

// Small, and in a packet: neither needs the device that it came by.
TEST(devices, free__what_has_arrived_can_still_be_received) {
  lci::device_t gone = lci::alloc_device();
  std::vector<int> small(2, 1), larger(500, 2);
  for (auto* each : {&small, &larger})
    lci::post_send_x(world().next(), each->data(), each->size() * sizeof(int),
                     static_cast<lci::tag_t>(each->size()), lci::COMP_NULL)
        .device(gone)();
  // Messages of one device stay in their order, so what was sent before has arrived with this one.
  int in = 0, out = 3;
  lci::post_send_x(world().next(), &out, sizeof out, 6, lci::COMP_NULL).device(gone)();
  lci::post_recv_x(world().previous(), &in, sizeof in, 6, lci::COMP_NULL).device(gone)();
  barrier_over({gone});
  lci::free_device(&gone);
  for (auto* each : {&small, &larger}) {
    std::vector<int> got(each->size());
    lci::post_recv(world().previous(), got.data(), got.size() * sizeof(int),
                   static_cast<lci::tag_t>(each->size()), lci::COMP_NULL);
    EXPECT_EQ(got, *each);
  }
  barrier();
}

// At any moment of it: the receive gets the message, or has left and the next one gets it.
TEST(devices, free__while_a_message_comes_over_another) {
  for (int round = 0; round < 30; ++round) {
    lci::device_t gone = lci::alloc_device();
    std::vector<int> out(std::size_t{1} << 18, round + 1), first(out.size()), second(out.size());
    const std::size_t size = out.size() * sizeof(int);
    owned_comp sent(lci::alloc_counter()), received(lci::alloc_counter());
    lci::post_recv_x(world().previous(), first.data(), size, 7, received)
        .device(gone)
        .allow_done(false)();
    lci::post_send_x(world().next(), out.data(), size, 7, sent).allow_done(false)();
    for (int i = 0; i < round; ++i) lci::progress();
    lci::free_device(&gone);
    const bool has_met = lci::counter_get(received) == 1;
    if (!has_met) lci::post_recv(world().previous(), second.data(), size, 7, lci::COMP_NULL);
    while (lci::counter_get(sent) == 0) lci::progress();
    EXPECT_EQ(has_met ? first : second, out);
    EXPECT_EQ(has_met ? second : first, std::vector<int>(out.size()));
    EXPECT_EQ(lci::counter_get(received), has_met ? 1u : 0u);
  }
  barrier();
}

}  // namespace
}  // namespace interface_test
