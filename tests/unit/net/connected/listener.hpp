// A sink that writes down what it is told, and an address book of ranks that are nowhere. Threads:
// the test's.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lci/net/backend.hpp"

namespace lci::net::connected {

struct listener final : sink {
  verdict on_message(const arrival& what) noexcept override {
    return answer ? answer(what) : verdict::taken;
  }
  void on_immediate(int, std::uint32_t) noexcept override {}
  void on_complete(void*) noexcept override { heard.emplace_back("completed"); }
  void on_error(int rank, void*, std::string_view reason) noexcept override {
    note("error", rank, reason);
  }
  void on_peer_ended(int rank, bool is_orderly, std::string_view reason) noexcept override {
    note(is_orderly ? "left" : "failed", rank, reason);
  }
  std::function<verdict(const arrival&)> answer;
  std::function<void()> then;  // inside of each of the last two
  std::vector<std::string> heard;

 private:
  void note(const char* what, int rank, std::string_view reason) {
    heard.push_back(what + (" " + std::to_string(rank) + ": ") + std::string(reason));
    if (then) then();
  }
};

class book_of_nowhere final : public address_book {
 public:
  book_of_nowhere(int rank, int size) : rank_(rank), size_(size) {}
  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return size_; }
  std::string lookup(int) override { return {}; }

 private:
  const int rank_, size_;
};

}  // namespace lci::net::connected
