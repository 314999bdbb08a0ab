// The checks of this suite see what they are there for: a byte that is wrong, one that is missing
// and one too many, in memory of every kind.
#include <optional>
#include <tuple>

#include "tests/accelerator/gpu_kernels.hpp"
#include "tests/accelerator/interface/common.hpp"

namespace accelerator_test {
namespace {

// By kernels where there are any, and copied.
class check : public testing::TestWithParam<std::tuple<place, bool>> {
 protected:
  check() {
    if (!std::get<1>(GetParam())) copied_.emplace();
  }
  place where() const { return std::get<0>(GetParam()); }

 private:
  std::optional<lci::cuda::gpu_kernels::left_out> copied_;
};

TEST_P(check, says_which_byte) {
  for (const std::size_t size : {std::size_t{1}, std::size_t{100}, std::size_t{70000}}) {
    block memory(where(), size + 1024);
    const slot at(memory, 512, size);
    const std::uint64_t seed = seed_of(world().rank, next_use());
    const auto poke = [&](std::size_t offset, std::byte value) { memory.write(offset, {value}); };

    at.clear(seed);
    EXPECT_EQ(at.check(seed, 0), "") << "nothing has arrived";
    EXPECT_NE(at.check(seed), "") << "nothing has arrived";
    at.fill(seed);
    EXPECT_NE(at.check(seed), "") << "the guards were written";

    const std::vector<std::byte> good = bytes_of(seed, size + 2 * slot::GUARD);
    const auto arrive = [&] {
      at.clear(seed);
      memory.write(512, {good.begin() + slot::GUARD, good.begin() + slot::GUARD + size});
    };
    arrive();
    EXPECT_EQ(at.check(seed), "");
    EXPECT_NE(at.check(seed + 1), "") << "the bytes of another message";
    for (const std::size_t wrong : {std::size_t{0}, size / 2, size - 1}) {
      arrive();
      poke(512 + wrong, good[slot::GUARD + wrong] ^ std::byte{1});
      EXPECT_NE(at.check(seed).find("byte " + std::to_string(wrong) + " of"), std::string::npos);
    }
    arrive();
    poke(512 + size, good[slot::GUARD + size]);
    EXPECT_NE(at.check(seed).find("outside"), std::string::npos) << "one too many";
    arrive();
    poke(511, good[slot::GUARD - 1]);
    EXPECT_NE(at.check(seed).find("byte -1 of"), std::string::npos) << "one too early";
    std::vector<std::byte> message(good.begin() + slot::GUARD, good.begin() + slot::GUARD + size);
    EXPECT_EQ(difference(message.data(), size, seed), "");
    message[size / 2] ^= std::byte{1};
    EXPECT_NE(difference(message.data(), size, seed), "");
  }
}

std::string name_of_check(const testing::TestParamInfo<check::ParamType>& info) {
  return std::string(name_of(std::get<0>(info.param))) +
         (std::get<1>(info.param) ? "_kernels" : "_copied");
}
INSTANTIATE_TEST_SUITE_P(memory, check,
                         testing::Combine(testing::ValuesIn(PLACES), testing::Bool()),
                         name_of_check);

}  // namespace
}  // namespace accelerator_test
