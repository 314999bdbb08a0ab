// The functions of performance counters.
// Threads: any; the list of contexts has a lock.
#include "lct/counters.h"

#include <limits>
#include <mutex>
#include <utility>
#include <vector>

#include "lci/errors.hpp"
#include "lct/counter_context.hpp"
#include "lct/per_thread.hpp"
#include "lct/state.hpp"

namespace lct {
namespace {

struct context_list {
  std::mutex lock;
  std::vector<counter_context*> contexts;  // not freed yet
};

context_list& live_contexts() {
  static auto& made = *new context_list;
  return made;
}

counter_context& counters_of(LCT_pcounter_ctx_t ctx) {
  if (ctx == nullptr) throw lci::argument_error("no context of counters");
  return *static_cast<counter_context*>(ctx);
}

// When this thread last began a duration of each timer, by number. Any time may be a beginning.
constexpr LCT_time_t NOT_BEGUN = std::numeric_limits<LCT_time_t>::min();
struct beginnings {
  std::vector<LCT_time_t> times;
};
LCT_time_t& beginning(int number) {
  std::vector<LCT_time_t>& began = per_thread<beginnings>().times;
  const auto at = static_cast<std::size_t>(number);
  if (at >= began.size()) began.resize(at + 1, NOT_BEGUN);
  return began[at];
}

}  // namespace

void dump_counters() {
  context_list& all = live_contexts();
  const std::lock_guard guard(all.lock);
  for (counter_context* const one : all.contexts) one->dump_at_end();
}

}  // namespace lct

extern "C" {

LCT_pcounter_ctx_t LCT_pcounter_ctx_alloc(const char* name) {
  auto made = std::make_unique<lct::counter_context>(name != nullptr ? name : "",
                                                     lct::read_counter_options());
  lct::context_list& all = lct::live_contexts();
  const std::lock_guard guard(all.lock);
  all.contexts.push_back(made.get());
  return made.release();
}

void LCT_pcounter_ctx_free(LCT_pcounter_ctx_t* ctx) {
  if (ctx == nullptr || *ctx == nullptr) return;
  auto* const ours = static_cast<lct::counter_context*>(std::exchange(*ctx, nullptr));
  {
    lct::context_list& all = lct::live_contexts();
    const std::lock_guard guard(all.lock);
    std::erase(all.contexts, ours);
  }
  delete ours;
}

LCT_pcounter_handle_t LCT_pcounter_register(LCT_pcounter_ctx_t ctx, const char* name,
                                            LCT_pcounter_type_t type) {
  return lct::counters_of(ctx).find_or_make(name, type);
}

// Ignores the context: counters are numbered per process.
void LCT_pcounter_add(LCT_pcounter_ctx_t, LCT_pcounter_handle_t handle, int64_t val) {
  if (lct::tally* const one = lct::find_tally(handle.idx)) one->add(val);
}

void LCT_pcounter_start(LCT_pcounter_ctx_t ctx, LCT_pcounter_handle_t handle) {
  LCT_pcounter_startt(ctx, handle, LCT_now());
}

void LCT_pcounter_end(LCT_pcounter_ctx_t ctx, LCT_pcounter_handle_t handle) {
  LCT_pcounter_endt(ctx, handle, LCT_now());
}

void LCT_pcounter_startt(LCT_pcounter_ctx_t, LCT_pcounter_handle_t handle, LCT_time_t time) {
  if (lct::find_tally(handle.idx) != nullptr) lct::beginning(handle.idx) = time;
}

void LCT_pcounter_endt(LCT_pcounter_ctx_t, LCT_pcounter_handle_t handle, LCT_time_t time) {
  lct::tally* const one = lct::find_tally(handle.idx);
  if (one == nullptr) return;
  const LCT_time_t began = std::exchange(lct::beginning(handle.idx), lct::NOT_BEGUN);
  if (began != lct::NOT_BEGUN) one->add(time - began);
}

void LCT_pcounter_record(LCT_pcounter_ctx_t ctx) { lct::counters_of(ctx).record(); }
void LCT_pcounter_dump(LCT_pcounter_ctx_t ctx, FILE* out) { lct::counters_of(ctx).dump(out); }

}  // extern "C"
