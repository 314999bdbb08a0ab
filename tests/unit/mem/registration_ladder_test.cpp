// Every rung can hold, or fail at either side, for one buffer or for good: all combinations, with a
// domain and a network that do as they are told and count what they are asked.
#include "lci/mem/registration_ladder.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <thread>
#include <vector>

#include "lci/base/log.hpp"
#include "lci/errors.hpp"
#include "tests/support/leak_guard.hpp"
#include "tests/support/must_fire.hpp"

namespace lci::mem {
namespace {

using test::throws_with;
using side = rung_failure::side;
constexpr std::array<rung, RUNGS> ALL = {rung::data_direct, rung::dma_buf, rung::peer_memory};

enum class outcome : std::uint8_t { works, domain_refuses, domain_never, card_refuses, card_never };
constexpr std::size_t OUTCOMES = 5;
using plan = std::array<outcome, RUNGS>;

bool is_domains(outcome o) { return o == outcome::domain_refuses || o == outcome::domain_never; }
bool is_final(outcome o) { return o == outcome::domain_never || o == outcome::card_never; }

// What happens, and what was asked.
struct script {
  plan what{};
  std::array<int, RUNGS> domain_asked{}, card_asked{};
  bool is_synchronous = true;
  int refusals_told = 0;
};
script* now = nullptr;

constexpr std::uint64_t PAGE = 4096;

network_export export_it(const void* address, std::size_t size, bool over_pcie) {
  const std::size_t at = over_pcie ? 0 : 1;
  ++now->domain_asked[at];
  network_export out;
  const auto where = reinterpret_cast<std::uintptr_t>(address);
  out.base = where / PAGE * PAGE;
  out.offset = where % PAGE;
  out.size = (out.offset + size + PAGE - 1) / PAGE * PAGE;
  out.is_synchronous = now->is_synchronous;
  if (is_domains(now->what[at])) {
    out.why_not = "the domain says no";
    out.error = 801;
    out.is_final = is_final(now->what[at]);
  } else {
    out.fd.reset(open("/dev/null", O_RDONLY | O_CLOEXEC));
  }
  return out;
}

network_pointer ready_it(const void*) {
  ++now->domain_asked[2];
  if (is_domains(now->what[2])) return {"the domain says no", 1, is_final(now->what[2]), false};
  return {"", 0, false, now->is_synchronous};
}

const memory_domain GPUS{"mock",
                         "",
                         nullptr,
                         nullptr,
                         [](const void*) { return std::string("memory of GPU 3"); },
                         [](const void*) {
                           ++now->refusals_told;
                           return std::string("managed memory is not handled");
                         },
                         nullptr,
                         nullptr,
                         nullptr,
                         &export_it,
                         &ready_it};
const memory_domain WITHOUT{"bare",
                            "",
                            nullptr,
                            nullptr,
                            [](const void*) { return std::string("memory of a bare GPU"); },
                            nullptr,
                            nullptr,
                            nullptr,
                            nullptr};

class card final : public device_registrar {
 public:
  registration_answer register_range(const descriptor_range& what) override {
    EXPECT_NE(fcntl(what.fd, F_GETFD), -1) << "closed too early";
    last = what;
    return answer(what.wants_data_direct ? rung::data_direct : rung::dma_buf);
  }
  registration_answer register_pointer(void* address, std::size_t size) override {
    pointer = address;
    length = size;
    return answer(rung::peer_memory);
  }
  descriptor_range last;
  void* pointer = nullptr;
  std::size_t length = 0;
  bool throws = false;

 private:
  registration_answer answer(rung which) {
    const auto at = static_cast<std::size_t>(which);
    ++now->card_asked[at];
    if (throws) throw std::runtime_error("the card is on fire");
    if (now->what[at] == outcome::works) return {100 + at, "", 0, false};
    return {0, "reg_mr on card0", EOPNOTSUPP, is_final(now->what[at])};
  }
};

class registration_ladder_test : public testing::Test {
 protected:
  registration_ladder_test() { now = &told_; }
  ~registration_ladder_test() override { now = nullptr; }
  static memory_place place(int device = 3) {
    return {mem_kind::device, true, false, device, &GPUS};
  }
  device_registration climb(int device = 3) {
    return ladder_.climb(card_, place(device), at_, 100);
  }
  void forget_counts() { told_.domain_asked = told_.card_asked = {}; }

  test::leak_guard descriptors_;
  script told_;
  card card_;
  void* const at_ = reinterpret_cast<void*>(0x10000000abc);
  registration_ladder ladder_{"card0", {}};
};

template <class F>
void for_each_plan(F&& run) {
  for (std::size_t i = 0; i < OUTCOMES * OUTCOMES * OUTCOMES; ++i)
    run(plan{static_cast<outcome>(i % OUTCOMES), static_cast<outcome>(i / OUTCOMES % OUTCOMES),
             static_cast<outcome>(i / OUTCOMES / OUTCOMES)});
}

// What an answer to `what` has to look like.
void expect_answer(const plan& what, const device_registration& got) {
  std::size_t first = 0;
  while (first < RUNGS && what[first] != outcome::works) ++first;
  ASSERT_EQ(got.failed.size(), first);
  EXPECT_EQ(got.by.has_value(), first < RUNGS);
  EXPECT_EQ(got.key, first < RUNGS ? 100 + first : 0u);
  if (got.by) {
    EXPECT_EQ(*got.by, ALL[first]);
  }
  for (std::size_t i = 0; i < first; ++i) {
    EXPECT_EQ(got.failed[i].which, ALL[i]);
    EXPECT_EQ(got.failed[i].by, is_domains(what[i]) ? side::accelerator : side::network);
    EXPECT_EQ(got.failed[i].is_final, is_final(what[i]));
    const std::string words = is_domains(what[i]) ? "mock: the domain says no"
                                                  : "card0: reg_mr on card0: Operation not "
                                                    "supported [95]";
    EXPECT_EQ(got.failed[i].text, words);
    EXPECT_NE(got.failed[i].error, 0);
    EXPECT_NE(got.why_not().find(std::string(name_of(ALL[i])) + ": " + words), std::string::npos);
  }
}

TEST_F(registration_ladder_test, climb__every_combination_of_failures_at_either_side) {
  for_each_plan([&](const plan& what) {
    told_ = {};
    told_.what = what;
    registration_ladder ladder("card0", {});
    SCOPED_TRACE(testing::PrintToString(std::vector<int>{
        static_cast<int>(what[0]), static_cast<int>(what[1]), static_cast<int>(what[2])}));
    const std::size_t open_before = test::open_descriptors().size();
    expect_answer(what, ladder.climb(card_, place(), at_, 100));
    const script first = told_;
    forget_counts();
    // The same once more: what was final is known, the rest is asked again.
    expect_answer(what, ladder.climb(card_, place(), at_, 100));
    for (std::size_t i = 0; i < RUNGS; ++i) {
      const bool is_known = is_final(what[i]);
      EXPECT_EQ(told_.domain_asked[i], is_known ? 0 : first.domain_asked[i]);
      EXPECT_EQ(told_.card_asked[i], is_known ? 0 : first.card_asked[i]);
    }
    // Another device has to find out for itself.
    forget_counts();
    expect_answer(what, ladder.climb(card_, place(4), at_, 100));
    EXPECT_EQ(told_.domain_asked, first.domain_asked);
    EXPECT_EQ(told_.card_asked, first.card_asked);
    EXPECT_EQ(test::open_descriptors().size(), open_before);
  });
}

TEST_F(registration_ladder_test, failure_of_one_buffer__says_nothing_about_the_next) {
  told_.what = {outcome::card_refuses, outcome::domain_refuses, outcome::card_refuses};
  EXPECT_FALSE(climb().by);
  told_.what = {};
  EXPECT_EQ(climb().by, rung::data_direct);
}

TEST_F(registration_ladder_test, range__is_of_the_buffer_and_named_by_its_address) {
  EXPECT_EQ(climb().by, rung::data_direct);
  EXPECT_TRUE(card_.last.wants_data_direct);
  EXPECT_EQ(card_.last.offset, 0xabcu);
  EXPECT_EQ(card_.last.length, 100u);
  EXPECT_EQ(card_.last.iova, 0x10000000abcu);
  told_.what[0] = outcome::card_refuses;
  EXPECT_EQ(climb().by, rung::dma_buf);
  EXPECT_FALSE(card_.last.wants_data_direct);
  told_.what[1] = outcome::card_refuses;
  EXPECT_EQ(climb().by, rung::peer_memory);
  EXPECT_EQ(card_.pointer, at_);
  EXPECT_EQ(card_.length, 100u);
}

TEST_F(registration_ladder_test, descriptor__is_closed_also_when_the_network_throws) {
  card_.throws = true;
  const std::size_t open_before = test::open_descriptors().size();
  EXPECT_THROW(climb(), std::runtime_error);
  EXPECT_EQ(test::open_descriptors().size(), open_before);
}

TEST_F(registration_ladder_test, memory_that_is_not_handled__nobody_is_asked) {
  memory_place managed = place();
  managed.is_handled = false;
  const device_registration got = ladder_.climb(card_, managed, at_, 100);
  EXPECT_FALSE(got.by);
  EXPECT_EQ(got.failed.size(), RUNGS);
  EXPECT_NE(got.why_not().find("managed memory is not handled"), std::string::npos);
  for (const auto& asked : {told_.domain_asked, told_.card_asked})
    EXPECT_EQ(asked, (std::array<int, RUNGS>{}));
  EXPECT_TRUE(climb().by) << "it says nothing about other memory";
}

TEST_F(registration_ladder_test, domain_without_either__is_a_reason) {
  const device_registration got =
      ladder_.climb(card_, {mem_kind::device, true, false, 0, &WITHOUT}, at_, 100);
  EXPECT_FALSE(got.by);
  EXPECT_EQ(got.why_not(),
            "data_direct: bare: has no dma-buf; dma_buf: bare: has no dma-buf; peer_memory: bare: "
            "has no peer memory");
}

// ---- rules ----

TEST_F(registration_ladder_test, rung_that_is_asked_for__is_the_only_one_tried) {
  for (std::size_t i = 0; i < RUNGS; ++i) {
    forget_counts();
    registration_ladder ladder("card0", ladder_rules::parse(true, "V", name_of(ALL[i])));
    const device_registration got = ladder.climb(card_, place(), at_, 100);
    EXPECT_EQ(got.by, ALL[i]);
    for (std::size_t j = 0; j < RUNGS; ++j) EXPECT_EQ(told_.domain_asked[j], i == j ? 1 : 0);
    for (const rung_failure& one : got.failed) EXPECT_EQ(one.by, side::rules);
  }
}

TEST_F(registration_ladder_test, rung_that_is_asked_for_and_fails__is_an_error_with_all_reasons) {
  for (std::size_t i = 0; i < RUNGS; ++i) {
    told_.what = {};
    told_.what[i] = outcome::card_refuses;
    registration_ladder ladder("card0", ladder_rules::parse(true, "V", name_of(ALL[i])));
    EXPECT_TRUE(throws_with<backend_error>(
        [&] { ladder.climb(card_, place(), at_, 100); },
        {"100 bytes of memory of GPU 3", "data_direct: ", "dma_buf: ", "peer_memory: ",
         "V asks for others", std::string(name_of(ALL[i])) + ": card0: reg_mr on card0"}));
  }
}

TEST_F(registration_ladder_test, rung_that_is_left_out__is_not_tried_and_its_reason_is_told) {
  for (std::size_t i = 0; i < RUNGS; ++i) {
    forget_counts();
    told_.what = {outcome::card_refuses, outcome::card_refuses, outcome::card_refuses};
    registration_ladder ladder("card0",
                               ladder_rules::parse(true, "V", "^" + std::string(name_of(ALL[i]))));
    const device_registration got = ladder.climb(card_, place(), at_, 100);
    EXPECT_FALSE(got.by) << "no error: nothing was asked for";
    EXPECT_EQ(told_.domain_asked[i] + told_.card_asked[i], 0);
    EXPECT_NE(got.why_not().find(std::string(name_of(ALL[i])) + ": not tried, V leaves it out"),
              std::string::npos)
        << got.why_not();
  }
}

TEST_F(registration_ladder_test, use_dmabuf_off__leaves_the_pointer) {
  registration_ladder ladder("card0", ladder_rules::parse(false, "V", "auto"));
  const device_registration got = ladder.climb(card_, place(), at_, 100);
  EXPECT_EQ(got.by, rung::peer_memory);
  EXPECT_NE(got.why_not().find("dma_buf: not tried, the attribute use_dmabuf is off"),
            std::string::npos);
  registration_ladder contradiction("card0", ladder_rules::parse(false, "V", "dma_buf"));
  EXPECT_TRUE(throws_with<backend_error>([&] { contradiction.climb(card_, place(), at_, 100); },
                                         {"use_dmabuf is off"}));
}

// ---- the log ----

class ladder_log : public registration_ladder_test {
 protected:
  ladder_log() : before_(log::global().threshold()) {
    log::global().set_threshold(static_cast<int>(log::level::info));
  }
  ~ladder_log() override { log::global().set_threshold(before_); }
  template <class F>
  std::string said_by(F&& what) {
    testing::internal::CaptureStderr();
    what();
    return testing::internal::GetCapturedStderr();
  }
  static std::size_t lines(const std::string& text) {
    return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
  }

 private:
  int before_;
};

TEST_F(ladder_log, of_a_rung__one_line_per_device_with_the_reasons_above) {
  told_.what[0] = outcome::card_never;
  const std::string text = said_by([&] {
    climb();
    climb();
  });
  EXPECT_EQ(lines(text), 1u) << text;
  EXPECT_NE(text.find("card0 registers memory of GPU 3 by dma_buf (data_direct: card0: reg_mr"),
            std::string::npos)
      << text;
  EXPECT_EQ(lines(said_by([&] { climb(4); })), 1u);
  told_.what[1] = outcome::card_refuses;
  const std::string other = said_by([&] {
    climb();
    climb();
  });
  EXPECT_EQ(lines(other), 1u) << other;
  told_.what[2] = outcome::domain_refuses;
  EXPECT_NE(said_by([&] { climb(); }).find("host memory (data_direct: "), std::string::npos);
}

TEST_F(ladder_log, of_memory_that_stays_unsynchronous__is_one_line_and_it_is_registered) {
  told_.is_synchronous = false;
  climb();  // the line about the rung
  registration_ladder ladder("card0", {});
  const std::string text = said_by([&] {
    EXPECT_TRUE(ladder.climb(card_, place(), at_, 100).by);
    EXPECT_TRUE(ladder.climb(card_, place(), at_, 100).by);
  });
  EXPECT_EQ(lines(text), 2u) << text;
  EXPECT_NE(text.find("synchronous copies may return"), std::string::npos) << text;
}

// Domains and cards that keep no account, so that the ladder is what threads meet in.
const memory_domain QUIET{"quiet",
                          "",
                          nullptr,
                          nullptr,
                          [](const void*) { return std::string("memory"); },
                          nullptr,
                          nullptr,
                          nullptr,
                          nullptr,
                          [](const void*, std::size_t, bool is_pcie) {
                            network_export out;
                            out.why_not = "none";
                            out.is_final = is_pcie;
                            return out;
                          },
                          [](const void*) {
                            return network_pointer{"", 0, false, false};
                          }};

TEST(registration_ladder, climb__from_several_threads) {
  struct quiet_card final : device_registrar {
    registration_answer register_range(const descriptor_range&) override { return {}; }
    registration_answer register_pointer(void*, std::size_t) override { return {7, "", 0, false}; }
  };
  registration_ladder ladder("card0", {});
  std::vector<std::thread> all;
  for (int t = 0; t < 4; ++t)
    all.emplace_back([&ladder] {
      quiet_card mine;
      for (int i = 0; i < 500; ++i) {
        const device_registration got =
            ladder.climb(mine, {mem_kind::device, true, false, i % 7, &QUIET}, &mine, 8);
        EXPECT_EQ(got.by, rung::peer_memory);
        EXPECT_EQ(got.failed.size(), 2u);
      }
    });
  for (std::thread& one : all) one.join();
}

}  // namespace
}  // namespace lci::mem
