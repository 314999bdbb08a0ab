// The seam to multi-rail, several cards that a process uses together, which is in
// experimental/ibv/multi_rail: the queue pairs that a device has on the cards beside the first, and
// what registers memory with those. Callers: the classes of the same names without `rail`; the
// makers fabric. Threads: as said at each part. Always true: everything that is ordered goes over
// the first card; where multi-rail is not built there is no other one, and the makers answer null.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "backends/ibv/wire.hpp"
#include "lci/net/backend.hpp"

namespace lci::ibv {

class cards;
class connection;
class event_queue;
struct mr_set;
class regions;
struct registration;
struct send_record;

// A write or read that the first card could take, whole.
struct rail_op {
  const net::net_op& op;
  ibv_wr_opcode what;
  connection& on;  // of the first card
  const net::remote_target& at;
  std::uint64_t registered;  // for this operation alone; 0: nothing was
};

class rail_queues {
 public:
  virtual ~rail_queues() = default;
  // ---- under the connector's lock; they throw backend_error ----
  virtual void make_connection(int rank) = 0;
  // What the peer has to know of them to connect its own.
  virtual void describe(int rank, hello& out) const = 0;
  // Connects those that the peer has told of; on.rails says which of them reach it.
  virtual void accept(connection& on, const hello& said) = 0;
  // ---- posts: shared ----
  // False: it goes whole over the first card. Else `answer` is what the post answers.
  virtual bool post(const rail_op& one, errorcode_t& answer) noexcept = 0;
  // ---- the polling thread ----
  virtual void poll(net::sink& to, bool is_first_dry) noexcept = 0;
  // Goes on with what found no room.
  virtual void serve(net::sink& to) noexcept = 0;
  // A part of an operation, or the notice behind all of them, has ended.
  virtual void finish(net::sink& to, const send_record& record, const char* error) noexcept = 0;
  // The connection on the first card has ended: these do, too.
  virtual void stop(const connection& on) noexcept = 0;
  virtual void drop_posted(net::sink& to, const connection& on, const char* reason) noexcept = 0;
  virtual void lose_all(net::sink& to, const char* reason) noexcept = 0;
  // No user is told of what is under way. By the only thread that uses the device.
  virtual void forget_users() noexcept = 0;
  virtual bool is_beyond_hope(int rank, std::uint64_t now) noexcept = 0;
};
// Null: there is one card. Throws backend_error.
std::unique_ptr<rail_queues> make_rail_queues(event_queue& of);

// Registrations with the other cards, of what is long enough to be cut. One that a card refuses is
// not used over that card. Threads: shared.
class rail_regions {
 public:
  virtual ~rail_regions() = default;
  // Before the first card registers it.
  virtual void prepare(registration& made) = 0;
  // Once the first card has.
  virtual void add(mr_set& to, void* address, std::size_t size, mem::mem_kind kind) = 0;
  // The same of a range of the arena, which is registered when it is asked for first.
  virtual void add_of_arena(std::array<const ibv_mr*, MAX_RAILS>& to, std::uint64_t offset,
                            std::size_t size) noexcept = 0;
};
// As make_rail_queues().
std::unique_ptr<rail_regions> make_rail_regions(const cards& on, regions& of);

}  // namespace lci::ibv
