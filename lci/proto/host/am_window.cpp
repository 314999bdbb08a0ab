#include "lci/proto/host/am_window.hpp"

#include <cstddef>
#include <mutex>
#include <utility>

namespace lci::proto {

void am_window::add(int rank, const wire::rts& request) {
  peer_map spare;  // what it has in the end is freed here, too
  while (const std::size_t places = try_add(rank, request, spare))
    spare[rank].requests.reserve(places);
}

std::size_t am_window::try_add(int rank, const wire::rts& request, peer_map& spare) noexcept {
  const std::lock_guard lock(lock_);
  peers_.merge(spare);  // a rank that is there stays as it is
  const auto found = peers_.find(rank);
  if (found == peers_.end()) return FIRST_PLACES;
  peer& of = found->second;
  // What was taken out in front is given back now and then: each request is moved once at most. Not
  // while put_back() may need the place.
  if (!of.is_granting && of.first > of.requests.size() / 2) {
    of.requests.erase(of.requests.begin(),
                      of.requests.begin() + static_cast<std::ptrdiff_t>(of.first));
    of.first = 0;
  }
  if (of.requests.size() == of.requests.capacity()) {
    const auto larger = spare.find(rank);
    if (larger == spare.end() || larger->second.requests.capacity() <= of.requests.size())
      return 2 * of.requests.size();
    larger->second.requests.assign(of.requests.begin(), of.requests.end());
    of.requests.swap(larger->second.requests);
  }
  of.requests.push_back(request);
  waiting_.fetch_add(1, std::memory_order_relaxed);
  return 0;
}

bool am_window::begin(int rank) noexcept {
  const std::lock_guard lock(lock_);
  const auto found = peers_.find(rank);
  if (found == peers_.end() || found->second.is_granting) return false;
  found->second.is_granting = true;
  return true;
}

std::optional<wire::rts> am_window::next(int rank, std::size_t limit) noexcept {
  const std::lock_guard lock(lock_);
  peer& of = peers_.find(rank)->second;
  if (of.first == of.requests.size()) {
    of.is_granting = false;
    return std::nullopt;
  }
  const wire::rts request = of.requests[of.first];
  const bool has_room = of.bytes <= limit && request.size <= limit - of.bytes;
  if (of.messages >= LEAST && !has_room) {
    of.is_granting = false;
    return std::nullopt;
  }
  ++of.first;
  ++of.messages;
  of.bytes += request.size;
  waiting_.fetch_sub(1, std::memory_order_relaxed);
  return request;
}

bool am_window::put_back(int rank, const wire::rts& request) noexcept {
  const std::lock_guard lock(lock_);
  peer& of = peers_.find(rank)->second;
  of.requests[--of.first] = request;
  --of.messages;
  of.bytes -= request.size;
  waiting_.fetch_add(1, std::memory_order_relaxed);
  of.is_granting = false;
  return !std::exchange(of.is_starved, true);
}

void am_window::leave(int rank, std::size_t size) noexcept {
  const std::lock_guard lock(lock_);
  peer& of = peers_.find(rank)->second;
  --of.messages;
  of.bytes -= size;
}

int am_window::take_starved() noexcept {
  const std::lock_guard lock(lock_);
  for (auto& [rank, of] : peers_)
    if (std::exchange(of.is_starved, false)) return rank;
  return -1;
}

}  // namespace lci::proto
