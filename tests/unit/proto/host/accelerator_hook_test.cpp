// Without an accelerator there is nobody for its memory.
#include "lci/proto/host/accelerator_hook.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "lci/errors.hpp"
#include "lci/proto/host/select.hpp"
#include "tests/unit/proto/world.hpp"

using namespace lci::test;  // NOLINT: a test reads better without the prefix
namespace proto = lci::proto;

namespace {

struct host_world : proto_world {
  host_world() {
    for (auto& node : nodes) node->queues->host.accelerator = &proto::no_accelerator();
  }
};

}  // namespace

TEST(no_accelerator, messages_between_host_buffers__never_ask) {
  host_world w;
  for (const std::size_t size : {std::size_t{8}, std::size_t{3000}, LARGE}) {
    recorder sender, receiver;
    const auto data = pattern(size);
    std::vector<std::byte> from = data, to(size);
    lci::status_t got;
    w[1].receive(0, to.data(), size, 5, &receiver, got);
    auto out = w[0].outgoing(1, from.data(), size, w[1].engine_rcomp(), 5, &sender);
    proto::start_message(out);
    w.step();
    EXPECT_EQ(receiver.seen.size(), 1u) << size;
    EXPECT_EQ(to, data) << size;
  }
  EXPECT_TRUE(w.thrown.empty());
}

TEST(no_accelerator, message_from_its_memory__is_an_error_of_the_post) {
  host_world w;
  std::byte byte{};
  auto out = w[0].outgoing(1, &byte, 1, w[1].engine_rcomp(), 5);
  out.kind = lci::mem::mem_kind::device;
  EXPECT_THROW(proto::start_message(out), lci::backend_error);
}
