// What a handler may wait for that is as deep inside of others as they may be: everything but
// another handler. And whatever runs code of the program counts as one.
#include <functional>
#include <stdexcept>

#include "deepest.hpp"

namespace interface_test {
namespace {

TEST(nested_waits, at_the_greatest_depth__everything_but_handlers_goes_on) {
  waiting_handler others;
  inbox box;
  window memory(4096);
  owned_comp counter(lci::alloc_counter()), sync(lci::alloc_sync_x().threshold(1)()),
      sent(lci::alloc_sync_x().threshold(1)());
  const int to = world().next(), from = world().previous();
  deepest here([&] {
    others.send();
    for (const std::size_t size : {std::size_t{8}, world().bcopy, std::size_t{1} << 18}) {
      std::vector<char> out = pattern(size, size), in(size);
      lci::post_recv_x(from, in.data(), size, 3, sync).device(world().device).allow_done(false)();
      lci::post_send_x(to, out.data(), size, 3, lci::COMP_NULL).device(world().device)();
      lci::sync_wait_x(sync, nullptr).device(world().device)();
      EXPECT_EQ(difference(in.data(), size, size), "");
      lci::post_am_x(to, out.data(), size, lci::COMP_NULL, box.rcomp()).device(world().device)();
      const lci::status_t got = pop(box.cq());
      EXPECT_EQ(difference(got.buffer, size, size), "");
      std::free(got.buffer);
    }
    std::vector<char> out = pattern(2048, 9), in(2048);
    lci::post_put_x(to, out.data(), 2048, lci::COMP_NULL, 0, memory.rmr(to))
        .remote_comp(box.rcomp())
        .device(world().device)();
    pop(box.cq());
    EXPECT_EQ(difference(memory.bytes().data(), 2048, 9), "");
    lci::post_get_x(world().rank, in.data(), 2048, sent, 0, memory.rmr(world().rank))
        .device(world().device)
        .allow_done(false)();
    lci::sync_wait_x(sent, nullptr).device(world().device)();
    EXPECT_EQ(difference(in.data(), 2048, 9), "");
    lci::post_recv_x(from, in.data(), 1, 4, counter).device(world().device).allow_done(false)();
    lci::post_send_x(to, out.data(), 1, 4, lci::COMP_NULL).device(world().device)();
    wait_until([&] { return lci::counter_get(counter) == 1; });
    barrier();
    EXPECT_EQ(others.handled, 0) << "too deep";
  });
  wait_until([&] { return others.handled == 1; });
}

// What only a handler can bring that waits for this one.
TEST(nested_waits, at_the_greatest_depth__for_another_handler_is_an_error) {
  static lci::comp_t sync;
  owned_comp made(lci::alloc_sync_x().threshold(1)());
  sync = made;
  owned_comp handler(lci::alloc_handler([](lci::status_t status) {
    std::free(status.buffer);
    static char byte;
    lci::comp_signal(sync, lci::status_t(&byte));
    lci::post_send_x(world().rank, &byte, 1, 8, lci::COMP_NULL).device(world().device)();
  }));
  const lci::rcomp_t rcomp = lci::register_rcomp(handler);
  char byte = 0;
  deepest here([&] {
    lci::post_am_x(world().rank, &byte, 1, lci::COMP_NULL, rcomp).device(world().device)();
    const auto expect_refused = [](const char* who, const std::function<void()>& wait) {
      const std::string text = text_thrown<lci::handler_depth_error>(wait);
      EXPECT_NE(text.find("max_handler_depth"), std::string::npos) << who << ": " << text;
      EXPECT_EQ(text.find("another type"), std::string::npos) << text;
    };
    expect_refused("sync_wait", [] { lci::sync_wait_x(sync, nullptr).device(world().device)(); });
    expect_refused("post_recv", [&] {
      lci::post_recv_x(world().rank, &byte, 1, 8, lci::COMP_NULL).device(world().device)();
    });
  });
  lci::sync_wait_x(sync, nullptr).device(world().device)();
  lci::post_recv_x(world().rank, &byte, 1, 8, lci::COMP_NULL).device(world().device)();
  lci::deregister_rcomp(rcomp);
}

// The completion of an operation is a handler, which has to wait: the device is not drained.
TEST(nested_waits, wait_drained__for_a_completion_that_is_a_handler_is_an_error) {
  static int completed;
  completed = 0;
  owned_comp done(lci::alloc_handler([](lci::status_t) { ++completed; }));
  deepest here([&] {
    char byte = 0;
    const lci::status_t answer = lci::post_send_x(world().rank, &byte, 1, 5, done)
                                     .device(world().device)
                                     .allow_done(false)();
    EXPECT_TRUE(answer.is_posted());
    EXPECT_EQ(completed, 0) << "a handler that a post runs is one deeper than the post";
    EXPECT_NE(text_thrown<lci::handler_depth_error>([] {
                lci::wait_drained_x().device(world().device)();
              }).find("max_handler_depth"),
              std::string::npos);
    lci::post_recv_x(world().rank, &byte, 1, 5, lci::COMP_NULL).device(world().device)();
  });
  lci::wait_drained_x().device(world().device)();
  EXPECT_EQ(completed, 1);
  barrier();
}

TEST(nested_waits, exceptions__reach_progress_once_each) {
  static int handled;
  handled = 0;
  owned_comp handler(lci::alloc_handler([](lci::status_t status) {
    std::free(status.buffer);
    ++handled;
    throw std::runtime_error("from a handler that had to wait");
  }));
  const lci::rcomp_t rcomp = lci::register_rcomp(handler);
  constexpr int COUNT = 20;
  deepest here([&] {
    char byte = 0;
    for (int i = 0; i < COUNT; ++i)
      lci::post_am_x(world().rank, &byte, 1, lci::COMP_NULL_RETRY, rcomp)
          .device(world().device)
          .allow_retry(false)();
    linger();
    EXPECT_EQ(handled, 0);
    lci::post_am_x(world().rank, &byte, 1, lci::COMP_NULL_RETRY, 1u << 20)
        .device(world().device)
        .allow_retry(false)();
    EXPECT_NE(text_thrown<lci::argument_error>([] {
                wait_until([] { return false; });
              }).find("not registered"),
              std::string::npos)
        << "what is no handler is told of at every depth";
  });
  std::vector<std::string> problems = here.problems();
  while (problems.size() < COUNT)
    problems.push_back(text_thrown<std::runtime_error>([] { wait_until([] { return false; }); }));
  for (const std::string& text : problems) EXPECT_EQ(text, "from a handler that had to wait");
  EXPECT_EQ(handled, COUNT);
  linger();
  lci::deregister_rcomp(rcomp);
}

}  // namespace
}  // namespace interface_test
