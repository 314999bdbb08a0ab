#include "backends/ofi/lookup.hpp"

#include <algorithm>
#include <mutex>

#include "backends/ofi/port.hpp"

namespace lci::ofi {
namespace {

bool is_same(net::remote_key a, net::remote_key b) noexcept {
  return a.slot == b.slot && a.generation == b.generation;
}

net::remote_view view_of(const note& row) noexcept {
  net::remote_view out;
  out.what = net::remote_view::answer::ok;
  out.size = row.count;
  out.kind = static_cast<mem::mem_kind>(row.memory & 0xff);
  out.off_network = (row.memory & note::OFF_NETWORK) != 0;
  out.address = row.address;
  out.at = {row.at, row.key, 0};
  return out;
}

}  // namespace

net::remote_view lookups::find(int rank, net::remote_key name) noexcept {
  net::remote_view out;
  if (name.generation == 0) {
    out.what = net::remote_view::answer::unknown_key;
    return out;
  }
  const std::lock_guard lock(lock_);
  auto& rows = peers_[static_cast<std::size_t>(rank)].rows;
  if (const auto at = rows.find(name.slot);
      at != rows.end() && at->second.generation == name.generation) {
    if (at->second.what == note::kind::row) return view_of(at->second);
    out.what = net::remote_view::answer::unknown_key;
    rows.erase(at);
    return out;
  }
  try {
    ask_locked(rank, name);
  } catch (...) {  // no memory now: asked again
  }
  return out;
}

void lookups::ask_locked(int rank, net::remote_key name) {
  for (const request& one : requests_)
    if (one.rank == rank && is_same(one.name, name)) return;
  requests_.push_back({rank, name});
  open_.fetch_add(1, std::memory_order_relaxed);
}

// One that can be sent over that port now. Who asks a peer that is gone gets no answer; that it is
// gone is said elsewhere.
bool lookups::take_question(const port& by, int& rank, net::remote_key& name) noexcept {
  const std::lock_guard lock(lock_);
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    request& one = requests_[i];
    const link* const on = by.find(one.rank);
    if (one.is_sent || on == nullptr || on->state() == link::stage::calling) continue;
    open_.fetch_sub(1, std::memory_order_relaxed);
    one.is_sent = true;
    rank = one.rank;
    name = one.name;
    if (on->state() >= link::stage::left) {
      one = requests_.back();
      requests_.pop_back();
    }
    return true;
  }
  return false;
}

void lookups::serve(port& by) noexcept {
  int rank = -1;
  net::remote_key name;
  while (take_question(by, rank, name)) {
    note question;
    question.what = note::kind::ask;
    question.slot = name.slot;
    question.generation = name.generation;
    by.tell(rank, question);
  }
}

void lookups::settle(int rank, const note& said) noexcept {
  const std::lock_guard lock(lock_);
  const net::remote_key name{said.slot, said.generation};
  const std::size_t before = requests_.size();
  std::erase_if(requests_, [&](const request& one) {
    return one.is_sent && one.rank == rank && is_same(one.name, name);
  });
  if (requests_.size() == before) return;  // nobody has asked
  try {
    peers_[static_cast<std::size_t>(rank)].rows[said.slot] = said;
  } catch (...) {  // asked again
  }
}

void lookups::drop(int rank, net::remote_key name) noexcept {
  const std::lock_guard lock(lock_);
  // Who has asked gets no other answer, and asks again.
  std::erase_if(requests_, [&](const request& one) {
    return one.is_sent && one.rank == rank && is_same(one.name, name);
  });
  auto& rows = peers_[static_cast<std::size_t>(rank)].rows;
  const auto at = rows.find(name.slot);
  if (at != rows.end() && at->second.generation == name.generation) rows.erase(at);
}

void lookups::forget(int rank) noexcept {
  const std::lock_guard lock(lock_);
  std::erase_if(requests_, [&](const request& one) {
    if (one.rank != rank) return false;
    if (!one.is_sent) open_.fetch_sub(1, std::memory_order_relaxed);
    return true;
  });
}

}  // namespace lci::ofi
