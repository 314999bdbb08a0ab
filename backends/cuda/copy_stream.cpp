#include "backends/cuda/copy_stream.hpp"

#include <string>
#include <thread>

#include "backends/cuda/errors.hpp"
#include "backends/cuda/pointer.hpp"
#include "lci/errors.hpp"

namespace lci::cuda {
namespace {

std::string on_gpu(const gpu& one) { return "GPU " + std::to_string(one.facts().ordinal); }

}  // namespace

copy_stream::copy_stream(gpu& on) : gpu_(on) {
  const context_scope scope(on.call(), on.context());
  check(on.call(), scope.entered(), "cuCtxPushCurrent", on_gpu(on));
  check(on.call(), on.call().stream_create(&stream_, abi::STREAM_NON_BLOCKING), "cuStreamCreate",
        on_gpu(on));
}

copy_stream::~copy_stream() {
  try {
    ended(ended_ + under_way_.size());
  } catch (const backend_error&) {  // it was thrown before, or no caller asked
  }
  const abi::functions& call = gpu_.call();
  const context_scope scope(call, gpu_.context());
  if (scope.entered() != abi::result::success) return;  // lost, and all this with it
  for (const abi::event each : under_way_)
    log_teardown(call, call.event_destroy(each), "cuEventDestroy");
  for (const abi::event each : spare_)
    log_teardown(call, call.event_destroy(each), "cuEventDestroy");
  log_teardown(call, call.stream_destroy(stream_), "cuStreamDestroy");
}

abi::event copy_stream::take_event() {
  if (!spare_.empty()) {
    const abi::event one = spare_.back();
    spare_.pop_back();
    return one;
  }
  spare_.reserve(under_way_.size() + 1);  // so that giving back cannot fail
  abi::event made = nullptr;
  check(gpu_.call(), gpu_.call().event_create(&made, abi::EVENT_DISABLE_TIMING), "cuEventCreate",
        on_gpu(gpu_));
  return made;
}

void copy_stream::start(std::byte* to, const std::byte* from, std::size_t size) {
  const abi::functions& call = gpu_.call();
  const context_scope scope(call, gpu_.context());
  const std::string what = std::to_string(size) + " bytes by " + on_gpu(gpu_);
  check(call, scope.entered(), "cuCtxPushCurrent", what);
  under_way_.push_back(take_event());
  failure error;
  if (size != 0)
    error = {call.memcpy_async(as_device(to), as_device(from), size, stream_), "cuMemcpyAsync"};
  const bool is_copying = !error && size != 0;
  if (!error) error = {call.event_record(under_way_.back(), stream_), "cuEventRecord"};
  if (!error) return;
  // A caller that is told that it failed uses the memory for other things at once.
  while (is_copying && call.stream_query(stream_) == abi::result::not_ready)
    std::this_thread::yield();
  spare_.push_back(under_way_.back());
  under_way_.pop_back();
  check(call, error.code, error.call, what);
}

bool copy_stream::is_reached(abi::event behind) {
  const abi::functions& call = gpu_.call();
  const abi::result answer = call.event_query(behind);
  if (answer == abi::result::not_ready) return false;
  check(call, answer, "cuEventQuery", on_gpu(gpu_));
  return true;
}

std::uint64_t copy_stream::ended(std::uint64_t number) {
  const context_scope scope(gpu_.call(), gpu_.context());
  check(gpu_.call(), scope.entered(), "cuCtxPushCurrent", on_gpu(gpu_));
  while (!under_way_.empty()) {
    if (is_reached(under_way_.front())) {
      spare_.push_back(under_way_.front());
      under_way_.pop_front();
      ++ended_;
    } else if (ended_ < number) {
      std::this_thread::yield();
    } else {
      break;
    }
  }
  return ended_;
}

}  // namespace lci::cuda
