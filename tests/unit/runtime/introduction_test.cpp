// Ranks that would not understand each other are told apart before the first message, and those
// that do come to the same conclusion.
#include "lci/runtime/introduction.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lci/errors.hpp"

namespace lci::runtime {
namespace {

using net::way;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

template <class Call>
std::string refusal(Call&& call) {
  try {
    call();
  } catch (const backend_error& why) {
    return why.what();
  }
  return "accepted";
}

introductions all_of(const std::vector<introduction>& ranks) {
  introductions out;
  for (const introduction& one : ranks) out.add(one);
  return out;
}

introductions at_places(const std::vector<std::string>& places) {
  introductions out;
  for (const std::string& place : places) out.add({"any", place, ""});
  return out;
}

std::vector<std::string> addresses_of(const std::vector<std::string>& said, int me) {
  const text_list found = addresses_in(
      [&](const auto& visit) {
        for (std::size_t r = 0; r < said.size(); ++r) visit(static_cast<int>(r), said[r]);
      },
      me);
  std::vector<std::string> out;
  for (std::size_t i = 0; i < found.size(); ++i) out.emplace_back(found[i]);
  return out;
}

TEST(introduction, what_is_said__comes_out_as_it_went_in) {
  for (const introduction& one :
       {introduction{"any", "host.1.2", "with blanks in it"}, introduction{"ibv", "", "", 7, "3f"},
        introduction{"shm", "h", "x", ~std::uint64_t{0}}}) {
    const introduction got = read_introduction(text_of(5, one), 3, 5);
    EXPECT_EQ(got.wanted, one.wanted);
    EXPECT_EQ(got.place, one.place);
    EXPECT_EQ(got.address, one.address);
    EXPECT_EQ(got.word, one.word);
    EXPECT_EQ(got.cores, one.cores);
  }
}

TEST(introduction, other_version_and_nonsense__are_refused_with_the_rank) {
  for (const std::string& said :
       {text_of(6, {}), text_of(55, {}), std::string(), std::string("5"), std::string("5 any"),
        std::string("any 5 1 3 h x"), std::string(" 5 any 1 3 h x"), std::string("5x any 1 3 h x"),
        std::string("5 any 3 h x"), std::string("5 any 1x 3 h x"), std::string("5 any -1 3 h x"),
        std::string("5 any 1 h x"), std::string("5 any 1 3x h x"), std::string("5 any 1  h x")})
    EXPECT_THAT(refusal([&] { read_introduction(said, 3, 5); }),
                AllOf(HasSubstr("rank 3"), HasSubstr("version 5")))
        << said;
}

TEST(introduction, other_wishes__are_named_with_their_ranks) {
  std::vector<introduction> said(5);
  EXPECT_NO_THROW(check_settings(all_of(said), 2));
  said[1].wanted = said[4].wanted = "ibv";
  said[3].wanted = "shm";
  const introductions all = all_of(said);
  EXPECT_THAT(
      refusal([&] { check_settings(all, 0); }),
      AllOf(HasSubstr("ranks 1, 4 want network \"ibv\""), HasSubstr("rank 3 wants network \"shm\""),
            HasSubstr("this rank wants \"any\"")));
  EXPECT_THAT(refusal([&] { check_settings(all, 3); }),
              HasSubstr("ranks 0, 2 want network \"any\""));
}

// Places of 100 hosts, in turn and one after the other.
TEST(introduction, many_ranks__each_has_its_own_words) {
  introductions all;
  for (int r = 0; r < 1000; ++r)
    all.add({r == 7 ? "ibv" : "any", "host" + std::to_string(r < 500 ? r % 50 : r / 10), "",
             static_cast<std::uint64_t>(r) << 40});
  ASSERT_EQ(all.size(), 1000u);
  const introductions kept = std::move(all);
  for (int r = 0; r < 1000; ++r) {
    EXPECT_EQ(kept.wanted(r), r == 7 ? "ibv" : "any");
    EXPECT_EQ(kept.place(r), "host" + std::to_string(r < 500 ? r % 50 : r / 10));
    EXPECT_EQ(kept.words()[static_cast<std::size_t>(r)], static_cast<std::uint64_t>(r) << 40);
  }
  EXPECT_TRUE(kept.are_together(3, 53));
  EXPECT_FALSE(kept.are_together(3, 54));
}

TEST(introduction, ways__lead_inside_of_a_place_and_between_places) {
  const auto all = at_places({"a", "b", "a", "b", ""});
  EXPECT_THAT(ways_from(all, 0),
              ElementsAre(way::local, way::remote, way::local, way::remote, way::remote));
  EXPECT_THAT(elsewhere(all, 1), ElementsAre(0, 2, 4));
  // Who cannot be reached inside of a host does not reach itself there.
  EXPECT_THAT(elsewhere(all, 4), ElementsAre(0, 1, 2, 3, 4));
}

// Containers of one machine share its cores and cards.
TEST(introduction, machine__is_the_first_part_of_a_place) {
  const auto all = at_places({"a.1", "b.1", "a.2", "", "a.1", "a"});
  EXPECT_THAT(on_machine(all, 0), ElementsAre(0, 2, 4, 5));
  EXPECT_THAT(on_machine(all, 2), ElementsAre(0, 2, 4, 5));
  EXPECT_THAT(on_machine(all, 1), ElementsAre(1));
  EXPECT_THAT(on_machine(all, 3), ElementsAre(0, 1, 2, 3, 4, 5)) << "nothing is known";
}

// Two machines with the same numbers of cores: ranks of the other one do not count.
TEST(introduction, crowd__is_of_one_machine) {
  introductions all;
  for (const char* const place : {"a.1", "b.1"})
    for (const char* const its : {"1", "2"}) all.add({"any", place, "", 0, its});
  for (int me = 0; me < 4; ++me) EXPECT_FALSE(is_crowded(all, me)) << me;
  all.add({"any", "a.2", "", 0, "3"});
  EXPECT_TRUE(is_crowded(all, 0));
  EXPECT_FALSE(is_crowded(all, 2));
}

TEST(introduction, whether_a_network_is_needed__is_the_same_everywhere) {
  for (const auto& places : std::vector<std::vector<std::string>>{
           {"a", "a", "a"}, {"a", "a", "b"}, {"a", "", "a"}, {"", "", ""}, {""}, {"a"}}) {
    const auto all = at_places(places);
    for (int me = 1; me < static_cast<int>(all.size()); ++me)
      EXPECT_EQ(elsewhere(all, me).empty(), elsewhere(all, 0).empty()) << me;
  }
}

TEST(introduction, network__all_have_the_same) {
  EXPECT_THAT(addresses_of({tell_network("ibv", "x y"), tell_network("ibv", "")}, 1),
              ElementsAre("x y", ""));
  const std::vector<std::string> said{tell_network("ibv", "x"), tell_network("ofi", "y"),
                                      tell_network("ibv", "z"), tell_failure("no card"),
                                      tell_failure("no card")};
  EXPECT_THAT(refusal([&] { addresses_of(said, 2); }),
              AllOf(HasSubstr("rank 1 opened \"ofi\""), HasSubstr("this rank opened \"ibv\""),
                    HasSubstr("ranks 3, 4 could open no network between hosts: no card")));
  // Also where nobody has any.
  EXPECT_THAT(refusal([&] { addresses_of({said[3], said[4]}, 0); }), HasSubstr("ranks 0, 1"));
}

TEST(introduction, reason__stays_short_enough_for_every_bootstrap) {
  EXPECT_LE(tell_failure(std::string(1000, 'x')).size(), 200u);
}

TEST(introduction, many_ranks__are_counted) {
  EXPECT_EQ(list_ranks({7}), "rank 7");
  EXPECT_EQ(list_ranks({1, 2}), "ranks 1, 2");
  EXPECT_EQ(list_ranks({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}), "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 2 more");
}

}  // namespace
}  // namespace lci::runtime
