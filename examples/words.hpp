// The part of word_count that does not concern messages: the text, its words, and the comparison of
// two counts.
#pragma once

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace words {

using counts_t = std::map<std::string, uint64_t, std::less<>>;

// Longer runs of letters are cut, so that a word always fits in a packet.
inline constexpr size_t MAX_LENGTH = 64;

// A directory of texts that every Debian and Ubuntu has.
inline constexpr const char* USUAL_TEXTS = "/usr/share/common-licenses";

inline bool is_letter(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

// The text of all named files, or of a default directory. Throws an error that names a missing
// file.
inline std::string read_text(std::vector<std::string> files) {
  if (files.empty()) {
    for (const auto& entry : std::filesystem::directory_iterator(USUAL_TEXTS)) {
      if (entry.is_regular_file()) files.push_back(entry.path().string());
    }
    std::sort(files.begin(), files.end());
  }
  std::ostringstream text;
  for (const std::string& name : files) {
    std::ifstream file(name, std::ios::binary);
    if (!file) throw std::runtime_error("cannot read " + name);
    // A file ends its last word, whatever the next one starts with. An empty file would set the
    // stream's failure bit, so it is skipped.
    if (file.peek() != std::ifstream::traits_type::eof()) text << file.rdbuf() << '\n';
  }
  return text.str();
}

// Share number `index` of `shares` equal ones, with its ends moved so that no word is cut in two.
inline std::string_view share_of(std::string_view text, int index, int shares) {
  const auto edge = [&](int i) {
    size_t at = text.size() * static_cast<size_t>(i) / static_cast<size_t>(shares);
    while (at > 0 && at < text.size() && is_letter(text[at]) && is_letter(text[at - 1])) ++at;
    return at;
  };
  const size_t first = edge(index);
  return text.substr(first, edge(index + 1) - first);
}

// Calls f(word) for each word of the text, in lower case.
template <class F>
void for_each_word(std::string_view text, F&& f) {
  std::string word;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && is_letter(text[i]) && word.size() < MAX_LENGTH) {
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(text[i])));
      continue;
    }
    if (!word.empty()) f(std::string_view(word));
    word.clear();
    if (i < text.size() && is_letter(text[i])) --i;  // cut: this letter starts the next word
  }
}

inline void add(counts_t& counts, std::string_view word, uint64_t n = 1) {
  // Without the search, every call would make a string of the word.
  const auto it = counts.find(word);
  (it != counts.end() ? it : counts.emplace(word, 0).first)->second += n;
}

inline uint64_t times(const counts_t& counts, std::string_view word) {
  const auto it = counts.find(word);
  return it == counts.end() ? 0 : it->second;
}

// "identical", or a sentence about the first word, in alphabetical order, that was counted
// differently.
inline std::string compare(const counts_t& together, const counts_t& alone) {
  counts_t all = together;
  all.insert(alone.begin(), alone.end());
  for (const auto& [word, ignored] : all) {
    if (times(together, word) == times(alone, word)) continue;
    return "difference: \"" + word + "\" counted " + std::to_string(times(together, word)) +
           " times together and " + std::to_string(times(alone, word)) + " times alone";
  }
  return "identical";
}

// The `most` most frequent words with their counts, as lines of text.
inline std::string ranking(const counts_t& counts, size_t most) {
  std::vector<std::pair<uint64_t, std::string>> order;
  for (const auto& [word, n] : counts) order.emplace_back(n, word);
  std::sort(order.rbegin(), order.rend());
  std::ostringstream text;
  for (size_t i = 0; i < order.size() && i < most; ++i) {
    text << std::setw(8) << order[i].first << ' ' << order[i].second << '\n';
  }
  return text.str();
}

// One line per word, for sending, and back.
inline std::string to_text(const counts_t& counts) {
  std::string text;
  for (const auto& [word, n] : counts) text += word + ' ' + std::to_string(n) + '\n';
  return text;
}
inline void add_text(counts_t& counts, const std::string& text) {
  std::istringstream in(text);
  std::string word;
  for (uint64_t n = 0; in >> word >> n;) add(counts, word, n);
}

}  // namespace words
