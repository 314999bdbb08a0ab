// plan: see the header.
#include "lci/coll/plan.hpp"

namespace lci::coll {

plan_t::plan_t(int rank, int nranks)
    : me_(rank),
      n_(nranks),
      sent_(static_cast<size_t>(nranks), 0),
      received_(static_cast<size_t>(nranks), 0) {}

int plan_t::neighbour(int distance) const { return ((me_ + distance) % n_ + n_) % n_; }

void plan_t::send(int peer, const void* from, size_t size) {
  steps_.push_back({.kind = step_t::kind_t::send,
                    .peer = peer,
                    .number = sent_[static_cast<size_t>(peer)]++,
                    .from = from,
                    .into = nullptr,
                    .amount = size});
}

void plan_t::recv(int peer, void* into, size_t size) {
  steps_.push_back({.kind = step_t::kind_t::recv,
                    .peer = peer,
                    .number = received_[static_cast<size_t>(peer)]++,
                    .from = nullptr,
                    .into = into,
                    .amount = size});
}

void plan_t::join() { steps_.push_back({}); }

void plan_t::copy(void* into, const void* from, size_t size) {
  if (size == 0 || into == from) return;
  steps_.push_back({.kind = step_t::kind_t::copy,
                    .peer = -1,
                    .number = 0,
                    .from = from,
                    .into = into,
                    .amount = size});
}

void plan_t::combine(const void* from, void* into, size_t items) {
  if (items == 0) return;
  steps_.push_back({.kind = step_t::kind_t::combine,
                    .peer = -1,
                    .number = 0,
                    .from = from,
                    .into = into,
                    .amount = items});
}

std::byte* plan_t::scratch(size_t size) {
  // Plain new[]: aligned for every plain type, and not zeroed, which would cost a pass over it.
  scratch_.push_back(std::unique_ptr<std::byte[]>(new std::byte[size]));
  return scratch_.back().get();
}

}  // namespace lci::coll
