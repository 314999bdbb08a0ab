#include "lci/runtime/introduction.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <system_error>

#include "lci/errors.hpp"
#include "lci/runtime/cores.hpp"

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

std::string_view machine_of(std::string_view place) { return place.substr(0, place.find('.')); }

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
         said.cores + " " + (said.place.empty() ? std::string(NOWHERE) : said.place) + " " +
         said.address;
}

introduction read_introduction(std::string_view said, int rank, std::uint32_t version) {
  std::string_view rest = said;
  const std::string_view its_version = take_word(rest);
  introduction out;
  out.wanted = take_word(rest);
  const bool has_word = is_number(take_word(rest), out.word);
  out.cores = take_word(rest);
  out.place = take_word(rest);
  if (!is_version(its_version, version) || out.wanted.empty() || !has_word ||
      !read_cores(out.cores) || out.place.empty())
    throw backend_error("rank " + std::to_string(rank) + " introduces itself as \"" +
                        std::string(said.substr(0, 64)) + "\", and this rank speaks version " +
                        std::to_string(version) + " of the protocol" + ALL_THE_SAME);
  if (out.place == NOWHERE) out.place.clear();
  out.address = rest;
  return out;
}

void introductions::add(const introduction& one) {
  const short_one before = of_.empty() ? short_one{nullptr, nullptr, nullptr, 0} : of_.back();
  of_.push_back({keep(one.wanted, before.wanted), keep(one.place, before.place),
                 keep(one.cores, before.cores), one.word});
}

const std::string* introductions::keep(const std::string& text, const std::string* before) {
  return before != nullptr && *before == text ? before : &*texts_.insert(text).first;
}

std::vector<std::uint64_t> introductions::words() const {
  std::vector<std::uint64_t> out;
  out.reserve(of_.size());
  for (const short_one& one : of_) out.push_back(one.word);
  return out;
}

void check_settings(const introductions& all, int me) {
  const std::string& mine = all.wanted(me);
  std::map<std::string, std::vector<int>> others;
  for (int r = 0; r < static_cast<int>(all.size()); ++r)
    if (&all.wanted(r) != &mine) others[all.wanted(r)].push_back(r);
  if (others.empty()) return;
  std::string text;
  for (const auto& [wanted, ranks] : others)
    text += list_ranks(ranks) + (ranks.size() == 1 ? " wants" : " want") + " network \"" + wanted +
            "\", ";
  throw backend_error(text + "and this rank wants \"" + mine + "\"" + ALL_THE_SAME);
}

std::vector<int> elsewhere(const introductions& all, int me) {
  std::vector<int> out;
  for (int r = 0; r < static_cast<int>(all.size()); ++r)
    if (!all.are_together(r, me)) out.push_back(r);
  return out;
}

std::vector<net::way> ways_from(const introductions& all, int me) {
  std::vector<net::way> out(all.size(), net::way::local);
  for (const int rank : elsewhere(all, me)) out[static_cast<std::size_t>(rank)] = net::way::remote;
  return out;
}

std::vector<int> on_machine(const introductions& all, int me) {
  const std::string_view mine = machine_of(all.place(me));
  std::vector<int> out;
  for (int r = 0; r < static_cast<int>(all.size()); ++r)
    if (mine.empty() || machine_of(all.place(r)) == mine) out.push_back(r);
  return out;
}

bool is_crowded(const introductions& all, int me) {
  const auto cores_of = [&all](int rank) {
    return read_cores(all.cores(rank)).value_or(core_set());
  };
  std::vector<core_set> ranks;
  for (const int rank : on_machine(all, me)) ranks.push_back(cores_of(rank));
  return outnumber_cores(ranks, cores_of(me));
}

std::string tell_network(std::string_view network, std::string_view address) {
  return std::string(network) + " " + std::string(address);
}

std::string tell_failure(std::string_view reason) {
  constexpr std::size_t MOST = 160;  // some bootstraps accept no long values
  return std::string(NOWHERE) + " " + std::string(reason.substr(0, MOST));
}

text_list addresses_in(const told_by& said, int me) {
  std::string network;
  said([&](int rank, std::string_view words) {
    if (rank == me) network = take_word(words);
  });
  text_list out;
  std::map<std::string, std::vector<int>> others;  // by the network they opened, or why none
  said([&](int rank, std::string_view rest) {
    const std::string_view its_network = take_word(rest);
    out.add(rest);
    if (its_network == network && network != NOWHERE) return;
    const std::string what = its_network == NOWHERE
                                 ? " could open no network between hosts: " + std::string(rest)
                                 : " opened \"" + std::string(its_network) + "\"";
    others[what].push_back(rank);
  });
  if (others.empty()) return out;
  std::string text;
  for (const auto& [what, ranks] : others) text += list_ranks(ranks) + what + "; ";
  if (network != NOWHERE) text += "this rank opened \"" + network + "\"";
  throw backend_error(text + ALL_THE_SAME);
}

}  // namespace lci::runtime
