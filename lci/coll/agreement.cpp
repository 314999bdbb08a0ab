// agreement: see the header.
#include "lci/coll/agreement.hpp"

#include <cstdlib>
#include <cstring>
#include <string>

#include "lci.hpp"

namespace lci::coll {
namespace {

bool read_variable() {
  const char* const text = std::getenv("LCI_CHECK_COLLECTIVES");
#ifdef LCI_DEBUG
  return text == nullptr || std::strcmp(text, "0") != 0;
#else
  return text != nullptr && std::strcmp(text, "1") == 0;
#endif
}

}  // namespace

bool is_agreement_checked() {
  static const bool is_checked = read_variable();
  return is_checked;
}

agreement_t::agreement_t(const call_t& mine, int rank) : view_() {
  std::strncpy(view_.mine.operation, mine.operation, sizeof(view_.mine.operation) - 1);
  view_.mine.count = mine.count;
  view_.mine.item_size = mine.item_size;
  view_.mine.root = mine.root;
  view_.mine.algorithm = mine.algorithm;
  view_.mine.nsteps = mine.nsteps;
  view_.mine.rank = rank;
}

bool agreement_t::is_same(const said_t& a, const said_t& b) {
  return std::strncmp(a.operation, b.operation, sizeof(a.operation)) == 0 && a.count == b.count &&
         a.item_size == b.item_size && a.root == b.root && a.algorithm == b.algorithm &&
         a.nsteps == b.nsteps;
}

void agreement_t::write(plan_t& plan) {
  for (int distance = 1; distance < plan.n(); distance *= 2) {
    std::byte* const heard = plan.scratch(sizeof(view_t));
    plan.send(plan.neighbour(distance), &view_, sizeof(view_));
    plan.recv(plan.neighbour(-distance), heard, sizeof(view_t));
    plan.join();
    plan.combine(heard, &view_, 1);
  }
}

// A rank that differs from another rank differs from us, or that other rank does.
void agreement_t::merge(const void* from, const void*, void* into, size_t) {
  view_t heard, mine;
  std::memcpy(&heard, from, sizeof(heard));
  std::memcpy(&mine, into, sizeof(mine));
  if (mine.has_other != 0) return;
  if (!is_same(heard.mine, mine.mine)) {
    mine.other = heard.mine;
  } else if (heard.has_other != 0) {
    mine.other = heard.other;
  } else {
    return;
  }
  mine.has_other = 1;
  std::memcpy(into, &mine, sizeof(mine));
}

void agreement_t::check() const {
  if (!has_difference()) return;
  const auto text = [](const said_t& said) {
    return "rank " + std::to_string(said.rank) + " calls " + said.operation + " with count " +
           std::to_string(said.count) + ", item size " + std::to_string(said.item_size) +
           ", root " + std::to_string(said.root) + ", algorithm " + std::to_string(said.algorithm) +
           ", ring steps " + std::to_string(said.nsteps);
  };
  throw argument_error("a collective that ranks call differently: " + text(view_.mine) + ", but " +
                       text(view_.other));
}

}  // namespace lci::coll
