// What real programs do with the interface beyond calling it: classes of their own, handles in
// containers and atomics, addresses turned into handles; and the companion library under macros and
// classes of their own. Compiling this file is the test.
#include <getopt.h>

#include <atomic>
#include <cstdarg>
#include <cstdlib>

#include "lci.hpp"
#include "lct.h"

namespace client {

class own_completion : public lci::comp_impl_t {
 public:
  own_completion() { attr.zero_copy_am = true; }
  explicit own_completion(const attr_t& given) : lci::comp_impl_t(given) {}
  void signal(lci::status_t status) override { last = status; }
  lci::status_t last;
};

class own_allocator : public lci::allocator_base_t {
 public:
  void* allocate(size_t size) override { return ::operator new(size); }
  void deallocate(void* p) override { ::operator delete(p); }
};

// A node operation of a program's own: its context setter returns something else.
struct own_operation {
  void* context;
  void user_context(void* value) { context = value; }
  int operator()() { return 7; }
};

struct parcel {
  std::vector<lci::device_t> devices;
  std::atomic<lci::tag_t> next_tag;
  lci::comp_t completion = nullptr;
  lci::mr_impl_t* regions[4];
};

lci::comp_t completion_of(own_completion* object) {
  return lci::comp_t(static_cast<void*>(object));
}

lci::rcomp_t own_objects(own_completion& object, own_allocator& allocator, lci::comp_t graph) {
  lci::set_allocator(&allocator);
  lci::comp_t comp = completion_of(&object);
  own_completion* back = static_cast<own_completion*>(comp.get_impl());
  back->signal(lci::status_t(static_cast<void*>(back)));
  own_operation operation = own_operation();
  lci::graph_node_t node = lci::graph_add_node_op(graph, operation);
  lci::graph_add_edge(graph, node, lci::GRAPH_END);
  return lci::register_rcomp(comp);
}

bool send_parcel(parcel& p, int rank, void* buffer, size_t size, lci::rmr_t rmr, char* address) {
  if (p.completion == nullptr || p.completion.is_empty()) p.completion = lci::alloc_cq();
  const lci::device_t device = p.devices.front();
  lci::mr_t region(p.regions[0]);
  const uintptr_t disp = reinterpret_cast<uintptr_t>(address) - rmr.base;
  lci::status_t status = lci::post_put_x(rank, buffer, size, p.completion, disp, rmr)
                             .mr(region)
                             .device(device)
                             .user_context(&p)();
  // A stored operation is changed and run again.
  lci::post_send_x op(rank, buffer, size, p.next_tag++, p.completion);
  op.device(device).allow_done(false);
  while ((status = op.call()).is_retry()) lci::progress_x().device(device)();
  op.rank(rank + 1);
  lci::post_send_x copy = op;
  status = copy.tag(3).allow_retry(false)();
  p.regions[1] = lci::register_memory_x(buffer, size).device(device)().get_impl();
  int max_tag = static_cast<int>(lci::get_g_runtime().get_attr_max_tag());
  return status.is_posted() && max_tag > 0;
}

unsigned lock_mode_of_an_old_program() {
  // Words of the C library beside ours: lci::error_t must be spelled out.
  using namespace lci;
  global_attr_t attr = get_g_default_attr();
  attr.ofi_lock_mode = lci::LCI_NET_TRYLOCK_SEND | lci::LCI_NET_TRYLOCK_RECV;
  set_g_default_attr(attr);
  lci::error_t error;
  return error.is_retry() ? static_cast<unsigned>(attr.ofi_lock_mode) : 0u;
}

// A runtime's log and counters, on top of the companion library's: names of levels of its own,
// variables of its own, arguments handed on.
namespace runtime_layer {

enum level_t { NONE, PROFILE, STATUS, DETAIL };
LCT_log_ctx_t log_ctx;
LCT_pcounter_ctx_t counter_ctx;
LCT_pcounter_handle_t sent, send_timer;

void initialize() {
  const char* const levels[] = {"none", "profile", "status", "detail"};
  LCT_init();
  log_ctx = LCT_log_ctx_alloc(levels, sizeof(levels) / sizeof(levels[0]), NONE, "runtime",
                              std::getenv("RUNTIME_LOG_OUTFILE"), std::getenv("RUNTIME_LOG_LEVEL"),
                              std::getenv("RUNTIME_LOG_WHITELIST"), nullptr);
  counter_ctx = LCT_pcounter_ctx_alloc("runtime");
  sent = LCT_pcounter_register(counter_ctx, "sent", LCT_PCOUNTER_COUNTER);
  send_timer = LCT_pcounter_register(counter_ctx, "send", LCT_PCOUNTER_TIMER);
}

void log(level_t level, const char* tag, const char* format, ...) {
  if (LCT_log_get_level(log_ctx) < level) return;
  va_list args;
  va_start(args, format);
  LCT_Logv(log_ctx, level, tag, format, args);
  va_end(args);
}

LCT_time_t send(size_t size) {
  const LCT_time_t begin = LCT_now();
  LCT_pcounter_start(counter_ctx, send_timer);
  LCT_pcounter_add(counter_ctx, sent, static_cast<int64_t>(size));
  LCT_pcounter_end(counter_ctx, send_timer);
  return LCT_now() - begin;
}

void finalize() {
  LCT_pcounter_ctx_free(&counter_ctx);
  LCT_log_ctx_free(&log_ctx);
  LCT_fina();
}

}  // namespace runtime_layer

// A wrapper's macros, its queues by the name of a backend, its threads and its arguments.
namespace wrapper {

LCT_log_ctx_t log_ctx;
#define WRAPPER_Assert(...) LCT_Assert(wrapper::log_ctx, __VA_ARGS__)
#define WRAPPER_Log(...) LCT_Log(wrapper::log_ctx, __VA_ARGS__)

enum backend_t { MPI, LCI };
struct config_t {
  backend_t backend;
  int size;
  int is_touched;
};

backend_t backend_of(const char* word) {
  const LCT_dict_str_int_t words[] = {{nullptr, LCI}, {"mpi", MPI}, {"lci", LCI}};
  int found = MPI;
  const bool is_known =
      LCT_str_int_search(words, sizeof(words) / sizeof(words[0]), word, MPI, &found) != 0;
  WRAPPER_Assert(is_known, "unknown backend %s\n", word);
  WRAPPER_Log(LCT_LOG_INFO, "comm", "backend %d\n", found);
  return static_cast<backend_t>(found);
}

config_t parse(int argc, char** argv) {
  config_t config = {LCI, 8, 0};
  LCT_dict_str_int_t words[] = {{"mpi", MPI}, {"lci", LCI}};
  LCT_args_parser_t parser = LCT_args_parser_alloc();
  LCT_args_parser_add_dict(parser, "backend", required_argument,
                           reinterpret_cast<int*>(&config.backend), words, 2);
  LCT_args_parser_add(parser, "size", required_argument, &config.size);
  LCT_args_parser_add(parser, "touch", no_argument, &config.is_touched);
  LCT_args_parser_parse(parser, argc, argv);
  if (LCT_get_rank() == 0) LCT_args_parser_print(parser, true);
  LCT_args_parser_free(parser);
  return config;
}

class completions {
 public:
  completions() : queue_(LCT_queue_alloc(LCT_QUEUE_LCRQ, 65536)) {}
  ~completions() { LCT_queue_free(&queue_); }
  void push(lci::status_t status) { LCT_queue_push(queue_, new lci::status_t(status)); }
  bool pop(lci::status_t* out) {
    auto* const entry = static_cast<lci::status_t*>(LCT_queue_pop(queue_));
    if (entry == nullptr) return false;
    *out = *entry;
    delete entry;
    return true;
  }

 private:
  LCT_queue_t queue_;
};

double run(LCT_tbarrier_t* threads, completions& ended) {
  LCT_set_rank(lci::get_rank_me());
  LCT_tbarrier_arrive_and_wait(*threads);
  const LCT_time_t begin = LCT_now();
  lci::status_t status;
  while (!ended.pop(&status)) lci::progress();
  const int64_t ticket = LCT_tbarrier_arrive(*threads);
  while (!LCT_tbarrier_test(*threads, ticket)) lci::progress();
  LCT_tbarrier_free(threads);
  return LCT_time_to_us(LCT_now() - begin);
}

}  // namespace wrapper

}  // namespace client
