// The backend contract: what a network must offer, and what it may leave out by saying so in its
// capabilities.
//
//   fabric    one per runtime and network: opening, addresses, registration
//   device    an independent set of queues of a fabric: batched poll
//   endpoint  a send side of a device: send, put, put with immediate, get
//   sink      what a device calls back from poll() (implemented by proto)
//
// Threads: fabric and device set-up is single; register/deregister, every endpoint call and poll()
// are shared. Always true: a call that answers retry_* has begun nothing and keeps nothing. What it
// may have changed is bytes that the operation itself would write, of the target of a put or of the
// buffer of a get, by a copy that broke off; no immediate is sent for them. A context is handed to
// sink::on_complete or sink::on_error exactly once if the call answered posted, and never
// otherwise. Nothing throws across this seam except set-up calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "lci/base/platform.hpp"
#include "lci/base/spin.hpp"
#include "lci/mem/accelerator.hpp"
#include "lci/mem/memory_kind.hpp"
#include "lci/mem/region_table.hpp"
#include "lci/mem/registration_ladder.hpp"
#include "lci/types.hpp"

namespace lci::mem {
class arena;
struct packet;
class packet_pool;
}  // namespace lci::mem

namespace lci::net {

class peer_table;

// What a fabric can do. Code above the seam asks these, never which backend it has.
struct capabilities {
  std::size_t max_inject = 0;  // bytes: head + payload of send_inline(); at least 64, and 88 where
                               // target_of() says something
  std::size_t max_send = 0;    // bytes: payload of one send()
  std::size_t max_rma = 0;     // bytes: one put() or get(); the layer above splits what is longer
  // Bytes: what is longer is faster in pieces of so many.
  std::size_t best_rma = std::size_t{1} << 62;
  // Bytes of large active messages that one peer may have under way at once without being slower;
  // 0: any number.
  std::size_t best_at_once = 0;
  bool write_with_immediate =
      false;                   // put_imm() delivers data, then the immediate, in one operation
  bool one_sided = false;      // put and get complete without the target calling poll()
  bool device_memory = false;  // buffers may be GPU memory, if it could be registered
  // An operation that names a registration which the peer has withdrawn fails alone. False: it
  // takes the connection along, as cards do: the peer has ended then.
  bool outlives_stale_keys = true;
  bool keeps_registrations = false;  // as fabric_config::use_reg_cache wants it
  bool ordered = false;  // sends of one thread to one peer device are delivered in the order posted
  // A put with net_op::in_order is in order once it is posted. False: only once it is done or has
  // completed.
  bool orders_puts = false;
  // Host memory outside the arena has to be registered, here or at the peer. False:
  // register_region() answers 0 for it and target_of() says nothing.
  bool needs_keys = true;
};

// What a network is called by those who look after it.
struct network_names {
  std::string provider;  // what it is made of: "verbs", "tcp;ofi_rxm"
  std::string device;    // the card or interface; empty where there is none
};

// Names a registration of a peer: a row of its mem::region_table. 0 in both fields is nothing.
struct remote_key {
  std::uint32_t slot = 0;
  std::uint32_t generation = 0;
};

// The same for the network's card: where a registration of a peer is, in words that only its own
// network can make, and that the peer has sent along so that no rank has to ask. key 0: nothing.
struct remote_target {
  std::uint64_t address = 0;  // of byte 0
  std::uint64_t key = 0;
  std::uint64_t more = 0;  // of the key
};

// One operation on a buffer, as plain data, so that any poster can build it.
struct net_op {
  int rank = -1;
  std::uint32_t imm = 0;   // delivered by send() and put_imm()
  void* buffer = nullptr;  // local source, for get the destination
  std::size_t size = 0;    // bytes; 0 is legal everywhere
  mem::mem_kind kind = mem::mem_kind::host;
  std::uint64_t local_key = 0;  // from fabric::register_region(), 0 = not registered
  mem::packet* packet =
      nullptr;  // send() only: the library packet whose payload `buffer` is. Unless the answer is
                // retry the backend owns it from here on and returns it to its pool.
  remote_key remote;                // put, put_imm, get
  remote_target at;                 // ... if the peer has said it; `remote` is then not looked up
  std::uint64_t remote_offset = 0;  // bytes from the start of the remote registration
  void* context = nullptr;          // given back with the completion; null: no completion is wanted
  bool in_order = false;            // put, put_imm: nothing waits until the data is visible, only
                                    // until it is in order; so without a context anyway
  bool fence =
      false;  // start only after every earlier put of this endpoint to this rank is visible there
};

// A message as poll() presents it.
struct arrival {
  int rank = -1;
  std::uint32_t imm = 0;
  // Valid during on_message() until the sink polls again, and longer if kept.
  const std::byte* data = nullptr;
  std::size_t size = 0;
  mem::packet* packet = nullptr;  // if set, data lies in its payload and the receiver may keep it
};

enum class verdict : std::uint8_t {
  taken,  // data has been used or copied
  kept,  // arrival::packet now belongs to the receiver, which returns it with mem::release_packet()
  deferred  // cannot be taken now; the same message comes again at a later poll. No message and no
            // immediate behind it overtakes; what this rank has posted may complete meanwhile
};

// Called from poll(), in the polling thread, and from poll_beside(). Implementations do not throw:
// what user code throws is kept and rethrown after the batch by the thread that called poll().
class sink {
 public:
  // May poll again, once it has done with the bytes: the place where they lie goes back to the
  // network then, so that sinks inside of sinks can wait for any number of messages. It must not
  // answer deferred after that.
  virtual verdict on_message(const arrival& message) noexcept = 0;
  // The same from a thread that is not the one inside poll() of the device, possibly while that one
  // is: only for sinks and messages for which this makes no difference. deferred: the thread inside
  // gets it.
  virtual verdict on_message_beside(const arrival& /*message*/) noexcept {
    return verdict::deferred;
  }
  // The data of a put_imm() from `rank` is visible.
  virtual void on_immediate(int rank, std::uint32_t imm) noexcept = 0;
  // A posted operation has completed: its buffer is reusable, for put it is visible at the target,
  // for get it has arrived.
  virtual void on_complete(void* context) noexcept = 0;
  // A posted operation has failed; rank is -1 where the backend cannot tell.
  virtual void on_error(int rank, void* context, std::string_view reason) noexcept = 0;
  // Nothing more will come from or go to `rank`; said once, after everything that it sent before
  // was delivered, and before the operations that fail by it are. orderly: the peer left (it
  // closed its fabric); else it died or the link failed. The library's sink reports it to the
  // peer_table; what a backend keeps of its own to get that far is about one connection or one
  // device, never read as the state of the rank.
  virtual void on_peer_ended(int rank, bool orderly, std::string_view reason) noexcept = 0;

 protected:
  ~sink() = default;
};

// See endpoint::put_inline().
struct small_put {
  int rank = -1;
  remote_key remote;
  std::uint64_t offset = 0;    // from the start of the region
  const void* data = nullptr;  // copied before the call returns
  std::size_t size = 0;        // bytes, not 0
  bool has_imm = false;
  std::uint32_t imm = 0;
};

class endpoint {
 public:
  virtual ~endpoint() = default;
  // Copies head and payload (together <= max_inject) before it returns; the message arrives as
  // their concatenation. Answers done or retry_*.
  virtual errorcode_t send_inline(int rank, std::uint32_t imm, const void* head,
                                  std::size_t head_size, const void* payload,
                                  std::size_t size) noexcept = 0;
  // size <= max_send. done: finished (the packet, if any, is the backend's); posted: completion
  // follows; retry_*.
  virtual errorcode_t send(const net_op& op) noexcept = 0;
  // One-sided operations on registered memory; size <= max_rma. Answers done, posted or retry_*.
  // An operation outside the bounds that check_remote() knows writes nothing and is reported
  // through on_error. done: the buffer is reusable, and the data of a put is visible at the target
  // (as after on_complete), except that it may still be on its way, but in order, if the put has
  // in_order or no context, and that of a put_imm. In order: whatever happens after the answer and
  // is posted to that rank through the same device, by any thread and any endpoint, comes behind
  // it: messages, immediates and gets find the data, and a later put to the same bytes wins
  // (docs/decisions/0028-order-behind-puts.md).
  virtual errorcode_t put(const net_op& op) noexcept = 0;
  // A put of a few bytes into host memory, done in order as above when the call returns done, and
  // checked like any other. Any other answer: nothing happened, and the general way is to be taken.
  // Only for networks that are quicker by it.
  virtual errorcode_t put_inline(const small_put& /*what*/) noexcept { return errorcode_t::retry; }
  virtual errorcode_t put_imm(const net_op& op) noexcept = 0;
  virtual errorcode_t get(const net_op& op) noexcept = 0;
  // What a post to that rank would be answered now, as far as is known before it is made: retry_*
  // begins to connect as the post would, fatal as well as done may be wrong. Asked before something
  // dear is made for a post, such as a registration.
  virtual errorcode_t would_post(int /*rank*/) noexcept { return errorcode_t::done; }
  // What the calling thread has sent to this rank's device and was not dealt with there yet. 0:
  // nothing; else a number that is another one after each further send. UNKNOWN: cannot tell.
  static constexpr std::uint64_t UNKNOWN = ~std::uint64_t{0};
  virtual std::uint64_t unconsumed(int /*rank*/) noexcept { return UNKNOWN; }
};

class device {
 public:
  // Calls no sink.
  virtual ~device() = default;
  virtual std::unique_ptr<endpoint> make_endpoint() = 0;
  // For the protocols' own messages, which go on with what others began: device_config's reserve is
  // theirs.
  virtual std::unique_ptr<endpoint> make_control_endpoint() { return make_endpoint(); }
  // Presents up to about `max` events to the sink; answers how many. Only one thread is inside at a
  // time: for another one it is poll_beside(). Re-entrant: a sink may call poll() again and sees
  // later events.
  virtual std::size_t poll(sink& to, std::size_t max) noexcept = 0;
  // By a thread that shares the device with the one inside: presents what it may to
  // on_message_beside(), or pauses. Messages of one thread of a peer stay in order.
  virtual std::size_t poll_beside(sink& /*to*/, std::size_t /*max*/) noexcept {
    base::turn_away::wait();
    return 0;
  }
  // True when nothing posted on this device is still under way inside the backend.
  virtual bool is_drained() const noexcept = 0;
  // False when nothing of `rank` can be on its way to this device: it was never met here, or
  // on_peer_ended() was said. Asked of ranks that ended; true as well where that is not known.
  // Threads: any.
  virtual bool may_bring(int /*rank*/) const noexcept { return true; }
};

// What a peer's registration looks like from here.
struct remote_view {
  enum class answer : std::uint8_t { ok, not_connected, unknown_key } what = answer::not_connected;
  std::size_t size = 0;  // bytes of the registration when ok
  mem::mem_kind kind = mem::mem_kind::host;
  std::uint64_t address = 0;  // in the peer's process: a name here
  mem::share_place share;     // of device memory that processes of this machine can map
  bool off_network = false;   // device memory that the peer's network has not registered
  remote_target at;           // for net_op::at, if the network knows it
};

// The same of a row of a region table; unknown_key of none.
inline remote_view view_of(const std::optional<mem::region>& row) noexcept {
  remote_view out;
  out.what = row ? remote_view::answer::ok : remote_view::answer::unknown_key;
  if (!row) return out;
  out.size = row->size;
  out.kind = row->kind;
  out.address = reinterpret_cast<std::uint64_t>(row->address);
  out.share = row->share;
  out.off_network = row->off_network;
  return out;
}

// What is asked of a device. Networks without such queues take no notice.
struct device_config {
  std::size_t max_sends = 64;    // work requests on the way to one peer
  std::size_t max_recvs = 4096;  // packets for receives
  std::size_t max_cqes = 65536;  // completions for which there is room from the start; there is
                                 // more as soon as peers need it
  attr_ibv_td_strategy_t ibv_td_strategy = attr_ibv_td_strategy_t::per_qp;
  double send_reserve = 0.25;  // share of max_sends that only control endpoints fill, in [0, 1)
  std::uint64_t ofi_lock_mode = 0;              // bits of attr_net_lock_mode_t
  std::size_t shm_max_polls = ~std::size_t{0};  // messages that one poll of shared memory presents
  bool operator==(const device_config&) const = default;
};

class kernel_card;

class fabric {
 public:
  virtual ~fabric() = default;
  // What holds for every peer, but `device_memory` and `needs_keys`: for one at least.
  virtual const capabilities& caps() const noexcept = 0;
  // What holds for that peer.
  const capabilities& caps_of(int rank) const noexcept {
    return caps_by_rank_ == nullptr ? caps() : *caps_by_rank_[rank];
  }
  virtual std::string_view name() const noexcept = 0;
  // For people.
  virtual network_names names() const { return {std::string(name()), {}}; }
  // What other ranks need to reach this fabric; exchanged once through the bootstrap. At most 200
  // bytes.
  virtual std::string address() const = 0;
  // index: device k of one rank talks to device k of another. config: what is wanted, and on
  // return what there is: of an index that was used before, what its first device had. Throws
  // backend_error.
  virtual std::unique_ptr<device> make_device(int index, device_config& config) = 0;
  std::unique_ptr<device> make_device(int index) {
    device_config usual;
    return make_device(index, usual);
  }
  // Why a rank with that address cannot be reached; empty: nothing in it says so.
  virtual std::string why_out_of_reach(std::string_view /*address*/) const { return {}; }
  // Starts a connection if there is none yet; does not wait. Posts do this themselves.
  virtual void connect(int rank) noexcept = 0;
  // Looks up bounds of a peer's registration, so that a wrong put throws where it is posted.
  // device: the index of the one on which that is. What is not known yet is asked for over it
  // alone, since perhaps no thread polls another one, here or there.
  virtual remote_view check_remote(int rank, remote_key key, int device) noexcept = 0;
  remote_view check_remote(int rank, remote_key key) noexcept { return check_remote(rank, key, 0); }
  // The bytes of a peer's arena at that place, where this network maps them; null where it does
  // not.
  virtual std::byte* reach(int /*rank*/, std::uint64_t /*place*/, std::size_t /*size*/) noexcept {
    return nullptr;
  }
  // The peer's process as seen from here; 0: on another machine, or not visible.
  virtual int process_of(int /*rank*/) noexcept { return 0; }
  // Registration of local memory, at least one byte, with this network; key 0 where none is needed,
  // as it may be for what lies in the arena. GPU memory (only with device_memory) that cannot be
  // registered is no error: `why_not` then has every reason, and it goes through host memory.
  // Throws backend_error.
  virtual std::uint64_t register_region(void* address, std::size_t size, mem::mem_kind kind,
                                        std::string& why_not) = 0;
  virtual void deregister_region(std::uint64_t local_key) noexcept = 0;
  // What register_region() has registered under this key goes by this name, a row of the region
  // table, from now on until it is deregistered: peers can look it up. Key 0: nothing had to be
  // registered, or could be, and peers find only what the row says. Throws std::bad_alloc: nothing
  // has changed.
  virtual void publish(remote_key /*name*/, std::uint64_t /*local_key*/) {}
  // What to send along for a published registration, or for a row of the region table that lies in
  // the arena. Nothing where peers of this network need no such thing, or for any other row.
  virtual remote_target target_of(remote_key /*name*/) noexcept { return {}; }
  // Takes in the ranks that have called and were not noticed yet, so that device::may_bring() knows
  // of them. False: not now, or not all. Nothing to do where no rank sends before it was answered.
  virtual bool hear_callers() noexcept { return true; }
  // The card whose queues kernels may write; null: this network drives none that could.
  virtual kernel_card* card_for_kernels() noexcept { return nullptr; }
  // Nothing that is on its way to or from that rank is of any use any more: leave() and the end of
  // the fabric do not wait for it, and say nothing to that rank. Devices may fail it or keep it;
  // their end comes next. has_failed: the rank has, as far as is known.
  virtual void let_go(int /*rank*/, bool /*has_failed*/) noexcept {}
  // Disconnects from connected peers, so that the hang-up that follows is not taken for a death.
  virtual void leave() noexcept = 0;

 protected:
  const capabilities* const* caps_by_rank_ = nullptr;  // where peers differ
};

// How a fabric finds the others: filled by runtime, used at first contact.
class address_book {
 public:
  virtual int rank() const noexcept = 0;
  virtual int size() const noexcept = 0;
  virtual std::string lookup(
      int rank) = 0;  // the peer's fabric::address(); empty while not yet known

 protected:
  ~address_book() = default;
};

// What a provider gets to open a fabric.
struct fabric_config {
  address_book* book = nullptr;
  mem::arena* arena = nullptr;  // where packets live; a backend registers or shares its memory
  mem::region_table* regions =
      nullptr;  // this process's registrations, the authority on what peers may touch
  // Where a fabric reports that it begins to connect with a rank, and that it has; null: it is not
  // asked for. That a rank has ended it says by sink::on_peer_ended(), in order with messages.
  // Networks with connections also read there that a rank has failed which they still call.
  peer_table* peers = nullptr;
  std::size_t max_inject_wanted = 64;
  std::string device_name;   // a card of the network; empty: the best
  int local_rank = 0;        // among the processes of this host: equally good cards are dealt out
  std::string ofi_provider;  // a filter, as libfabric takes it; empty: the best
  bool is_one_of_many = false;  // networks of this process: what its queues take counts first
  int ibv_gid_index = -1;       // -1: choose
  bool ibv_wants_gid = false;
  attr_ibv_odp_strategy_t ibv_odp = attr_ibv_odp_strategy_t::none;
  attr_ibv_prefetch_strategy_t ibv_prefetch = attr_ibv_prefetch_strategy_t::none;
  // Keep what register_region() made after its end, for the next use of that memory. Without effect
  // on networks that register nothing, and where unmapped memory is not reported.
  bool use_reg_cache = false;
  mem::ladder_rules gpu_rules;  // by which rungs GPU memory may be registered
  // Shared memory: which of the two ways a large message may take, and from which size the kernel's
  // single copy is preferred.
  bool shm_single_copy = true;
  bool shm_pipelined_copy = true;
  std::size_t shm_single_copy_min = 0;  // bytes; 0 = chosen by measurement
};

}  // namespace lci::net
