#include "tests/contract/group.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <sstream>
#include <stdexcept>

#include "tests/support/sanitized.hpp"

namespace lci::test {

// Addresses are known once every fabric is open, as after the exchange of a real start.
class group::book final : public net::address_book {
 public:
  book(int rank, const group& all) : rank_(rank), all_(all) {}
  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return static_cast<int>(all_.members_.size()); }
  std::string lookup(int rank) override {
    return addresses.empty() ? "" : addresses[static_cast<std::size_t>(rank)];
  }
  std::vector<std::string> addresses;

 private:
  int rank_;
  const group& all_;
};

void member::poll() {
  // Relaxed: threads may poll at once, and who reads the sum has no other thread.
  for (std::size_t i = 0; i < devices.size(); ++i)
    presented.fetch_add(devices[i]->poll(*sinks[i], 32), std::memory_order_relaxed);
}

void member::add_device(int index) {
  sinks.push_back(std::make_unique<recorder>());
  net::device_config config = wanted;
  devices.push_back(fabric->make_device(index, config));
  endpoints.push_back(
      std::make_unique<registering_endpoint>(*fabric, held, devices.back()->make_endpoint()));
}

void member::close() {
  endpoints.clear();
  devices.clear();
  held.give_back(*fabric);
  fabric.reset();
}

net::remote_key member::expose(void* address, std::size_t size) {
  const mem::region_name name = regions.insert(address, size);
  const net::remote_key key{name.slot, name.generation};
  std::string why_not;
  registered.emplace_back(key,
                          fabric->register_region(address, size, mem::mem_kind::host, why_not));
  fabric->publish(key, registered.back().second);
  return key;
}

void member::hide(net::remote_key key) {
  for (auto it = registered.begin(); it != registered.end(); ++it) {
    if (it->first.slot != key.slot || it->first.generation != key.generation) continue;
    fabric->deregister_region(it->second);
    regions.erase({key.slot, key.generation});
    registered.erase(it);
    return;
  }
  throw std::runtime_error("hide: no such key");
}

std::size_t member::obtainable_packets() {
  std::vector<mem::packet*> all;
  // Null may mean that other threads' caches were not searched again so soon, so ask again for a
  // while; counted in refusals, since a loaded machine may not let us run for any length of time.
  for (int refusals = 0; all.size() < packets.limit() && refusals < 1000;) {
    if (mem::packet* p = packets.get()) {
      all.push_back(p);
      refusals = 0;
    } else {
      ++refusals;
      // Packets that were sent without being lent come home at a poll, and whoever polls first may
      // have to wait until the last poller's right has run out.
      poll();
      usleep(100);
    }
  }
  for (mem::packet* p : all) packets.put(p);
  return all.size();
}

group::group(int ranks, int devices, const open_fabric& open, const net::device_config& wanted) {
  for (int rank = 0; rank < ranks; ++rank) {
    members_.push_back(std::make_unique<member>(ranks));
    members_.back()->wanted = wanted;
    books_.push_back(std::make_unique<book>(rank, *this));
  }
  std::vector<std::string> addresses;
  for (int rank = 0; rank < ranks; ++rank) {
    member& m = at(rank);
    net::fabric_config config;
    config.book = books_[static_cast<std::size_t>(rank)].get();
    config.arena = &m.arena;
    config.regions = &m.regions;
    config.peers = &m.peers;
    m.fabric = open(rank, config);
    addresses.push_back(m.fabric->address());
    for (int i = 0; i < devices; ++i) m.add_device(i);
  }
  for (auto& b : books_) b->addresses = addresses;
  caps_ = at(0).fabric->caps();
}

group::~group() {
  for (int rank = 0; rank < size(); ++rank) {
    if (is_open(rank)) at(rank).fabric->leave();
  }
  for (int rank = 0; rank < size(); ++rank) {
    if (is_open(rank)) close(rank, true);
  }
}

void group::close(int rank, bool orderly) {
  member& m = at(rank);
  if (orderly) m.fabric->leave();
  m.close();
}

void group::poll() {
  for (auto& m : members_) m->poll();
}

bool group::until(const std::function<bool()>& done, std::string_view what) {
  const auto start = std::chrono::steady_clock::now();
  for (unsigned polls = 1; !done(); ++polls) {
    poll();
    const auto waited = std::chrono::steady_clock::now() - start;
    // Then it is for time to pass, or for somebody who needs the core.
    if (waited > std::chrono::milliseconds(5) && polls % 16 == 0) usleep(100);
    if (waited < patience_) continue;
    std::ostringstream where;
    for (int rank = 0; rank < size(); ++rank) {
      for (std::size_t i = 0; i < at(rank).devices.size(); ++i) {
        where << "\n  rank " << rank << " device " << i << ": " << at(rank).sinks[i]->arrived()
              << " messages, " << at(rank).sinks[i]->immediates() << " immediates, "
              << at(rank).sinks[i]->gone().size() << " gone, "
              << (at(rank).devices[i]->is_drained() ? "drained" : "not drained");
      }
    }
    patience_ = std::chrono::milliseconds(200);
    ADD_FAILURE() << "waited in vain for " << what << where.str();
    return false;
  }
  return true;
}

errorcode_t group::post(const std::function<errorcode_t()>& one_post) {
  errorcode_t answer = errorcode_t::retry;
  const bool accepted = until(
      [&] {
        answer = one_post();
        return !is_retry(answer);
      },
      "a post to be accepted");
  // Nothing that a test does afterwards would mean anything.
  if (!accepted) throw std::runtime_error("a post was never accepted");
  if (answer != errorcode_t::done && answer != errorcode_t::posted) {
    throw std::runtime_error(std::string("a post answered ") + name_of(answer) +
                             ", neither done nor posted nor retry");
  }
  return answer;
}

void group::learn(int from, int to, net::remote_key key) {
  at(from).fabric->connect(to);
  until([&] { return at(from).fabric->check_remote(to, key).what == net::remote_view::answer::ok; },
        "a remote key");
}

void group::settle() {
  until(
      [&] {
        for (auto& m : members_) {
          for (auto& d : m->devices) {
            if (!d->is_drained()) return false;
          }
        }
        return true;
      },
      "all devices to drain");
  for (int i = 0; i < 20; ++i) poll();
  for (int rank = 0; rank < size(); ++rank)
    if (is_open(rank)) at(rank).held.give_back(*at(rank).fabric);
}

void group::bring_packets_home() {
  std::size_t rank = 0, had = 0;
  const bool are_home = until(
      [&] {
        for (; rank < members_.size(); ++rank) {
          had = members_[rank]->obtainable_packets();
          if (had == members_[rank]->packets.limit()) continue;
          // Who has a packet of another rank returns it in polls of its own. Only then: a poll may
          // also answer a call that its test leaves alone.
          for (int i = 0; i < 64; ++i) poll();
          return false;
        }
        return true;
      },
      "all packets to come home");
  if (!are_home) ADD_FAILURE() << "of rank " << rank << " only " << had << " did";
}

namespace {

// Instrumented, this was most of what tests of large messages took under a sanitizer.
LCI_TEST_UNSANITIZED void write_pattern(std::byte* to, std::size_t size, std::uint32_t salt) {
  std::uint32_t x = salt * 2654435761u + 1;
  for (std::size_t i = 0; i < size; ++i) {
    x = x * 1664525u + 1013904223u;
    to[i] = static_cast<std::byte>(x >> 24);
  }
}

}  // namespace

std::vector<std::byte> pattern(std::size_t size, std::uint32_t salt) {
  std::vector<std::byte> bytes(size);
  write_pattern(bytes.data(), size, salt);
  return bytes;
}

}  // namespace lci::test
