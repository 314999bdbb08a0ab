// Sizes that no memory has, and sizes beyond the registration that the caller names: refused by
// every operation that takes a size, with the value and how many bytes there are.
#include <functional>

#include "bad_input.hpp"

namespace interface_test {
namespace {

struct named_call {
  const char* name;
  std::function<void(std::size_t)> with;  // makes the call with this size
};

class bad_size : public bad_input {
 protected:
  // Every post, also as the general one, with `mr`.
  std::vector<named_call> posts(void* at, lci::mr_t mr) {
    const int to = world().next();
    const auto post = [mr](auto op) { op.device(world().device).mr(mr).allow_retry(false)(); };
    const auto general = [=, this](lci::direction_t direction, std::size_t size) {
      return lci::post_comm_x(direction, to, at, size, cq_);
    };
    using lci::direction_t;
    return {
        {"send", [=, this](std::size_t n) { post(lci::post_send_x(to, at, n, 1, cq_)); }},
        {"blocking send",
         [=](std::size_t n) { post(lci::post_send_x(to, at, n, 1, lci::COMP_NULL)); }},
        {"recv", [=, this](std::size_t n) { post(lci::post_recv_x(to, at, n, 1, cq_)); }},
        {"recv of any source",
         [=, this](std::size_t n) { post(lci::post_recv_x(lci::ANY_SOURCE, at, n, 1, cq_)); }},
        {"am", [=, this](std::size_t n) { post(lci::post_am_x(to, at, n, cq_, 9)); }},
        {"put",
         [=, this](std::size_t n) { post(lci::post_put_x(to, at, n, cq_, 0, there_.rmr(to))); }},
        {"get",
         [=, this](std::size_t n) { post(lci::post_get_x(to, at, n, cq_, 0, there_.rmr(to))); }},
        {"comm out", [=](std::size_t n) { post(general(direction_t::OUT, n)); }},
        {"comm in", [=](std::size_t n) { post(general(direction_t::IN, n)); }},
        {"comm put",
         [=, this](std::size_t n) { post(general(direction_t::OUT, n).rmr(there_.rmr(to))); }},
        {"comm get",
         [=, this](std::size_t n) { post(general(direction_t::IN, n).rmr(there_.rmr(to))); }},
    };
  }
  window there_{1 << 20};
};

const std::size_t NO_MEMORY_HAS[] = {SIZE_MAX, SIZE_MAX - 7, SIZE_MAX / 2, std::size_t{1} << 63,
                                     std::size_t{1} << 50};

TEST_F(bad_size, posts__beyond_the_address_space) {
  for (const lci::mr_t mr : {lci::MR_HOST, lci::MR_UNKNOWN}) {
    for (const named_call& call : posts(buffer_, mr)) {
      for (const std::size_t size : NO_MEMORY_HAS) {
        SCOPED_TRACE(call.name);
        refused([&] { call.with(size); }, {"size", std::to_string(size), "address space"});
      }
    }
  }
}

TEST_F(bad_size, posts__beyond_the_registration) {
  lci::mr_t mr = lci::register_memory_x(buffer_ + 8, 40).device(world().device)();
  const std::string registered = "40 bytes";
  // From its start, from its middle, from its end, before it, behind it.
  const struct {
    std::size_t at, size, fits;
  } wrong[] = {{8, 41, 40}, {8, SIZE_MAX, 40}, {28, 21, 20}, {48, 1, 0}, {0, 8, 0}, {56, 8, 0}};
  for (const auto& w : wrong) {
    for (const named_call& call : posts(buffer_ + w.at, mr)) {
      SCOPED_TRACE(call.name);
      refused([&] { call.with(w.size); },
              {"size", std::to_string(w.size), "mr", registered, std::to_string(w.fits)});
    }
  }
  lci::deregister_memory(&mr);
}

TEST_F(bad_size, posts__to_the_end_of_the_registration_are_legal) {
  const std::size_t size = sizeof buffer_;
  lci::mr_t mr = lci::register_memory_x(buffer_, size).device(world().device)();
  const int to = world().next();
  char got[sizeof buffer_] = {};
  lci::mr_t there = lci::register_memory_x(got, size).device(world().device)();
  barrier();
  lci::post_recv_x(world().previous(), got, size, 3, cq_)
      .device(world().device)
      .mr(there)
      .allow_done(false)();
  insist(lci::post_send_x(to, buffer_ + size, 0, 4, lci::COMP_NULL).device(world().device).mr(mr));
  insist(lci::post_send_x(to, buffer_, size, 3, lci::COMP_NULL).device(world().device).mr(mr));
  EXPECT_EQ(pop(cq_).size, size);
  lci::post_recv_x(world().previous(), got + size, 0, 4, cq_)
      .device(world().device)
      .mr(there)
      .allow_done(false)();
  EXPECT_EQ(pop(cq_).size, 0u);
  lci::deregister_memory(&mr);
  lci::deregister_memory(&there);
}

// A packet holds no more than its payload, wherever in it the buffer begins.
TEST_F(bad_size, posts__beyond_the_packet) {
  char* const packet = static_cast<char*>(lci::get_upacket());
  ASSERT_NE(packet, nullptr);
  const std::size_t most = world().bcopy + 100;
  for (const named_call& call : posts(packet, lci::MR_HOST)) {
    for (const std::size_t size :
         {most, most + 50000, std::size_t{1} << 20, std::size_t{1} << 34}) {
      SCOPED_TRACE(call.name);
      refused([&] { call.with(size); }, {"size", std::to_string(size), "packet", "bytes"});
    }
  }
  // Where the packet ends is not known from its middle, but where all of them do.
  for (const named_call& call : posts(packet + 64, lci::MR_HOST)) {
    SCOPED_TRACE(call.name);
    refused([&] { call.with(std::size_t{1} << 34); }, {"size", "packet"});
  }
  // It is still the program's.
  std::memset(packet, 1, world().bcopy);
  lci::put_upacket(packet);
}

TEST_F(bad_size, raw_posts__beyond_the_packet) {
  void* const packet = lci::get_upacket();
  const std::size_t size = world().bcopy + 100;
  const lci::rmr_t rmr = there_.rmr(world().next());
  const int to = world().next();
  const lci::device_t device = world().device;
  refused([&] { lci::net_post_send_x(to, packet, size, lci::MR_HOST).device(device)(); },
          {"size", std::to_string(size), "packet"});
  refused([&] { lci::net_post_put_x(to, packet, size, lci::MR_HOST, 0, rmr).device(device)(); },
          {"size", std::to_string(size), "packet"});
  refused([&] { lci::net_post_get_x(to, packet, size, lci::MR_HOST, 0, rmr).device(device)(); },
          {"size", std::to_string(size), "packet"});
  refused([&] { lci::net_post_recv_x(packet, size, lci::MR_HOST).device(device)(); },
          {"size", std::to_string(size), "packet"});
  lci::put_upacket(packet);
}

TEST_F(bad_size, registration__beyond_the_packet) {
  void* const packet = lci::get_upacket();
  const std::size_t size = world().bcopy + 100;
  refused([&] { lci::register_memory_x(packet, size).device(world().device)(); },
          {"size", std::to_string(size), "packet"});
  lci::put_upacket(packet);
}

// So few bytes that they would be taken from there at once.
TEST_F(bad_size, inlined_messages__beyond_the_address_space) {
  const std::size_t size = 8;
  for (const std::uintptr_t at : {~std::uintptr_t{7}, ~std::uintptr_t{3}, ~(SIZE_MAX >> 1) | 64}) {
    for (const named_call& call : posts(reinterpret_cast<void*>(at), lci::MR_HOST)) {
      SCOPED_TRACE(call.name);
      refused([&] { call.with(size); }, {"size", std::to_string(size), "address space"});
    }
    void* const nowhere = reinterpret_cast<void*>(at);
    refused([&] { lci::net_post_sends_x(world().next(), nowhere, size).device(world().device)(); },
            {"size", std::to_string(size), "address space"});
  }
}

// An address says nothing where no byte is meant.
TEST_F(bad_size, posts__of_nothing_at_any_address) {
  void* const nowhere = reinterpret_cast<void*>(~std::uintptr_t{0});
  insist(lci::post_send_x(world().next(), nowhere, 0, 3, lci::COMP_NULL).device(world().device));
  lci::post_recv_x(world().previous(), nowhere, 0, 3, cq_)
      .device(world().device)
      .allow_done(false)();
  EXPECT_EQ(pop(cq_).tag, 3u);
}

TEST_F(bad_size, registration__beyond_the_address_space) {
  for (const std::size_t size : NO_MEMORY_HAS)
    refused([&] { lci::register_memory_x(buffer_, size).device(world().device)(); },
            {"size", std::to_string(size), "address space"});
}

class bad_raw_size : public bad_size {
 protected:
  // What takes an mr.
  std::vector<named_call> long_forms(lci::mr_t mr) {
    const int to = world().next();
    const lci::device_t device = world().device;
    const lci::rmr_t rmr = there_.rmr(to);
    return {
        {"send",
         [=, this](std::size_t n) { lci::net_post_send_x(to, buffer_, n, mr).device(device)(); }},
        {"recv",
         [=, this](std::size_t n) { lci::net_post_recv_x(buffer_, n, mr).device(device)(); }},
        {"put",
         [=, this](std::size_t n) {
           lci::net_post_put_x(to, buffer_, n, mr, 0, rmr).device(device)();
         }},
        {"putImm",
         [=, this](std::size_t n) {
           lci::net_post_putImm_x(to, buffer_, n, mr, 0, rmr).device(device)();
         }},
        {"get", [=, this](std::size_t n) {
           lci::net_post_get_x(to, buffer_, n, mr, 0, rmr).device(device)();
         }}};
  }
  std::vector<named_call> short_forms() {
    const int to = world().next();
    const lci::device_t device = world().device;
    const lci::rmr_t rmr = there_.rmr(to);
    return {{"sends",
             [=, this](std::size_t n) { lci::net_post_sends_x(to, buffer_, n).device(device)(); }},
            {"puts",
             [=, this](std::size_t n) {
               lci::net_post_puts_x(to, buffer_, n, 0, rmr).device(device)();
             }},
            {"putImms", [=, this](std::size_t n) {
               lci::net_post_putImms_x(to, buffer_, n, 0, rmr).device(device)();
             }}};
  }
  // Everything on a peer's memory, at that distance from its start.
  struct remote_call {
    const char* name;
    std::function<lci::error_t(std::uint64_t)> at;
  };
  std::vector<remote_call> on_remote_memory(std::size_t size) {
    const int to = world().next();
    const lci::device_t device = world().device;
    const lci::rmr_t rmr = there_.rmr(to);
    const lci::mr_t host = lci::MR_HOST;
    return {{"put",
             [=, this](std::uint64_t at) {
               return lci::net_post_put_x(to, buffer_, size, host, at, rmr).device(device)();
             }},
            {"putImm",
             [=, this](std::uint64_t at) {
               return lci::net_post_putImm_x(to, buffer_, size, host, at, rmr).device(device)();
             }},
            {"puts",
             [=, this](std::uint64_t at) {
               return lci::net_post_puts_x(to, buffer_, size, at, rmr).device(device)();
             }},
            {"putImms",
             [=, this](std::uint64_t at) {
               return lci::net_post_putImms_x(to, buffer_, size, at, rmr).device(device)();
             }},
            {"get", [=, this](std::uint64_t at) {
               return lci::net_post_get_x(to, buffer_, size, host, at, rmr).device(device)();
             }}};
  }
};

TEST_F(bad_raw_size, posts__beyond_the_address_space_or_the_registration) {
  for (const std::size_t size : NO_MEMORY_HAS) {
    for (const named_call& call : long_forms(lci::MR_HOST)) {
      SCOPED_TRACE(call.name);
      refused([&] { call.with(size); }, {"size", std::to_string(size), "address space"});
    }
    for (const named_call& call : short_forms()) {
      SCOPED_TRACE(call.name);
      refused([&] { call.with(size); }, {"size", std::to_string(size)});
    }
  }
  lci::mr_t mr = lci::register_memory_x(buffer_, 8).device(world().device)();
  for (const named_call& call : long_forms(mr)) {
    SCOPED_TRACE(call.name);
    refused([&] { call.with(9); }, {"size", "9", "mr", "8 bytes"});
  }
  lci::deregister_memory(&mr);
}

TEST_F(bad_raw_size, posts__of_more_than_a_short_form_carries) {
  const std::size_t size = world().inject + 1;
  ASSERT_LE(size, sizeof buffer_ + 1);
  for (const named_call& call : short_forms()) {
    SCOPED_TRACE(call.name);
    refused([&] { call.with(size); }, {"size", std::to_string(size), "at most"});
  }
}

// Before the first contact nobody knows where the region ends; the answer is then retry.
TEST_F(bad_raw_size, posts__outside_of_the_remote_region) {
  const std::size_t size = 8, region = there_.bytes().size();
  for (const std::uint64_t at : {std::uint64_t{region}, std::uint64_t{region - 7},
                                 std::uint64_t{0} - 8, std::uint64_t{1} << 63}) {
    for (const remote_call& call : on_remote_memory(size)) {
      SCOPED_TRACE(call.name);
      refused(
          [&] {
            while (call.at(at).is_retry()) progress();
          },
          {"offset", std::to_string(at), "size 8", std::to_string(region)});
    }
  }
}

}  // namespace
}  // namespace interface_test
