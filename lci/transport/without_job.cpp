#include "lci/transport/without_job.hpp"

#include <cctype>
#include <cstddef>
#include <typeinfo>
#include <utility>

#include "lci/errors.hpp"

namespace lci::transports {

namespace {

bool is_in_word(char c) noexcept { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

void replace_all(std::string& in, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = in.find(from, at)) != std::string::npos;) {
    const std::size_t end = at + from.size();
    if ((at > 0 && is_in_word(in[at - 1])) || (end < in.size() && is_in_word(in[end]))) {
      at = end;  // "rank 10" is not rank 1
      continue;
    }
    in.replace(at, from.size(), to);
    at += to.size();
  }
}

}  // namespace

std::string without_job(std::string_view text, int me) {
  const std::string own = "rank " + std::to_string(me), peer = "rank " + std::to_string(1 - me);
  if (const std::string lost = peer + " is lost: "; text.starts_with(lost))
    text.remove_prefix(lost.size());
  std::string out(text);
  const std::pair<std::string_view, std::string_view> words[] = {
      {own, "this side"},
      {peer, "the peer"},
      {"this rank", "this side"},
      {"that rank", "the peer"},
      {"the rank", "the peer"},
      {"all ranks of a job need", "both ends need"},
      {"the key of this job", "the key of this connection"}};
  for (const auto& [from, to] : words) replace_all(out, from, to);
  return out;
}

std::exception_ptr without_job(const std::exception_ptr& problem, int me) {
  if (problem == nullptr) return nullptr;
  try {
    std::rethrow_exception(problem);
  } catch (const std::runtime_error& e) {
    const std::string text = without_job(e.what(), me);
    if (typeid(e) == typeid(peer_failure_error)) {
      const int rank = static_cast<const peer_failure_error&>(e).failed_rank();
      return std::make_exception_ptr(peer_failure_error(rank, text));
    }
    if (typeid(e) == typeid(argument_error)) return std::make_exception_ptr(argument_error(text));
    if (typeid(e) == typeid(backend_error)) return std::make_exception_ptr(backend_error(text));
    if (typeid(e) == typeid(std::runtime_error))
      return std::make_exception_ptr(std::runtime_error(text));
  } catch (...) {
  }
  return problem;
}

}  // namespace lci::transports
