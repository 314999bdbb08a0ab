// Registrations of a network that has room for so many, with the cache behind them and without.
#include "lci/net/connected/region_store.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <optional>

#include "lci/errors.hpp"

namespace lci::net::connected {
namespace {

constexpr std::size_t PAGE = 4096;

struct library {
  std::size_t alive = 0, made = 0, room = 1000;
  int refusal = 0;  // of the next registration
};
struct made_one {
  struct end {
    void operator()(library* of) const noexcept { --of->alive; }
  };
  std::unique_ptr<library, end> in;
  std::byte* begin = nullptr;
  std::uint32_t key = 0;
  explicit operator bool() const noexcept { return in != nullptr; }
};
struct record : registration<made_one> {
  const made_one* on = nullptr;
  void take(const made_one& from) noexcept { on = &from; }
  bool is_registered() const noexcept { return on != nullptr; }
};
using span_of_one = std::unique_ptr<made_one>;

class counting_store final : public region_store<counting_store, record, made_one, span_of_one> {
 public:
  static constexpr char NAME[] = "test";
  counting_store(library& in, const fabric_config& config, mem::unmap_source& news)
      : region_store(config, news), in_(in) {}
  ~counting_store() { close(); }
  void publish(remote_key name, std::uint64_t key) {
    const std::lock_guard lock(mutex_);
    enter_locked(name, *reinterpret_cast<record*>(key));
  }
  using region_store::of_arena;
  std::vector<remote_key> withdrawn;

 private:
  friend region_store;
  made_one make(void* address, std::size_t, mem::mem_kind kind, outcome& how) {
    made_one out;
    how.error = std::exchange(in_.refusal, 0);
    if (how.error == 0 && in_.alive == in_.room) how.error = ENOMEM;
    if (how.error == 0 && kind == mem::mem_kind::device) how.error = EOPNOTSUPP;
    if (how.error != 0) {
      how.why_not = "refused";
      return out;
    }
    ++in_.alive;
    out.in.reset(&in_);
    out.begin = static_cast<std::byte*>(address);
    out.key = static_cast<std::uint32_t>(++in_.made);
    return out;
  }
  [[noreturn]] void throw_refused(std::size_t size, int error) const {
    throw backend_error(std::to_string(size) + " bytes: error " + std::to_string(error));
  }
  span_of_one make_span(std::byte* at, std::size_t size) {
    auto out = std::make_unique<made_one>();
    const int error = evicting([&] {
      outcome how;
      *out = make(at, size, mem::mem_kind::host, how);
      return how.error;
    });
    if (error != 0) throw_refused(size, error);
    return out;
  }
  static const std::byte* begin_of(const made_one& on) noexcept { return on.begin; }
  static remote_target target_in(const record& made) noexcept {
    return {reinterpret_cast<std::uint64_t>(made.address), made.on->key};
  }
  remote_target target_in_arena(const void* address, std::size_t size) noexcept {
    const made_one* const on = of_arena(arena_.offset_of(address), size);
    return on == nullptr ? remote_target{}
                         : remote_target{reinterpret_cast<std::uint64_t>(address), on->key};
  }
  void unpublish_locked(const record& made) { withdrawn.push_back(made.name); }

  library& in_;
};

struct news final : mem::unmap_source {
  std::string start(mem::unmap_listener& to) override {
    listener = &to;
    return why_not;
  }
  void stop(mem::unmap_listener&) noexcept override {}
  std::string why_not;
  mem::unmap_listener* listener = nullptr;
};

class region_store_test : public testing::Test {
 protected:
  region_store_test() {
    config_.arena = &arena_;
    config_.regions = &table_;
    config_.use_reg_cache = true;
  }
  ~region_store_test() override {
    all_.reset();
    EXPECT_EQ(in_.alive, 0u) << "registrations are left";
  }
  counting_store& open() { return all_.emplace(in_, config_, told_); }
  std::uint64_t add(void* address, std::size_t size) {
    std::string why_not;
    return all_->add(address, size, mem::mem_kind::host, why_not);
  }
  std::uint64_t block() { return arena_.offset_of(arena_.allocate(100, 64)); }

  library in_;
  mem::arena arena_;
  mem::region_table table_{arena_};
  fabric_config config_;
  news told_;
  std::optional<counting_store> all_;
  alignas(PAGE) char memory_[8 * PAGE];
};

TEST_F(region_store_test, add__again_finds_what_is_kept_until_it_is_unmapped) {
  ASSERT_TRUE(open().is_keeping());
  all_->remove(add(memory_ + 100, 5000));
  all_->remove(add(memory_ + 200, 300));
  EXPECT_EQ(in_.made, 1u);
  told_.listener->on_unmap(reinterpret_cast<std::uintptr_t>(memory_), PAGE);
  all_->remove(add(memory_ + 200, 300));
  EXPECT_EQ(in_.made, 2u);
}

TEST_F(region_store_test, add__without_the_attribute_or_the_hook_each_time) {
  for (const bool wanted : {false, true}) {
    config_.use_reg_cache = wanted;
    told_.why_not = "no hook";
    EXPECT_FALSE(open().is_keeping());
    const std::size_t before = in_.made;
    for (int i = 0; i < 3; ++i) all_->remove(add(memory_, PAGE));
    EXPECT_EQ(in_.made - before, 3u);
    EXPECT_EQ(in_.alive, 0u);
  }
}

TEST_F(region_store_test, add__refused_throws_for_host_memory_and_says_why_for_that_of_a_gpu) {
  for (const bool wanted : {false, true}) {
    config_.use_reg_cache = wanted;
    open();
    in_.refusal = EPERM;
    EXPECT_THROW(add(memory_, PAGE), backend_error);
    std::string why_not;
    EXPECT_EQ(all_->add(memory_, PAGE, mem::mem_kind::device, why_not), 0u);
    EXPECT_EQ(why_not, "refused");
    EXPECT_EQ(in_.alive, 0u);
  }
}

TEST_F(region_store_test, add__of_no_bytes_registers_nothing) {
  open();
  const std::uint64_t key = add(nullptr, 0);
  EXPECT_NE(key, 0u);
  EXPECT_EQ(in_.made, 0u);
  all_->remove(key);
}

TEST_F(region_store_test, remove__answers_who_keeps_it_and_under_which_name) {
  open();
  const std::uint64_t key = add(memory_, PAGE);
  EXPECT_FALSE(all_->add_reader({3, 1}, 1)) << "it has no name yet";
  all_->publish({3, 1}, key);
  EXPECT_FALSE(all_->add_reader({3, 2}, 1));
  for (const int rank : {1, 2, 1}) EXPECT_TRUE(all_->add_reader({3, 1}, rank));
  remote_key name;
  EXPECT_EQ(all_->remove(key, &name), (std::vector<int>{1, 2}));
  EXPECT_EQ(name.slot, 3u);
  EXPECT_EQ(name.generation, 1u);
  EXPECT_EQ(all_->withdrawn.size(), 1u);
  EXPECT_FALSE(all_->add_reader({3, 1}, 1));
}

TEST_F(region_store_test, remove__of_what_is_not_registered_changes_nothing) {
  open();
  const std::uint64_t key = add(memory_, PAGE);
  record stranger;
  EXPECT_TRUE(all_->remove(reinterpret_cast<std::uint64_t>(&stranger)).empty());
  EXPECT_TRUE(all_->remove(0).empty());
  all_->remove(key);
}

TEST_F(region_store_test, remove__of_a_name_that_has_a_new_holder_leaves_that) {
  open();
  const std::uint64_t old = add(memory_, PAGE), next = add(memory_ + PAGE, PAGE);
  all_->publish({3, 1}, old);
  all_->publish({3, 2}, next);
  all_->remove(old);
  EXPECT_EQ(all_->target_of({3, 2}).address, reinterpret_cast<std::uint64_t>(memory_ + PAGE));
  EXPECT_EQ(all_->target_of({3, 1}).key, 0u);
  all_->remove(next);
}

TEST_F(region_store_test, target_of__in_the_arena_in_one_span_or_in_several) {
  open();
  for (const std::size_t size : {std::size_t{100}, mem::arena::SPAN, 2 * mem::arena::SPAN + 1}) {
    void* const memory = arena_.allocate(size, 4096);
    const mem::region_name name = table_.insert(memory, size);
    const remote_key key{name.slot, name.generation};
    const remote_target there = all_->target_of(key);
    EXPECT_NE(there.key, 0u);
    const std::size_t before = in_.made;
    EXPECT_EQ(all_->target_of(key).key, there.key);
    EXPECT_EQ(in_.made, before) << "registered once";
    table_.erase(name);
    arena_.free(memory, size);
  }
}

// Receives could else never be posted again.
TEST_F(region_store_test, of_arena__what_is_kept_makes_room_and_what_is_used_does_not) {
  open();
  const std::uint64_t offset = block();
  const std::uint64_t used = add(memory_ + 4 * PAGE, PAGE);
  in_.room = 1;
  EXPECT_EQ(all_->of_arena(offset, 100), nullptr);
  in_.room = 2;
  all_->remove(add(memory_, PAGE));
  ASSERT_EQ(in_.alive, 2u);
  const made_one* const made = all_->of_arena(offset, 100);
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(in_.alive, 2u) << "one came, one went";
  EXPECT_EQ(all_->of_arena(offset, 100), made);
  all_->remove(used);
}

TEST_F(region_store_test, of_arena__refused_for_another_reason_ends_nothing) {
  open();
  const std::uint64_t offset = block();
  all_->remove(add(memory_, PAGE));
  in_.refusal = EPERM;
  EXPECT_EQ(all_->of_arena(offset, 100), nullptr);
  EXPECT_EQ(in_.alive, 1u);
  EXPECT_NE(all_->of_arena(offset, 100), nullptr);
}

TEST_F(region_store_test, close__leaves_nothing_registered) {
  open();
  all_->remove(add(memory_, PAGE));
  add(memory_ + 4 * PAGE, PAGE);  // never removed, which is warned of
  EXPECT_NE(all_->of_arena(block(), 100), nullptr);
  all_.reset();
  EXPECT_EQ(in_.alive, 0u);
}

}  // namespace
}  // namespace lci::net::connected
