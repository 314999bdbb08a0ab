// Matching with GPU buffers: who comes first, order, wildcards, messages that do not fit, many at a
// time.
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "tests/accelerator/interface/common.hpp"
#include "tests/support/sizes.hpp"

namespace accelerator_test {
namespace {

using lci::test::KIB, lci::test::MIB;

lci::mr_t mr_kind_of(place where) { return unregistered(where, handle::kind); }

template <class Slot>
void send(int to, const Slot& at, lci::tag_t tag, lci::comp_t comp, place where) {
  post(lci::post_send_x(to, at->get(), at->size(), tag, comp)
           .mr(mr_kind_of(where))
           .device(world().device));
}
template <class Slot>
void recv(int from, const Slot& at, lci::tag_t tag, lci::comp_t comp, place where) {
  post(lci::post_recv_x(from, at->get(), at->size(), tag, comp)
           .mr(mr_kind_of(where))
           .device(world().device));
}
std::unique_ptr<guarded> make(place where, std::size_t size) {
  return std::make_unique<guarded>(where, size);
}

// From and to, where at least one is a GPU.
constexpr std::pair<place, place> WAYS[] = {{place::host, place::device},
                                            {place::device, place::host},
                                            {place::device, place::device},
                                            {place::vmm, place::pool}};

void one_each(int next, int before, bool recv_first) {
  for (const auto& [source, sink] : WAYS) {
    for (const std::size_t size : {std::size_t{8}, world().bcopy, 64 * KIB, 3 * MIB}) {
      const std::uint64_t use = next_use();
      guarded out(source, size), in(sink, size);
      out->fill(seed_of(world().rank, use));
      in->clear(seed_of(before, use));
      const owned_comp sent(lci::alloc_counter()), received(lci::alloc_counter());
      if (recv_first) recv(before, in, use, received, sink);
      barrier();
      send(next, out, use, sent, source);
      // What was sent has come as far as it can without a receive.
      barrier();
      linger();
      EXPECT_EQ(recv_first || lci::counter_get(received) == 0, true);
      if (!recv_first) recv(before, in, use, received, sink);
      wait_until([&] { return lci::counter_get(received) + lci::counter_get(sent) == 2; });
      EXPECT_EQ(in->check(seed_of(before, use)), "")
          << size << " bytes, " << name_of(source) << " to " << name_of(sink);
    }
  }
}

TEST(matching, recv_before_send) { one_each(world().next(), world().previous(), true); }
TEST(matching, unexpected__waits_for_its_recv) {
  one_each(world().next(), world().previous(), false);
}
TEST(matching, to_myself) {
  one_each(world().rank, world().rank, true);
  one_each(world().rank, world().rank, false);
}

TEST(matching, any_source_and_any_tag) {
  for (const auto& [source, sink] : WAYS) {
    for (const std::size_t size : {std::size_t{100}, 64 * KIB}) {
      const std::uint64_t use = next_use();
      guarded out(source, size), first(sink, size), second(sink, size);
      out->fill(seed_of(world().rank, use));
      first->clear(seed_of(world().previous(), use));
      second->clear(seed_of(world().previous(), use));
      const owned_comp sent(lci::alloc_counter()), received(lci::alloc_cq());
      recv(lci::ANY_SOURCE, first, use, received, sink);
      send(world().next(), out, use, sent, source);
      lci::status_t status = pop(received);
      EXPECT_EQ(status.rank, world().previous());
      EXPECT_EQ(status.size, size);
      EXPECT_EQ(first->check(seed_of(world().previous(), use)), "");
      recv(lci::ANY_SOURCE, second, lci::ANY_TAG, received, sink);
      send(world().next(), out, use + 1'000'000, sent, source);
      status = pop(received);
      EXPECT_EQ(status.tag, use + 1'000'000);
      EXPECT_EQ(second->check(seed_of(world().previous(), use)), "");
      wait_until([&] { return lci::counter_get(sent) == 2; });
    }
  }
}

// 20 messages of one tag, host and GPU in turns and of very different sizes, stay in order.
void in_order(bool recv_first) {
  constexpr std::size_t COUNT = 20;
  constexpr std::size_t SIZES[] = {8, 300 * KIB, 1, 5000, 64 * KIB, 0, 100};
  const std::uint64_t use = next_use();
  const auto seed = [&](int rank, std::size_t i) { return seed_of(rank, use * 32 + i); };
  std::vector<std::unique_ptr<guarded>> out, in;
  const auto source = [](std::size_t i) { return i % 2 == 0 ? place::host : place::device; };
  const auto sink = [](std::size_t i) { return i % 3 == 0 ? place::host : place::device; };
  for (std::size_t i = 0; i < COUNT; ++i) {
    out.push_back(make(source(i), SIZES[i % std::size(SIZES)]));
    in.push_back(make(sink(i), 300 * KIB));
    (*out[i])->fill(seed(world().rank, i));
    (*in[i])->clear(seed(world().previous(), i));
  }
  const owned_comp sent(lci::alloc_counter()), received(lci::alloc_cq());
  const auto recv_all = [&] {
    for (std::size_t i = 0; i < COUNT; ++i)
      post(lci::post_recv_x(world().previous(), (*in[i])->get(), 300 * KIB, use, received)
               .mr(mr_kind_of(sink(i)))
               .user_context(in[i].get()));
  };
  if (recv_first) recv_all();
  barrier();
  for (std::size_t i = 0; i < COUNT; ++i) send(world().next(), *out[i], use, sent, source(i));
  if (!recv_first) {
    linger();
    recv_all();
  }
  std::vector<std::size_t> arrived(COUNT, ~std::size_t{0});
  for (std::size_t n = 0; n < COUNT; ++n) {
    const lci::status_t status = pop(received);
    for (std::size_t i = 0; i < COUNT; ++i) {
      if (status.user_context == in[i].get()) arrived[i] = status.size;
    }
  }
  for (std::size_t i = 0; i < COUNT; ++i) {
    EXPECT_EQ(arrived[i], SIZES[i % std::size(SIZES)]) << "message " << i << " of one tag";
    EXPECT_EQ((*in[i])->check(seed(world().previous(), i), SIZES[i % std::size(SIZES)]), "") << i;
  }
  wait_until([&] { return lci::counter_get(sent) == COUNT; });
}

TEST(matching, one_tag__order_of_host_and_gpu_messages) { in_order(true); }
TEST(matching, one_tag__order_of_unexpected_messages) { in_order(false); }

TEST(matching, many_at_a_time) {
  constexpr std::size_t COUNT = 64;
  const std::uint64_t use = next_use();
  const auto seed = [&](int rank, std::size_t i) { return seed_of(rank, use * 64 + i); };
  block out(place::device, COUNT * 2 * KIB), in(place::device, COUNT * 2 * KIB);
  std::vector<slot> from, to;
  for (std::size_t i = 0; i < COUNT; ++i) {
    from.emplace_back(out, i * 2 * KIB + 512, KIB);
    to.emplace_back(in, i * 2 * KIB + 512, KIB);
    from[i].fill(seed(world().rank, i));
    to[i].clear(seed(world().previous(), i));
  }
  const owned_comp sent(lci::alloc_counter()), received(lci::alloc_counter());
  for (std::size_t i = 0; i < COUNT; ++i) {
    const slot* const at = &to[i];
    recv(world().previous(), at, use * 64 + i, received, place::device);
  }
  for (std::size_t i = 0; i < COUNT; ++i) {
    const slot* const at = &from[i];
    send(world().next(), at, use * 64 + i, sent, place::device);
  }
  wait_until(
      [&] { return lci::counter_get(received) == COUNT && lci::counter_get(sent) == COUNT; });
  for (std::size_t i = 0; i < COUNT; ++i)
    EXPECT_EQ(to[i].check(seed(world().previous(), i)), "") << i;
}

// Each thread sends and receives with a tag of its own and makes progress, so that receives meet
// messages, and offers claims, in every interleaving. Half of the receives wait before the messages
// come. Order is kept for each thread.
TEST(matching, threads_with_a_tag_each) {
  constexpr std::size_t THREADS = 3, COUNT = 16, KINDS = 4;
  const std::uint64_t use = next_use();
  const auto seed = [&](int rank, std::size_t i) { return seed_of(rank, use * 64 + i); };
  const auto where = [](std::size_t i) { return i % KINDS == 3 ? place::host : place::device; };
  std::vector<std::unique_ptr<guarded>> out, in;
  for (std::size_t i = 0; i < THREADS * COUNT; ++i) {
    out.push_back(make(where(i), 1000 + 10 * i));
    in.push_back(make(where(i / 3), 1000 + 10 * i));
    (*out[i])->fill(seed(world().rank, i));
    (*in[i])->clear(seed(world().previous(), i));
  }
  const owned_comp done(lci::alloc_counter());
  barrier();
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < THREADS; ++t)
    threads.emplace_back([&, t] {
      const std::uint64_t tag = use * 64 + t;
      for (std::size_t k = 0; k < 2 * COUNT; ++k) {
        // Receives run ahead of sends by four.
        if (k < COUNT)
          recv(world().previous(), *in[t * COUNT + k], tag, done, where((t * COUNT + k) / 3));
        if (k >= 4 && k < COUNT + 4)
          send(world().next(), *out[t * COUNT + k - 4], tag, done, where(t * COUNT + k - 4));
        for (int i = 0; i < 20; ++i) lci::progress_x().device(world().device)();
      }
    });
  for (std::thread& each : threads) each.join();
  wait_until([&] { return lci::counter_get(done) == 2 * THREADS * COUNT; });
  for (std::size_t i = 0; i < in.size(); ++i)
    EXPECT_EQ((*in[i])->check(seed(world().previous(), i)), "") << i;
}

// A message that does not fit ends its receive, writes nothing, and waits for the next one.
void truncated(place source, place sink, std::size_t size) {
  const std::uint64_t use = next_use();
  const int before = world().previous();
  guarded out(source, size), small(sink, 100), large(sink, size);
  out->fill(seed_of(world().rank, use));
  small->clear(seed_of(before, use));
  large->clear(seed_of(before, use));
  const owned_comp sent(lci::alloc_counter()), never(lci::alloc_counter());
  const owned_comp received(lci::alloc_counter());
  send(world().next(), out, use, sent, source);
  std::string text;
  try {
    lci::post_recv_x first(before, small->get(), 100, use, never);
    first.mr(mr_kind_of(sink)).allow_done(false)();
    wait_until([] { return false; });  // the watchdog ends this if nobody complains
  } catch (const lci::truncation_error& error) {
    text = error.what();
  }
  EXPECT_NE(text, "");
  recv(before, large, use, received, sink);
  wait_until([&] { return lci::counter_get(received) == 1; });
  EXPECT_EQ(small->check(seed_of(before, use), 0), "");
  EXPECT_EQ(large->check(seed_of(before, use)), "");
  EXPECT_EQ(lci::counter_get(never), 0);
  wait_until([&] { return lci::counter_get(sent) == 1; });
}

TEST(matching, too_large__throws_and_later_messages_arrive) {
  for (const auto& [source, sink] : WAYS) {
    for (const std::size_t size : {std::size_t{101}, 4 * KIB, 64 * KIB}) {
      SCOPED_TRACE(std::string(name_of(source)) + " to " + name_of(sink) + ", " +
                   std::to_string(size));
      truncated(source, sink, size);
      barrier();
    }
  }
}

}  // namespace
}  // namespace accelerator_test
