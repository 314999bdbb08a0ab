#include "backends/ibv/contacts.hpp"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "backends/ibv/errors.hpp"
#include "backends/ibv/queue_pair.hpp"
#include "lci/errors.hpp"
#include "lci/net/connected/address_text.hpp"

namespace lci::ibv {
fabric_address describe_this_process(const chosen_port& where) {
  fabric_address out;
  out.id = net::connected::random_id("ibv");
  out.host = net::connected::host_id("pid");
  if (out.host == 0) out.host = out.id;
  out.process = static_cast<std::uint32_t>(getpid());
  out.where = place_of(where);
  return out;
}

contacts::contacts(const chosen_port& where, ibv_pd* pd, net::address_book& book)
    : where_(where), pd_(pd), book_(book), of_(static_cast<std::size_t>(book.size())) {}

contacts::~contacts() {
  for (contact& one : of_) {
    const int process = one.process.load(std::memory_order_relaxed);
    if (process >= 0) close(process);
  }
}

contact* contacts::find(int rank, const fabric_address& here) {
  contact& who = of_[static_cast<std::size_t>(rank)];
  if (who.is_known) return &who;
  const std::string text = book_.lookup(rank);
  if (text.empty()) return nullptr;
  if (!fabric_address::parse(text, who.address))
    throw backend_error("ibv: the address of rank " + std::to_string(rank) + " is invalid");
  ibv_ah_attr path = path_to(who.address.where, where_);
  who.handle.reset(library().create_ah(pd_, &path));
  if (!who.handle)
    throw_error("ibv_create_ah", where_.name + ", to rank " + std::to_string(rank), errno);
  if (who.address.host == here.host) {
    // Ended but not waited for counts as ended, which kill() does not see.
    const auto fd = static_cast<int>(syscall(SYS_pidfd_open, who.address.process, 0));
    const int found = fd < 0 && errno == ESRCH ? contact::ENDED : fd;
    who.process.store(found, std::memory_order_relaxed);
  }
  who.is_known = true;
  return &who;
}

void contacts::set_directory(contact& who, std::uint64_t address, std::uint32_t key) noexcept {
  if (who.directory_key.load(std::memory_order_relaxed) != 0) return;
  who.directory.store(address, std::memory_order_relaxed);
  // edge ibv.directory: partner is directory_of().
  who.directory_key.store(key, std::memory_order_release);
}

bool contacts::directory_of(int rank, std::uint64_t& address, std::uint32_t& key) const noexcept {
  const contact& who = of_[static_cast<std::size_t>(rank)];
  // edge ibv.directory: partner is set_directory().
  key = who.directory_key.load(std::memory_order_acquire);
  address = who.directory.load(std::memory_order_relaxed);
  return key != 0;
}

bool contacts::has_died(int rank) const noexcept {
  const int process = of_[static_cast<std::size_t>(rank)].process.load(std::memory_order_relaxed);
  if (process < 0) return process == contact::ENDED;
  pollfd about{process, POLLIN, 0};
  return poll(&about, 1, 0) == 1;
}

}  // namespace lci::ibv
