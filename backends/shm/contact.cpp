// First contact and last: the part of the fabric that talks to sockets. Everything here runs under
// the fabric's lock, from a post that finds no lane or from the once-a-millisecond look of a poll.
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "backends/shm/fabric.hpp"
#include "backends/shm/port.hpp"
#include "backends/shm/single_copy.hpp"
#include "lci/base/log.hpp"
#include "lci/errors.hpp"

namespace lci::shm {

peer& fabric::peer_locked(int rank) {
  std::atomic<peer*>& where = peers_[static_cast<std::size_t>(rank)];
  peer* who = where.load(std::memory_order_relaxed);
  if (who == nullptr) {
    peer_store_.push_back(std::make_unique<peer>(rank));
    who = peer_store_.back().get();
    who->ours = new (arena().allocate(sizeof(device_table))) device_table;
    // edge fabric.peer: partner is the acquire load in find().
    where.store(who, std::memory_order_release);
  }
  return *who;
}

errorcode_t fabric::meet_locked(int rank, peer*& out) {
  try {
    peer& who = peer_locked(rank);
    out = &who;
    if (who.gone.load(std::memory_order_relaxed)) return errorcode_t::fatal;
    if (who.state.load(std::memory_order_relaxed) != contact::none) return errorcode_t::done;
    if (rank != config_.book->rank()) return greet_locked(who);
    // Messages to ourselves take the same lanes, without a socket.
    who.memory.use(arena());
    who.control = control_;
    who.theirs = who.ours;
    if (config_.regions != nullptr) {
      who.rows = reinterpret_cast<const mem::region_table::row*>(
          arena().at(config_.regions->rows_offset()));
    }
    who.pid = getpid();
    who.state.store(contact::mapped, std::memory_order_release);
    mapped_.push_back(&who);
    announce_here();
    return errorcode_t::done;
  } catch (const std::exception& e) {
    log::warn("shm", "no contact to rank %d for now: %s", rank, e.what());
    return errorcode_t::retry_nomem;
  }
}

errorcode_t fabric::greet_locked(peer& who) {
  const std::string text = config_.book->lookup(who.rank);
  if (text.empty()) return errorcode_t::retry_nomem;
  const auto there = shm::address::parse(text);
  std::string why = there ? there->why_unreachable(here_) : "its address does not parse: " + text;
  link on;
  if (why.empty()) {
    const int error = connect_to(there->id, on.socket);
    // EAGAIN: its queue of callers is full for the moment; the same when we are short of
    // descriptors.
    if (error == EAGAIN || error == EMFILE || error == ENFILE || error == ENOMEM) {
      return errorcode_t::retry_nomem;
    }
    if (error != 0) {
      why = std::string("nobody listens at its address (") + std::strerror(error) +
            "): the process has ended, or lives in another network namespace";
    } else if (peer_of(on.socket.get()).uid != geteuid()) {
      why = "it belongs to user " + std::to_string(peer_of(on.socket.get()).uid) + ", not to ours";
    }
  }
  if (!why.empty()) {
    // It may have called us and written before it ended; then that comes first.
    look_locked();
    if (who.gone.load(std::memory_order_relaxed)) return errorcode_t::fatal;
    if (who.state.load(std::memory_order_relaxed) != contact::none) return errorcode_t::done;
    gone_locked(who, false, why);
    return errorcode_t::fatal;
  }
  on.who = &who;
  // Fails for now if too many descriptors of this user are under way; then the next post tries
  // again.
  if (send_hello_locked(on, who, there->id) != 0) return errorcode_t::retry_nomem;
  const int fd = on.socket.get();
  watch(fd, EPOLLIN | EPOLLRDHUP);
  links_.emplace(fd, std::move(on));
  ++who.links;
  who.state.store(contact::greeted, std::memory_order_release);
  return errorcode_t::done;
}

int fabric::send_hello_locked(link& on, peer& to, const fabric_id& to_id) {
  hello said;
  said.rank = config_.book->rank();
  said.from = here_.id;
  said.to = to_id;
  said.arena_reserve = arena().reserved();
  said.control = arena().offset_of(control_);
  said.rows = config_.regions != nullptr ? config_.regions->rows_offset() : 0;
  said.table = arena().offset_of(to.ours);
  said.probe_address = reinterpret_cast<std::uintptr_t>(&probe_value_);
  said.probe_value = probe_value_;
  const int error = send_record(on.socket.get(), std::as_bytes(std::span(&said, 1)), arena().fd());
  on.greeted = error == 0;
  return error;
}

void fabric::watch(int fd, std::uint32_t events) const {
  epoll_event e{};
  e.events = events;
  e.data.fd = fd;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &e) != 0) {
    throw backend_error(std::string("shm: epoll_ctl: ") + std::strerror(errno));
  }
}

void fabric::look_locked() noexcept {
  try {
    // An answer that could not be sent: the limit on descriptors under way may have eased.
    for (auto& [fd, on] : links_) {
      if (on.who != nullptr && !on.greeted) send_hello_locked(on, *on.who, fabric_id{});
    }
    std::array<epoll_event, 64> events;
    const int n = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
    for (int i = 0; i < n; ++i) {
      const int fd = events[static_cast<std::size_t>(i)].data.fd;
      if (fd == listener_.get()) {
        accept_locked();
      } else {
        read_locked(fd);
      }
    }
  } catch (const std::exception& e) {
    log::warn("shm", "looking at the sockets: %s", e.what());
  }
}

void fabric::accept_locked() {
  for (;;) {
    link on;
    on.socket.reset(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!on.socket) return;  // none left, or short of descriptors: the next look tries again
    const credentials caller = peer_of(on.socket.get());
    if (caller.uid != geteuid()) {
      log::warn("shm", "refused a process of user %u, this one belongs to user %u", caller.uid,
                geteuid());
      continue;
    }
    on.accepted = true;
    const int fd = on.socket.get();
    watch(fd, EPOLLIN | EPOLLRDHUP);
    links_.emplace(fd, std::move(on));
    read_locked(fd);  // its hello is there already, as a rule
  }
}

void fabric::read_locked(int fd) {
  bool was_reset = false;
  for (;;) {
    const auto found = links_.find(fd);
    if (found == links_.end()) return;
    link& on = found->second;
    received record = receive_record(fd);
    if (record.error == EAGAIN || record.error == EINTR) return;
    // It closed before it had read all of ours. The system tells that first, once, and then still
    // hands out what was written before, a bye as a rule.
    if (record.error == ECONNRESET && !was_reset) {
      was_reset = true;
      continue;
    }
    if (record.error != 0 || record.size == 0) {
      return hang_up_locked(fd, record.error != 0 ? std::strerror(record.error) : "");
    }
    const std::span<const std::byte> bytes(record.bytes.data(), record.size);
    if (on.who != nullptr && is_bye(bytes)) {
      if (!on.who->gone.load(std::memory_order_relaxed)) on.who->orderly = true;
      continue;
    }
    try {
      if (!take_hello_locked(on, record)) return hang_up_locked(fd, "");
    } catch (const std::exception& e) {
      count_dropped();
      log::warn("shm", "a hello was refused: %s", e.what());
      return hang_up_locked(fd, e.what());
    }
  }
}

// False: it comes late. When both sides called at once, one that has met us over our call and has
// left may still have a call of its own waiting here.
bool fabric::take_hello_locked(link& on, received& record) {
  const auto [said, why] = decode_hello({record.bytes.data(), record.size});
  if (!why.empty()) throw backend_error(why);
  if (said.rank < 0 || said.rank >= size() || said.rank == config_.book->rank() ||
      (on.who != nullptr && on.who->rank != said.rank)) {
    throw backend_error("it says that it is rank " + std::to_string(said.rank));
  }
  if (on.accepted && said.to != here_.id) throw backend_error("it means another fabric");
  // The book is the authority on who is who, as far as it knows.
  const std::string text = config_.book->lookup(said.rank);
  const auto known = text.empty() ? std::nullopt : shm::address::parse(text);
  if (known && known->id != said.from) {
    throw backend_error("it is not the rank " + std::to_string(said.rank) + " of this job");
  }
  peer& who = peer_locked(said.rank);
  if (who.gone.load(std::memory_order_relaxed)) {
    if (who.orderly && who.state.load(std::memory_order_relaxed) == contact::mapped) return false;
    throw backend_error("its rank is gone already");
  }
  if (on.who == nullptr) {
    on.who = &who;
    ++who.links;
  }
  // When both sides called at once there are two sockets and a hello on each; one mapping is
  // enough.
  if (who.state.load(std::memory_order_relaxed) != contact::mapped) {
    map_locked(who, said, on, record);
  }
  if (on.accepted && !on.greeted) send_hello_locked(on, who, said.from);
  return true;
}

void fabric::map_locked(peer& who, const hello& said, link& on, received& record) {
  if (!record.passed) throw backend_error("it passed no memory file");
  who.memory.map(record.passed.release(), said.arena_reserve, arena());
  who.control = who.memory.resolve_as<control_page>(said.control);
  who.theirs = who.memory.resolve_as<device_table>(said.table);
  if (said.rows != 0) {
    constexpr std::size_t ALL = sizeof(mem::region_table::row) * mem::region_table::MAX_REGIONS;
    who.rows = reinterpret_cast<const mem::region_table::row*>(
        who.memory.resolve(said.rows, ALL, alignof(mem::region_table::row)));
  }
  if (who.control == nullptr || who.theirs == nullptr || (said.rows != 0 && who.rows == nullptr) ||
      who.control->magic != control_page::MAGIC) {
    throw backend_error("its hello names places outside its memory file");
  }
  who.pid = peer_of(on.socket.get()).pid;
  who.single_copy.store(config_.shm_single_copy && who.pid > 0 &&
                            single_copy_works(who.pid, said.probe_address, said.probe_value),
                        std::memory_order_relaxed);
  // edge peer.mapped: partner is every acquire load of `state` that is followed by use of the
  // above.
  who.state.store(contact::mapped, std::memory_order_release);
  mapped_.push_back(&who);
  announce_here();
  // Lanes that we wrote before we knew where to say so.
  for (std::size_t i = 0; i < MAX_DEVICES; ++i) {
    if (who.ours->directory[i].load(std::memory_order_relaxed) != 0) {
      who.control->announce[i].count.fetch_add(1, std::memory_order_release);
    }
  }
}

void fabric::hang_up_locked(int fd, const std::string& why) {
  const auto found = links_.find(fd);
  link on = std::move(found->second);
  links_.erase(found);  // closing also takes it out of the epoll set
  if (on.who == nullptr) return;
  peer& who = *on.who;
  --who.links;
  // When both sides called at once it may have said bye on the other connection, which this look
  // has not come to.
  if (!who.orderly) read_all_locked(who);
  if (who.gone.load(std::memory_order_relaxed)) return;
  std::string reason = why;
  if (reason.empty()) {
    reason = who.orderly ? "it has left"
             : who.state.load(std::memory_order_relaxed) == contact::mapped
                 ? "its connection hung up: the process has ended"
                 : "it hung up before it said hello";
  }
  gone_locked(who, who.orderly, reason);
}

// Whatever waits on the connections of one peer.
void fabric::read_all_locked(const peer& who) {
  std::vector<int> descriptors;
  for (const auto& [fd, on] : links_) {
    if (on.who == &who) descriptors.push_back(fd);
  }
  for (const int fd : descriptors) read_locked(fd);
}

void fabric::gone_locked(peer& who, bool orderly, const std::string& why) {
  if (who.gone.load(std::memory_order_relaxed)) return;
  who.orderly = orderly;
  who.reason = why;
  who.gone.store(true, std::memory_order_release);
  for (auto& p : port_store_) p->out.set_gone_locked(who.rank);
  gone_.push_back(&who);
  announce_here();
}

}  // namespace lci::shm
