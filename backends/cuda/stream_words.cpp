#include "backends/cuda/stream_words.hpp"

#include <array>
#include <cstdio>
#include <new>

#include "backends/cuda/errors.hpp"
#include "backends/cuda/pointer.hpp"
#include "lci/base/log.hpp"
#include "lci/errors.hpp"

namespace lci::cuda {
namespace {

abi::stream handle_of(void* stream) noexcept { return static_cast<abi::stream>(stream); }

std::string name_of(void* stream) {
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "stream %p", stream);
  return text.data();
}

[[noreturn]] void throw_no_words(const std::string& who) {
  throw backend_error("cuda: " + who +
                      " cannot write words and wait for them (cuStreamBatchMemOp of CUDA 11.7)");
}

}  // namespace

stream_words::~stream_words() {
  std::size_t kept = 0;
  for (const page& each : pages_) {
    if (each.taken != 0) {
      kept += each.taken;
      continue;
    }
    const context_scope scope(call(), each.owner->context());
    if (scope.entered() == abi::result::success)
      log_teardown(call(), call().mem_free_host(each.first), "cuMemFreeHost");
  }
  if (kept != 0)
    log::warn("cuda", "%zu words stay allocated: streams or graphs may still write them", kept);
}

abi::context stream_words::context_of(abi::stream stream) {
  gpus_.get_driver().require();
  abi::context found = nullptr;
  // For a default stream it is the one that is current in this thread.
  check(call(), call().stream_get_ctx(stream, &found), "cuStreamGetCtx", name_of(stream));
  return found;
}

bool stream_words::is_captured(void* stream, int& ordinal) {
  const context_scope scope(call(), context_of(handle_of(stream)));
  const std::string who = name_of(stream);
  check(call(), scope.entered(), "cuCtxPushCurrent", who);
  // The driver's number of a GPU is its place in the list of the visible ones.
  check(call(), call().ctx_get_device(&ordinal), "cuCtxGetDevice", who);
  if (!gpus_.at(ordinal).facts().stream_stores)
    throw_no_words("a stream of GPU " + std::to_string(ordinal));
  abi::capture_status status = abi::capture_status::none;
  check(call(), call().stream_is_capturing(handle_of(stream), &status), "cuStreamIsCapturing", who);
  if (status == abi::capture_status::invalidated)
    throw backend_error("cuda: the capture of " + who + " has been invalidated by another call");
  return status == abi::capture_status::active;
}

void stream_words::grow(gpu& g) {
  const context_scope scope(g.call(), g.context());
  const std::string on = "GPU " + std::to_string(g.facts().ordinal);
  check(g.call(), scope.entered(), "cuCtxPushCurrent", on);
  void* memory = nullptr;
  // Portable: for streams of every GPU. With unified addressing a GPU names it as we do. Without
  // the lock, so that a slow driver does not hold up a thread that gives a word back.
  check(g.call(),
        g.call().mem_host_alloc(&memory, PAGE * sizeof(place),
                                abi::HOST_ALLOC_PORTABLE | abi::HOST_ALLOC_DEVICE_MAP),
        "cuMemHostAlloc", on + ", " + std::to_string(PAGE * sizeof(place)) + " bytes");
  auto* const first = new (memory) place[PAGE];
  const std::lock_guard lock(mutex_);
  pages_.push_back({&g, first, 0});
  free_.reserve(pages_.size() * PAGE);
  for (std::size_t i = PAGE; i-- > 0;) free_.push_back(&first[i].word);
}

// Needs mutex_.
stream_words::page& stream_words::page_of_locked(const mem::stream_word& word) noexcept {
  const auto* const at = reinterpret_cast<const place*>(&word);
  std::size_t i = 0;
  while (at < pages_[i].first || at >= pages_[i].first + PAGE) ++i;
  return pages_[i];
}

mem::stream_word& stream_words::take(gpu& g) {
  for (;; grow(g)) {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) continue;
    mem::stream_word& word = *free_.back();
    free_.pop_back();
    ++page_of_locked(word).taken;
    word.store(0, std::memory_order_relaxed);  // no stream knows it yet
    return word;
  }
}

void stream_words::put(mem::stream_word& word) noexcept {
  const std::lock_guard lock(mutex_);
  --page_of_locked(word).taken;
  free_.push_back(&word);  // there is room for all
}

void stream_words::enqueue(void* stream, std::span<const mem::stream_step> steps) {
  using kind = mem::stream_step::kind;
  constexpr std::size_t MOST = 4;
  std::array<abi::word_operation, MOST> all{};
  if (steps.size() > MOST) throw backend_error("cuda: too many steps in one call");
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const bool writes = steps[i].what == kind::write;
    all[i].what =
        writes ? abi::memory_operation::write_value_64 : abi::memory_operation::wait_value_64;
    all[i].address = as_device(steps[i].word);
    all[i].value = steps[i].value;
    all[i].flags = writes ? abi::WRITE_VALUE_DEFAULT : abi::WAIT_VALUE_EQUAL;
  }
  const context_scope scope(call(), context_of(handle_of(stream)));
  check(call(), scope.entered(), "cuCtxPushCurrent", name_of(stream));
  // One call: the stream gets all of them, in this order, or none.
  const abi::result answer = call().stream_batch_mem_op(
      handle_of(stream), static_cast<unsigned>(steps.size()), all.data(), 0);
  if (answer == abi::result::not_supported) throw_no_words(name_of(stream));
  check(call(), answer, "cuStreamBatchMemOp", name_of(stream));
}

}  // namespace lci::cuda
