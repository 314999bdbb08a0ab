#include "lci/runtime/introduction.hpp"

#include <algorithm>
#include <charconv>
#include <map>

#include "lci/errors.hpp"

namespace lci::runtime {
namespace {

constexpr std::string_view NOWHERE = "-";
constexpr const char* ALL_THE_SAME =
    ": all ranks of a job need the same version of lci and the same backend (LCI_ATTR_BACKEND)";

// Takes the text up to the next blank, and removes the blank as well.
std::string_view take_word(std::string_view& text) {
  const std::size_t end = std::min(text.find(' '), text.size());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return word;
}

bool is_number(std::string_view word, std::uint64_t& found) {
  const auto got = std::from_chars(word.data(), word.data() + word.size(), found);
  return got.ec == std::errc{} && got.ptr == word.data() + word.size();
}

bool is_version(std::string_view word, std::uint32_t version) {
  std::uint64_t found = 0;
  return is_number(word, found) && found == version;
}

bool are_together(const introduction& a, const introduction& b) {
  return !a.place.empty() && a.place == b.place;
}

std::string_view machine_of(const introduction& one) {
  return std::string_view(one.place).substr(0, one.place.find('.'));
}

}  // namespace

std::string list_ranks(const std::vector<int>& ranks) {
  constexpr std::size_t MOST = 8;
  std::string out = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < std::min(MOST, ranks.size()); ++i)
    out += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  if (ranks.size() > MOST) out += " and " + std::to_string(ranks.size() - MOST) + " more";
  return out;
}

std::string text_of(std::uint32_t version, const introduction& said) {
  return std::to_string(version) + " " + said.wanted + " " + std::to_string(said.word) + " " +
         (said.place.empty() ? std::string(NOWHERE) : said.place) + " " + said.address;
}

introduction read_introduction(std::string_view said, int rank, std::uint32_t version) {
  std::string_view rest = said;
  const std::string_view its_version = take_word(rest);
  introduction out;
  out.wanted = take_word(rest);
  const bool has_word = is_number(take_word(rest), out.word);
  out.place = take_word(rest);
  if (!is_version(its_version, version) || out.wanted.empty() || !has_word || out.place.empty())
    throw backend_error("rank " + std::to_string(rank) + " introduces itself as \"" +
                        std::string(said.substr(0, 64)) + "\", and this rank speaks version " +
                        std::to_string(version) + " of the protocol" + ALL_THE_SAME);
  if (out.place == NOWHERE) out.place.clear();
  out.address = rest;
  return out;
}

void check_settings(const std::vector<introduction>& all, int me) {
  const std::string& mine = all[static_cast<std::size_t>(me)].wanted;
  std::map<std::string, std::vector<int>> others;
  for (std::size_t r = 0; r < all.size(); ++r)
    if (all[r].wanted != mine) others[all[r].wanted].push_back(static_cast<int>(r));
  if (others.empty()) return;
  std::string text;
  for (const auto& [wanted, ranks] : others)
    text += list_ranks(ranks) + (ranks.size() == 1 ? " wants" : " want") + " network \"" + wanted +
            "\", ";
  throw backend_error(text + "and this rank wants \"" + mine + "\"" + ALL_THE_SAME);
}

std::vector<int> elsewhere(const std::vector<introduction>& all, int me) {
  std::vector<int> out;
  for (std::size_t r = 0; r < all.size(); ++r)
    if (!are_together(all[r], all[static_cast<std::size_t>(me)]))
      out.push_back(static_cast<int>(r));
  return out;
}

std::vector<net::way> ways_from(const std::vector<introduction>& all, int me) {
  std::vector<net::way> out(all.size(), net::way::local);
  for (const int rank : elsewhere(all, me)) out[static_cast<std::size_t>(rank)] = net::way::remote;
  return out;
}

std::vector<int> on_machine(const std::vector<introduction>& all, int me) {
  const std::string_view mine = machine_of(all[static_cast<std::size_t>(me)]);
  std::vector<int> out;
  for (std::size_t r = 0; r < all.size(); ++r)
    if (mine.empty() || machine_of(all[r]) == mine) out.push_back(static_cast<int>(r));
  return out;
}

std::string tell_network(std::string_view network, std::string_view address) {
  return std::string(network) + " " + std::string(address);
}

std::string tell_failure(std::string_view reason) {
  constexpr std::size_t MOST = 160;  // some bootstraps accept no long values
  return std::string(NOWHERE) + " " + std::string(reason.substr(0, MOST));
}

std::vector<std::string> addresses_in(const std::vector<std::string>& said, int me) {
  std::string_view mine = said[static_cast<std::size_t>(me)];
  const std::string_view network = take_word(mine);
  std::vector<std::string> out;
  std::map<std::string, std::vector<int>> others;  // by the network they opened, or why none
  for (std::size_t r = 0; r < said.size(); ++r) {
    std::string_view rest = said[r];
    const std::string_view its_network = take_word(rest);
    out.emplace_back(rest);
    if (its_network == network && network != NOWHERE) continue;
    const std::string what = its_network == NOWHERE
                                 ? " could open no network between hosts: " + std::string(rest)
                                 : " opened \"" + std::string(its_network) + "\"";
    others[what].push_back(static_cast<int>(r));
  }
  if (others.empty()) return out;
  std::string text;
  for (const auto& [what, ranks] : others) text += list_ranks(ranks) + what + "; ";
  if (network != NOWHERE) text += "this rank opened \"" + std::string(network) + "\"";
  throw backend_error(text + ALL_THE_SAME);
}

}  // namespace lci::runtime
