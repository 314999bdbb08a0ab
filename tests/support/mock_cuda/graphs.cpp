// Streams that are captured, and graphs that run: what a program does with them, and what the
// driver says about it. A graph is the work of one stream, one operation behind the other.
#include <utility>

#include "tests/support/mock_cuda/state.hpp"

namespace lci::mock {
namespace {

using cuda::abi::capture_mode;
using cuda::abi::capture_status;

// A context that is destroyed takes its streams along; what the driver says of the handles then.
result get_ctx(cuda::abi::stream handle, cuda::abi::context* out) {
  return guarded("cuStreamGetCtx", needs::started, [&](state& s) {
    auto* const given = reinterpret_cast<stream*>(handle);
    if (given == nullptr) {
      if (current() == nullptr) return result::invalid_context;
      *out = reinterpret_cast<cuda::abi::context>(current());
      return result::success;
    }
    if (s.streams.count(given) == 0) return result::invalid_handle;
    if (given->owner->destroyed) return result::context_is_destroyed;
    *out = reinterpret_cast<cuda::abi::context>(given->owner);
    return result::success;
  });
}

result is_capturing(cuda::abi::stream handle, capture_status* out) {
  return guarded("cuStreamIsCapturing", needs::context, [&](state& s) {
    stream* given = nullptr;
    if (const result bad = check_stream(s, handle, given); bad != result::success) return bad;
    *out = given->capture == nullptr ? capture_status::none
           : given->capture_spoilt   ? capture_status::invalidated
                                     : capture_status::active;
    return result::success;
  });
}

graph* graph_of(const state& s, void* handle) {
  auto* const given = static_cast<graph*>(handle);
  return s.graphs.count(given) == 0 ? nullptr : given;
}

result drop_graph(const char* name, void* handle) {
  return guarded(name, needs::started, [&](state& s) {
    graph* const given = graph_of(s, handle);
    if (given == nullptr) return result::invalid_handle;
    s.graphs.erase(given);
    delete given;
    return result::success;
  });
}

}  // namespace

void fill_graphs(functions& table) {
  table.stream_get_ctx = &get_ctx;
  table.stream_is_capturing = &is_capturing;
}

}  // namespace lci::mock

// What a program calls.
namespace {

using lci::cuda::abi::result;
using lci::cuda::abi::stream;
using lci::mock::graph;
using lci::mock::guarded;
using lci::mock::needs;
using lci::mock::state;

#define LCI_MOCK_EXPORT extern "C" __attribute__((visibility("default")))

}  // namespace

LCI_MOCK_EXPORT result cuStreamBeginCapture_v2(stream handle, lci::cuda::abi::capture_mode mode) {
  return guarded("cuStreamBeginCapture", needs::context, [&](state& s) {
    lci::mock::stream* given = nullptr;
    if (const result bad = check_stream(s, handle, given); bad != result::success) return bad;
    if (given->capture != nullptr) return result::invalid_value;
    given->capture = new graph;
    s.graphs.insert(given->capture);
    given->capture_spoilt = false;
    s.capturing = mode != lci::cuda::abi::capture_mode::relaxed;
    s.capture_spoilt = false;
    return result::success;
  });
}

LCI_MOCK_EXPORT result cuStreamEndCapture(stream handle, void** out) {
  return guarded("cuStreamEndCapture", needs::context, [&](state& s) {
    lci::mock::stream* given = nullptr;
    if (const result bad = check_stream(s, handle, given); bad != result::success) return bad;
    if (given->capture == nullptr) return result::invalid_value;
    *out = std::exchange(given->capture, nullptr);
    s.capturing = false;
    if (!given->capture_spoilt && !s.capture_spoilt) return result::success;
    auto* const spoilt = static_cast<graph*>(std::exchange(*out, nullptr));
    s.graphs.erase(spoilt);
    delete spoilt;
    return result::stream_capture_invalidated;
  });
}

LCI_MOCK_EXPORT result cuGraphInstantiateWithFlags(void** out, void* handle, unsigned long long) {
  return guarded("cuGraphInstantiate", needs::context, [&](state& s) {
    graph* const given = lci::mock::graph_of(s, handle);
    if (given == nullptr) return result::invalid_handle;
    auto* const made = new graph(*given);
    s.graphs.insert(made);
    *out = made;
    return result::success;
  });
}

LCI_MOCK_EXPORT result cuGraphLaunch(void* handle, stream where) {
  return guarded("cuGraphLaunch", needs::context, [&](state& s) {
    lci::mock::stream* given = nullptr;
    if (const result bad = check_stream(s, where, given); bad != result::success) return bad;
    const graph* const what = lci::mock::graph_of(s, handle);
    if (what == nullptr || given->capture != nullptr) return result::invalid_value;
    given->queue.insert(given->queue.end(), what->all.begin(), what->all.end());
    return result::success;
  });
}

LCI_MOCK_EXPORT result cuGraphDestroy(void* handle) {
  return lci::mock::drop_graph("cuGraphDestroy", handle);
}
LCI_MOCK_EXPORT result cuGraphExecDestroy(void* handle) {
  return lci::mock::drop_graph("cuGraphExecDestroy", handle);
}
