// libibverbs without a card: a shared library called libibverbs.so.1 that is loaded like the real
// one. What a test wants to know or to set goes through this interface, which the same library
// hands out (lci_fake_ibv()).
//
// The model: every context of this process is on one network. A work request is carried out when it
// is posted, in order, or as soon as the other side has a receive for it. A place in a send queue
// is free once a later signalled completion was polled; all that is unfinished on a broken queue
// pair is flushed, signalled or not, as cards do. Threads: shared, one lock. Always true: what a
// card answers with a completion is answered so; what no card forgives (a completion queue that
// overflows, receives that nobody may write to) is a complaint, which ends the program unless the
// test collects them.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

namespace lci::test {

struct fake_gid {
  std::string address;  // "fe80::1", "::ffff:10.0.0.1"; empty: no entry
  ibv_gid_type type = IBV_GID_TYPE_ROCE_V2;
};

struct fake_port {
  ibv_port_state state = IBV_PORT_ACTIVE;
  std::uint8_t link_layer = IBV_LINK_LAYER_ETHERNET;
  std::uint8_t width = 2, speed = 32;  // 4 lanes of 25 Gbit/s
  std::uint16_t lid = 0;
  std::vector<fake_gid> gids = {{"fe80::1", IBV_GID_TYPE_ROCE_V1},
                                {"fe80::1", IBV_GID_TYPE_ROCE_V2},
                                {"::ffff:10.0.0.1", IBV_GID_TYPE_ROCE_V1},
                                {"::ffff:10.0.0.1", IBV_GID_TYPE_ROCE_V2}};
};

struct fake_device {
  std::string name = "fake_0";
  std::vector<fake_port> ports = {fake_port{}};
  int max_qp_wr = 8192, max_cqe = 1 << 22, max_srq_wr = 4096;
  int max_qp_rd_atom = 16, max_qp_init_rd_atom = 16;  // reads at once: of peers, of its own
  std::uint32_t max_msg_sz = 1u << 30;
  std::uint32_t max_inline = 512;
  // What not every card offers. With LCI_FAKE_IBV_PLAIN in the environment none does.
  bool has_extended_queues = std::getenv("LCI_FAKE_IBV_PLAIN") == nullptr;
  bool has_thread_domains = std::getenv("LCI_FAKE_IBV_PLAIN") == nullptr;
  std::uint64_t max_mr_size = ~std::uint64_t{0};
  ibv_transport_type transport = IBV_TRANSPORT_IB;
  bool has_paging = false, has_implicit_paging = false;  // on demand
};

// So many, each with a name and addresses of its own.
inline std::vector<fake_device> fake_cards(std::size_t count) {
  std::vector<fake_device> out(count);
  for (std::size_t i = 0; i < count; ++i) {
    out[i].name = "fake_" + std::to_string(i);
    for (fake_gid& gid : out[i].ports[0].gids) gid.address.back() = static_cast<char>('1' + i);
  }
  return out;
}

struct fake_ibv_config {
  std::vector<fake_device> devices = {fake_device{}};
  int most_per_poll = 0;     // completions that one poll hands out; 0: as many as asked for
  unsigned delay = 0;        // polls of its queue before a completion is seen
  unsigned order_seed = 0;   // 0: as they came; else mixed, in order for each queue pair
  unsigned flush_delay = 0;  // polls before a broken queue pair flushes; 0: all of them, now
  unsigned lose = 0;         // one datagram in so many is lost; 1: all
  unsigned repeat = 0;       // one in so many comes twice
  unsigned hold = 0;         // one in so many comes after its successor
  // Bytes that all may have registered together, as under a limit of locked memory: else ENOMEM.
  std::uint64_t most_registered = ~std::uint64_t{0};
  bool collects = false;  // complaints are kept instead of ending the program
  bool waits_for_dead =
      false;  // who is gone is noticed after the time of the queue pair, not at once
  bool never_gives_up = false;  // nor after it
};

// Objects that are alive.
struct fake_ibv_live {
  std::size_t lists = 0, contexts = 0, pds = 0, mrs = 0, cqs = 0, srqs = 0, qps = 0, ahs = 0,
              tds = 0, unacknowledged_events = 0;
  std::size_t all() const {
    return lists + contexts + pds + mrs + cqs + srqs + qps + ahs + tds + unacknowledged_events;
  }
};

// A registration that is alive.
struct fake_region {
  const void* address = nullptr;  // null: of a dma-buf
  std::size_t size = 0;
  unsigned access = 0;
};

// What a reliable queue pair that is ready to send was told.
struct fake_connection {
  std::string device;                          // where it is
  unsigned reads_served = 0, reads_asked = 0;  // at once: max_dest_rd_atomic, max_rd_atomic
};

// What ibv_advise_mr was told.
struct fake_advice {
  ibv_advise_mr_advice what{};
  std::uint64_t address = 0;
  std::size_t size = 0;
};

class fake_ibv {
 public:
  // Everything as at the start. Complains about what is alive.
  virtual void reset(const fake_ibv_config& config = {}) = 0;
  // Changes what is not about devices, now.
  virtual void change(const fake_ibv_config& config) = 0;
  // The n-th call from now (1: the next) of that name ("ibv_create_qp", "post_send") fails, and
  // `times` - 1 after it.
  virtual void fail_nth(const std::string& call, int n, int error, int times = 1) = 0;
  virtual void reset_failures() = 0;
  // Calls by name since reset() or forget_counts(); of post_send and its like work requests, while
  // "doorbell" counts the calls. "rdma on fake_1": writes and reads that were posted on that card.
  virtual std::size_t count(const std::string& call) = 0;
  virtual void forget_counts() = 0;
  virtual fake_ibv_live live() = 0;
  virtual std::vector<std::string> take_complaints() = 0;
  // The n-th context that was opened of those that are open: it vanishes from the network, as when
  // its process is killed.
  virtual void kill(std::size_t context) = 0;
  // The queue pairs for datagrams of that context break.
  virtual void break_datagrams(std::size_t context) = 0;
  // That context's card is taken out. What asks the kernel answers EIO; what is posted is taken,
  // and nothing is carried out, flushed or completed any more. Objects can be destroyed. It says so
  // by an event, and without `says_so` only by the answer of who asks for events.
  virtual void remove(std::size_t context, bool says_so = true) = 0;
  // Something about a device is different from now on; no port comes or goes.
  virtual void change_device(std::size_t device, const std::function<void(fake_device&)>& how) = 0;
  // Something happens to that context, or to that port of it.
  virtual void raise(std::size_t context, ibv_event_type what, int port = 1) = 0;
  // Completions that wait to be polled.
  virtual std::size_t waiting_completions() = 0;
  virtual std::size_t registered_bytes() = 0;
  virtual std::vector<fake_region> registrations() = 0;
  virtual std::vector<fake_advice> take_advice() = 0;
  virtual std::vector<fake_connection> connections() = 0;
  // Receives of queue pairs for datagrams.
  virtual std::size_t posted_receives() = 0;
  // Called around whatever the library does by itself; null: nothing. Nobody may be inside.
  virtual void call_around(void (*begin)(), void (*end)()) = 0;

 protected:
  ~fake_ibv() = default;
};

// Loads the library from `path`, or finds the one that the process has loaded already (empty). Null
// when there is none, or it is no fake. From then on dlopen("libibverbs.so.1") finds it.
fake_ibv* load_fake_ibv(const std::string& path);

}  // namespace lci::test
