#include "lci/proxy/keys.hpp"

#include "tests/unit/proxy/proxied_job.hpp"

namespace lci::proxy {
namespace {

class keys_test : public testing::Test {
 protected:
  keys_test() { mr_ = register_memory_x(words_, sizeof(words_)).runtime(job_.handle())(); }
  ~keys_test() override {
    if (!mr_.is_empty()) deregister_memory(&mr_);
  }
  std::uint64_t words_[8] = {};
  test::proxied_job job_;
  mr_t mr_;
  keys& all_ = job_.side().all_keys;
};

TEST_F(keys_test, of__a_region_has_one_until_it_ends) {
  const std::uint32_t key = get_gpu_key(mr_).key;
  EXPECT_EQ(get_gpu_key(mr_).key, key);
  const auto found = all_.find(key);
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->is_host);
  EXPECT_EQ(found->rank, 0);
  EXPECT_EQ(found->base, reinterpret_cast<std::uintptr_t>(words_));
  EXPECT_NE(all_.own().resolve(key, found->base, 64, device::WRITE | device::REMOTE_ATOMIC),
            nullptr);
  EXPECT_EQ(all_.own().resolve(key, found->base + 1, 64, device::READ), nullptr);
  deregister_memory(&mr_);
  EXPECT_FALSE(all_.find(key));
  EXPECT_EQ(all_.own().resolve(key, found->base, 8, device::READ), nullptr);
}

TEST_F(keys_test, of__a_peers_region_per_owner) {
  const rmr_t rmr = get_rmr(mr_);
  int one = 0, other = 0;
  const std::uint32_t key = all_.of(rmr, 1, &one);
  EXPECT_EQ(all_.of(rmr, 1, &one), key);
  EXPECT_NE(all_.of(rmr, 1, &other), key);
  EXPECT_NE(all_.of(rmr, gpu::ANY_RANK, &one), key);
  EXPECT_EQ(all_.own().resolve(key, rmr.base, 1, device::READ), nullptr) << "no bytes here";
  all_.forget_all(&one);
  EXPECT_FALSE(all_.find(key));
  EXPECT_TRUE(all_.find(all_.of(rmr, 1, &other)));
  all_.forget_all(&other);
}

TEST_F(keys_test, of_plain__is_for_the_local_side_alone) {
  const std::uint32_t key = all_.of_plain(words_, 8);
  const auto at = reinterpret_cast<std::uintptr_t>(words_);
  EXPECT_NE(all_.own().resolve(key, at, 8, device::WRITE), nullptr);
  EXPECT_EQ(all_.own().resolve(key, at, 8, device::REMOTE_WRITE), nullptr);
  EXPECT_FALSE(all_.find(key));
  all_.remove(key);
  EXPECT_EQ(all_.own().resolve(key, at, 8, device::WRITE), nullptr);
}

TEST_F(keys_test, find__guesses_find_nothing) {
  const std::uint32_t key = get_gpu_key(mr_).key;
  for (const std::uint32_t guess : {0u, 1u, key + 1, key ^ 0x80u, key + 0x100, 0xffffffffu})
    EXPECT_FALSE(all_.find(guess)) << guess;
}

}  // namespace
}  // namespace lci::proxy
