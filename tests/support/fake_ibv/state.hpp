// What the fake verbs library knows: its objects, and what was asked of it. Callers: this folder.
// Threads: everything under network::lock.
#pragma once

#include <infiniband/verbs.h>

#undef ibv_reg_mr
#undef ibv_query_port

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "tests/support/fake_ibv/fake_ibv.hpp"
#include "tests/support/library_lock.hpp"

namespace lci::test::fake {

struct card : ibv_device {
  const fake_device* about = nullptr;
};

// What newer calls are found in, with the older table as its end.
struct open_card : verbs_context {
  const fake_device* about = nullptr;
  bool is_dead = false;
  bool is_removed = false;
  std::deque<ibv_async_event> events;
};
inline open_card& card_of(ibv_context* c) {
  return *static_cast<open_card*>(reinterpret_cast<verbs_context*>(
      reinterpret_cast<char*>(c) - offsetof(verbs_context, context)));
}

struct thread_domain : ibv_td {
  int users = 0;
  std::atomic<bool> is_posting{false};
};

// Also one with a thread domain, for queue pairs: what is registered belongs to its parent.
struct domain : ibv_pd {
  int users = 0;
  domain* parent = nullptr;
  thread_domain* threads = nullptr;
  const domain* root() const { return parent != nullptr ? parent : this; }
};
inline domain& domain_of(ibv_pd* pd) { return *static_cast<domain*>(pd); }

struct region : ibv_mr {
  unsigned access = 0;
  std::uint64_t iova = 0;
};

struct queue_pair;

struct completion {
  ibv_wc what;
  queue_pair* of;        // null: it was destroyed
  std::uint64_t number;  // of the work request; what was posted up to it gives its place back
  bool is_send;
  std::uint64_t seen_from;  // number of the poll that sees it
};

// An older one is the beginning of an extended one.
struct completion_queue : ibv_cq_ex {
  int users = 0;
  std::uint64_t polls = 0;
  std::deque<completion> entries;
  // ---- of extended ones ----
  bool is_extended = false;
  std::uint64_t fields = 0;  // that were asked for
  bool is_polling = false;
  int handed_out = 0;  // by this poll
  ibv_wc now{};        // what the fields are read from
};
inline completion_queue& queue_of(ibv_cq* cq) {
  return *static_cast<completion_queue*>(reinterpret_cast<ibv_cq_ex*>(cq));
}

struct receive {
  std::uint64_t id;
  std::vector<ibv_sge> parts;
};

struct receive_queue : ibv_srq {
  int users = 0;
  std::uint32_t size = 0;
  std::uint32_t parts = 1;
  std::deque<receive> posted;
};

struct address : ibv_ah {
  ibv_ah_attr to{};
};

struct request {
  std::uint64_t number;
  std::uint64_t id;
  ibv_wr_opcode opcode;
  unsigned flags;
  std::uint32_t imm;
  std::uint64_t remote;
  std::uint32_t rkey;
  std::vector<ibv_sge> parts;
  std::vector<std::byte> inlined;
  std::uint64_t since = 0;  // nanoseconds, when it first found nobody
};

struct queue_pair : ibv_qp {
  ibv_qp_cap cap{};
  bool signals_all = false;
  ibv_qp_attr attr{};  // what was set
  bool was_rts = false;
  std::uint64_t posted = 0;      // numbers of work requests
  std::uint64_t freed = 0;       // below it places are free again
  std::deque<request> sends;     // not carried out yet
  std::deque<receive> receives;  // without a shared receive queue
  std::uint64_t flush_at = 0;    // poll of the send queue; 0: nothing is due
  open_card* owner() const { return &card_of(context); }
  const domain* home() const { return domain_of(pd).root(); }
  completion_queue& sent() const { return queue_of(send_cq); }
  completion_queue& received() const { return queue_of(recv_cq); }
  std::deque<receive>& receive_from() {
    return srq != nullptr ? static_cast<receive_queue*>(srq)->posted : receives;
  }
};

struct failure {
  int in;     // calls from now
  int times;  // how often
  int error;
};

struct network {
  library_lock<std::mutex> lock;
  fake_ibv_config config;
  std::vector<std::unique_ptr<card>> cards;
  std::vector<open_card*> contexts;
  std::unordered_map<std::uint32_t, queue_pair*> pairs;
  std::unordered_map<std::uint32_t, region*> by_lkey, by_rkey;
  std::uint64_t registered = 0;    // bytes of them, those of all memory at once not counted
  std::set<queue_pair*> waiting;   // for a receive, or for somebody who is not there
  std::set<queue_pair*> flushing;  // broken, not flushed
  struct datagram {
    std::uint32_t to;
    std::vector<std::byte> bytes;
  };
  std::vector<datagram> held;
  fake_ibv_live live;
  std::map<std::string, std::size_t, std::less<>> calls;
  std::map<std::string, std::deque<failure>, std::less<>> failures;
  std::vector<std::string> complaints;
  std::vector<fake_advice> advice;
  // What ibv_qp_to_qp_ex answers; made by who knows the queue pairs of a maker.
  std::map<ibv_qp*, ibv_qp_ex*> extended_pairs;
  std::uint32_t next_number = 17, next_key = 1, datagrams = 0, random = 1;

  network();
  void make_cards();
  std::uint32_t draw();
  bool one_in(unsigned n) { return n != 0 && draw() % n == 0; }
};

network& net();
// Counts the call; the errno that a test wants from it, or 0. Under the lock.
int enter(const char* call);
// The same of what asks the kernel for that context: EIO if its card was taken out.
int enter(const char* call, ibv_context* c);
void complain(const std::string& what);

// ---- queue_pairs.cpp ----
void run(queue_pair& q);
void run_waiting();
void break_pair(queue_pair& q);
void flush(queue_pair& q);
int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad);
int post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad);
int post_srq_recv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad);
// ---- transfer.cpp ----
// The bytes of that work request. False: a local key is wrong.
bool gather(const queue_pair& q, const request& r, std::vector<std::byte>& out);
bool scatter(const queue_pair& q, const std::vector<ibv_sge>& parts, const std::byte* from,
             std::size_t size);
region* remote_region(const queue_pair& q, std::uint32_t rkey, std::uint64_t at, std::size_t size,
                      unsigned access);
void move_bytes(void* to, const void* from, std::size_t size);
std::size_t size_of(const std::vector<ibv_sge>& parts);
// ---- entries.cpp ----
// False: the entry is empty.
bool gid_at(const fake_port& port, int index, ibv_gid& out);
// ---- paging.cpp ----
void offer_paging(open_card& c);
// ---- addresses.cpp ----
// Whether that address is the port of that queue pair.
bool is_at(const queue_pair& q, const ibv_ah_attr& to);
// Whether a card takes that address for that queue pair.
bool is_usable(const queue_pair& q, const ibv_ah_attr& to);
// Whether packets of a connected queue pair come to the other one and are taken there.
bool reaches(const queue_pair& from, const queue_pair& to);
// ---- datagrams.cpp ----
void send_datagram(queue_pair& q, request& r, const ibv_send_wr& wr);
void deliver_held();
// ---- completions.cpp ----
void complete_send(queue_pair& q, const request& r, ibv_wc_status status);
void complete_receive(queue_pair& q, const receive& r, const ibv_wc& what);
int poll_cq(ibv_cq* cq, int most, ibv_wc* out);
// One poll begins: what is due happens. Then completions one by one; false: none may be seen yet,
// or as many as a poll hands out were.
void begin_poll(completion_queue& cq);
bool take_next(completion_queue& cq, ibv_wc& out);
// ---- extended.cpp ----
// What a card offers that not every card does.
void offer_newer_calls(open_card& c);
completion_queue* make_queue(ibv_context* c, int cqe, void* its, ibv_comp_channel* channel);
void raise_event(open_card& on, ibv_event_type what, queue_pair* q, int port = 1);

}  // namespace lci::test::fake
