#include "backends/shm/device.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/unit/shm/pair.hpp"

namespace lci::shm {
namespace {

using test::op_with;

// Nobody waits for them: the owner of the device has given up.
TEST(device_end, amid_operations__the_next_device_tells_nobody_of_them) {
  net::fabric_config config;
  config.shm_single_copy = false;
  test::pair p(config);
  p.meet();
  std::string theirs(std::size_t{1} << 20, 't');
  const net::remote_key there = p.b.expose(theirs.data(), theirs.size());
  p.a.say(1, "x");  // its lane is there, so a short get goes by it
  p.until([&] { return p.b.seen.messages.size() == 1; });
  auto large = std::make_unique<std::string>(theirs.size(), 'l');
  auto late = std::make_unique<std::string>(theirs.size(), 'f');
  auto got = std::make_unique<std::string>(theirs.size(), 'g');
  auto few = std::make_unique<std::string>(8, 's');
  ASSERT_EQ(p.a.out->get(op_with(1, *few, there, few.get())), errorcode_t::posted);
  ASSERT_EQ(p.a.out->get(op_with(1, *got, there, got.get())), errorcode_t::posted);
  ASSERT_EQ(p.a.out->put(op_with(1, *large, there, large.get())), errorcode_t::posted);
  net::net_op behind = op_with(1, *late, there, late.get());
  behind.fence = true;
  ASSERT_EQ(p.a.out->put(behind), errorcode_t::posted);
  for (int i = 0; i < 10; ++i) p.a.poll();
  p.a.out.reset();
  p.a.dev.reset();
  for (auto* one : {&large, &late, &got, &few}) one->reset();
  p.a.dev = p.a.net->make_device(0);
  p.a.out = p.a.dev->make_endpoint();
  EXPECT_TRUE(p.a.dev->is_drained());
  p.until([&] {
    return p.a.net->connections().chunks().outstanding() == 0 && !p.a.behind().flow.is_busy();
  });
  EXPECT_TRUE(p.a.seen.completed.empty());
  EXPECT_TRUE(p.a.seen.errors.empty());
  EXPECT_EQ(p.a.regions.live(), 0u) << "nobody may write to what was for a get";
  EXPECT_EQ(theirs.find('f'), std::string::npos) << "nothing is read of what had not started";
  std::string again(theirs.size(), 'n');
  ASSERT_EQ(p.a.out->put(op_with(1, again, there, &again)), errorcode_t::posted);
  p.until([&] { return p.a.dev->is_drained(); });
  EXPECT_EQ(p.a.seen.completed, std::vector<void*>{&again});
  EXPECT_EQ(theirs, again);
}

}  // namespace
}  // namespace lci::shm
