#include "lci/boot/identity.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <utility>

#include "lci/boot/key_exchange.hpp"
#include "lci/errors.hpp"

namespace lci::boot {
namespace {

constexpr auto AS_JOINER = sealed_stream::side::joiner;
constexpr auto AS_ROOT = sealed_stream::side::root;

struct both_ends {
  both_ends() {
    const job_key key("what both of them know");
    const key_exchange at_joiner, at_root;
    auto admitted = at_root.admit(at_joiner.hello(key), key);
    joiner.emplace(*at_joiner.open_answer(key, admitted->answer));
    root.emplace(std::move(admitted->stream));
  }
  std::optional<sealed_stream> joiner, root;
};

TEST(identity, is_shown__by_its_owner_on_that_connection_and_end_alone) {
  if (const auto why = keys_unavailable()) {
    EXPECT_THROW(identity(), backend_error);
    GTEST_SKIP() << *why;
  }
  const identity mine, other;
  both_ends one, another;
  EXPECT_EQ(one.joiner->binding(), one.root->binding());
  const std::string shown = mine.show(*one.joiner, AS_JOINER);
  EXPECT_EQ(mine.id().size(), 32u);
  EXPECT_TRUE(identity::is_shown(shown, mine.id(), *one.root, AS_JOINER));
  EXPECT_FALSE(identity::is_shown(shown, other.id(), *one.root, AS_JOINER));
  EXPECT_FALSE(identity::is_shown(shown, mine.id(), *one.root, AS_ROOT)) << "sent back";
  EXPECT_FALSE(identity::is_shown(shown, mine.id(), *another.root, AS_JOINER)) << "passed on";
  EXPECT_FALSE(identity::is_shown(shown.substr(1), mine.id(), *one.root, AS_JOINER));
  for (std::size_t i = 0; i < shown.size(); ++i) {
    std::string changed = shown;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    EXPECT_FALSE(identity::is_shown(changed, mine.id(), *one.root, AS_JOINER)) << i;
  }
}

}  // namespace
}  // namespace lci::boot
