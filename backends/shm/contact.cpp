// First contact and last: the part of the fabric that talks to sockets. Everything here runs under
// the fabric's lock, from a post that finds no lane or from the once-a-millisecond look of a poll.
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <new>
#include <vector>

#include "backends/shm/connections.hpp"
#include "backends/shm/single_copy.hpp"
#include "lci/base/log.hpp"
#include "lci/base/undo.hpp"
#include "lci/errors.hpp"

namespace lci::shm {

peer& connections::peer_locked(int rank) {
  std::atomic<peer*>& where = peers_[static_cast<std::size_t>(rank)];
  peer* who = where.load(std::memory_order_relaxed);
  if (who == nullptr) {
    auto made = std::make_unique<peer>(rank);
    made->ours = new (arena().allocate(sizeof(device_table))) device_table;
    who = peer_store_.emplace_back(std::move(made)).get();  // there is room
    // edge connections.peer: partner is the acquire load in find().
    where.store(who, std::memory_order_release);
  }
  return *who;
}

errorcode_t connections::meet_locked(int rank, peer*& out) {
  try {
    peer& who = peer_locked(rank);
    out = &who;
    if (who.has_ended()) return errorcode_t::fatal;
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
    // edge peer.mapped: partner is every acquire load of `state` that is followed by use of the
    // fields above.
    who.state.store(contact::mapped, std::memory_order_release);
    mapped_.push_back(&who);
    announce_here_locked();
    report(who, net::peer_event::connected);
    return errorcode_t::done;
  } catch (const std::exception& e) {
    warn_locked(trouble::contact, "no contact to rank %d for now: %s", rank, e.what());
    return errorcode_t::retry_nomem;
  }
}

// Memory for one more connection, before there is one: one that had to be closed for want of it
// would look like our end to the other side. Throws std::bad_alloc.
connections::link_map::node_type connections::new_link_locked() {
  link_map one;
  one.try_emplace(-1);
  links_.reserve(links_.size() + 1);
  return one.extract(one.begin());
}

connections::link& connections::add_locked(link_map::node_type&& node) noexcept {
  node.key() = node.mapped().socket.get();
  node.mapped().is_ours.reset(node.key());
  return links_.insert(std::move(node)).position->second;
}

errorcode_t connections::greet_locked(peer& who) {
  const std::string text = config_.book->lookup(who.rank);
  if (text.empty()) return errorcode_t::retry_nomem;
  const auto there = shm::address::parse(text);
  std::string why = there ? there->why_unreachable(here_) : "its address does not parse: " + text;
  link_map::node_type node = new_link_locked();
  if (why.empty()) {
    base::descriptor& socket = node.mapped().socket;
    const int error = connect_to(there->id, socket);
    // EAGAIN: its queue of callers is full for the moment; the same when we are short of
    // descriptors.
    if (error == EAGAIN || error == EMFILE || error == ENFILE || error == ENOMEM) {
      return errorcode_t::retry_nomem;
    }
    if (error != 0) {
      why = std::string("no process listens at its address (") + std::strerror(error) +
            "): the process has ended, or lives in another network namespace";
    } else if (const uid_t user = peer_of(socket.get()).uid; user != geteuid()) {
      why = "it belongs to user " + std::to_string(user) + ", not to this process's user";
    }
  }
  if (!why.empty()) {
    // It may have called us and written before it ended; then that comes first.
    look_locked();
    if (who.has_ended()) return errorcode_t::fatal;
    if (who.state.load(std::memory_order_relaxed) != contact::none) return errorcode_t::done;
    end_locked(who, ending::lost, why);
    return errorcode_t::fatal;
  }
  const int fd = node.mapped().socket.get();
  watch(fd, EPOLLIN | EPOLLRDHUP);
  // Fails for now if too many descriptors of this user are under way; then the next post tries
  // again.
  if (send_hello_locked(node.mapped(), who, there->id) != 0) return errorcode_t::retry_nomem;
  add_locked(std::move(node)).who = &who;
  ++who.links;
  watch_process_locked(who, peer_of(fd).pid);
  // Relaxed: no thread uses a field marked M before `mapped`, and all else has the lock.
  who.state.store(contact::greeted, std::memory_order_relaxed);
  report(who, net::peer_event::connect);
  return errorcode_t::done;
}

int connections::send_hello_locked(link& on, peer& to, const fabric_id& to_id) {
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

// Answers whether there may be more to see.
bool connections::look_locked() noexcept {
  looks_.store(looks_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  bool has_more = false;
  try {
    // An answer that could not be sent: the limit on descriptors under way may have eased. A hello
    // that came when there was no memory.
    std::array<int, 16> again;
    std::size_t waiting = 0;
    for (auto& [fd, on] : links_) {
      if (on.who != nullptr && !on.greeted) send_hello_locked(on, *on.who, fabric_id{});
      if (on.said.size != 0 && waiting < again.size()) again[waiting++] = fd;
    }
    while (waiting > 0) read_locked(again[--waiting]);
    std::array<epoll_event, 64> events;
    const int n = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
    has_more = n == static_cast<int>(events.size());
    for (int i = 0; i < n; ++i) {
      const int fd = events[static_cast<std::size_t>(i)].data.fd;
      if (fd == listener_.get()) {
        has_more |= accept_locked();
      } else if (processes_.contains(fd)) {
        look_at_process_locked(fd);
      } else {
        read_locked(fd);
      }
    }
  } catch (const std::bad_alloc&) {
    has_more = true;  // what was not dealt with is still there at the next look
  } catch (const std::exception& e) {
    has_more = true;
    warn_locked(trouble::look, "looking at the sockets: %s", e.what());
  }
  return has_more;
}

// Said often enough to be noticed; a flood of strangers shall not become a flood of lines.
// Nor shall what each post, or each look, meets again.
LCI_COLD void connections::warn_locked(trouble of, const char* format, ...) noexcept {
  static constexpr const char* MORE[] = {"more refusals", "more failures of contact",
                                         "more failures of lanes", "more of these"};
  const auto kind = static_cast<std::size_t>(of);
  const std::uint64_t number = troubles_[kind].fetch_add(1, std::memory_order_relaxed) + 1;
  if (number > MOST_WARNINGS) return;
  char text[512];
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  log::warn("shm", "%s", text);
  if (number == MOST_WARNINGS) log::warn("shm", "%s will not be shown", MORE[kind]);
}

// Answers whether others may be waiting.
bool connections::accept_locked() {
  for (int left = MAX_ACCEPTS; left > 0; --left) {
    link_map::node_type node = new_link_locked();
    link& on = node.mapped();
    on.socket.reset(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    // None; or short of descriptors, and the next look tries again.
    if (!on.socket) return errno != EAGAIN && errno != EWOULDBLOCK;
    const credentials caller = peer_of(on.socket.get());
    if (caller.uid != geteuid()) {
      warn_locked(trouble::caller, "refused a process of user %u: this one belongs to user %u",
                  caller.uid, geteuid());
      continue;
    }
    on.accepted = true;
    const int fd = on.socket.get();
    watch(fd, EPOLLIN | EPOLLRDHUP);
    add_locked(std::move(node));
    read_locked(fd);  // its hello is there already, as a rule
  }
  return true;
}

void connections::read_locked(int fd) noexcept {
  bool was_reset = false;
  for (;;) {
    const auto found = links_.find(fd);
    if (found == links_.end()) return;
    received& said = found->second.said;
    if (said.size == 0) {
      said = receive_record(fd);
      const int error = std::exchange(said.error, 0);
      if (error == EAGAIN || error == EINTR) return;
      // It closed before it had read all that we sent. The system tells that first, once, and then
      // still hands out what was written before, a bye as a rule.
      if (error == ECONNRESET && !was_reset) {
        was_reset = true;
        continue;
      }
      if (error != 0 || said.size == 0) {
        return hang_up_locked(fd, error != 0 ? std::strerror(error) : "");
      }
    }
    if (!take_record_locked(fd, found->second)) return;
    said = {};
  }
}

// False: nothing more is to be read from it now. What there was no memory for stays where it is.
bool connections::take_record_locked(int fd, link& on) noexcept {
  const std::span<const std::byte> bytes(on.said.bytes.data(), on.said.size);
  if (on.who != nullptr && is_bye(bytes)) {
    if (!on.who->has_ended()) on.who->has_said_bye = true;
    return true;
  }
  if (const std::string_view why = words_of_refusal(bytes); on.who != nullptr && !why.empty()) {
    be_refused_locked(*on.who, why);
    return true;
  }
  try {
    if (take_hello_locked(on, on.said)) return true;
    hang_up_locked(fd, "");
  } catch (const std::bad_alloc&) {
    return false;
  } catch (const std::exception& e) {
    count_dropped();
    warn_locked(trouble::caller, "a hello was refused: %s", e.what());
    hang_up_locked(fd, e.what());
  }
  return false;
}

// It lives, but there is no way to it. Its words are not ours.
void connections::be_refused_locked(peer& who, std::string_view why) noexcept {
  char text[refusal::MOST + 64];
  const int size = std::snprintf(text, sizeof(text), "it refused this rank, in its words: \"%.*s\"",
                                 static_cast<int>(why.size()), why.data());
  end_locked(who, ending::lost, {text, static_cast<std::size_t>(size)});
}

// False: it comes late. When both sides called at once, one that has met us over our call and has
// left may still have a call of its own waiting here.
bool connections::take_hello_locked(link& on, received& record) {
  const auto [said, why] = decode_hello({record.bytes.data(), record.size});
  if (!why.empty()) throw backend_error(why);
  if (said.rank < 0 || said.rank >= size() || said.rank == config_.book->rank() ||
      (on.who != nullptr && on.who->rank != said.rank)) {
    throw backend_error("it says that it is rank " + std::to_string(said.rank));
  }
  if (on.accepted && said.to != here_.id) throw backend_error("it names another fabric");
  // The book is the authority on who is who, as far as it knows.
  const std::string text = config_.book->lookup(said.rank);
  const auto known = text.empty() ? std::nullopt : shm::address::parse(text);
  if (known && known->id != said.from) {
    throw backend_error("it is not the rank " + std::to_string(said.rank) + " of this job");
  }
  peer& who = peer_locked(said.rank);
  if (who.has_ended()) {
    if (who.end.load(std::memory_order_relaxed) == ending::left &&
        who.state.load(std::memory_order_relaxed) == contact::mapped)
      return false;
    throw backend_error("its rank has ended already");
  }
  if (on.who == nullptr) {
    on.who = &who;
    ++who.links;
  }
  // When both sides called at once there are two sockets and a hello on each; one mapping is
  // enough.
  if (who.state.load(std::memory_order_relaxed) != contact::mapped) {
    try {
      map_locked(who, said, on, record);
    } catch (const backend_error& e) {
      who.is_refused = true;
      send_refusal(on.socket.get(), e.what());
      throw;
    }
  }
  if (on.accepted && !on.greeted) send_hello_locked(on, who, said.from);
  return true;
}

void connections::map_locked(peer& who, const hello& said, link& on, received& record) {
  if (!record.passed) throw backend_error("it passed no memory file");
  if (!who.memory.is_mapped()) {  // else for want of memory it went no further the last time
    who.memory.map(record.passed.get(), said.arena_reserve, arena());
    record.passed.release();
  }
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
  watch_process_locked(who, who.pid);
  who.single_copy.store(config_.shm_single_copy && who.pid > 0 &&
                            single_copy_works(who.pid, said.probe_address, said.probe_value),
                        std::memory_order_relaxed);
  // edge peer.mapped: partner is every acquire load of `state` that is followed by use of the
  // above.
  who.state.store(contact::mapped, std::memory_order_release);
  mapped_.push_back(&who);
  announce_here_locked();
  // Lanes that we wrote before we knew where to say so. edge lane.announce: their offsets before
  // the count; partner is the acquire load in inbox::poll().
  for (std::size_t i = 0; i < MAX_DEVICES; ++i) {
    if (who.ours->directory[i].load(std::memory_order_relaxed) != 0) {
      who.control->announce[i].count.fetch_add(1, std::memory_order_release);
    }
  }
  report(who, net::peer_event::connected);
}

void connections::report(const peer& who, net::peer_event what) noexcept {
  if (config_.peers != nullptr) config_.peers->report(who.rank, what);
}

}  // namespace lci::shm
