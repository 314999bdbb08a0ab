// Streams, events and the engine that runs their work, late and in an order of its own.
#include <cstring>
#include <utility>
#include <vector>

#include "tests/support/mock_cuda/state.hpp"

namespace lci::mock {
namespace {

cuda::abi::stream handle_of(stream* s) { return reinterpret_cast<cuda::abi::stream>(s); }
cuda::abi::event handle_of(event* e) { return reinterpret_cast<cuda::abi::event>(e); }

result create(cuda::abi::stream* out, unsigned flags) {
  return guarded("cuStreamCreate", needs::context, [&](state& s) {
    if (flags != cuda::abi::STREAM_NON_BLOCKING) return result::invalid_value;
    auto* const made = new stream;
    made->owner = current();
    s.streams.insert(made);
    *out = handle_of(made);
    return result::success;
  });
}

// Returns at once; what is queued still runs, like on a GPU.
result destroy(cuda::abi::stream handle) {
  return guarded("cuStreamDestroy", needs::nothing, [&](state& s) {
    auto* const given = reinterpret_cast<stream*>(handle);
    if (s.streams.erase(given) == 0) return result::invalid_handle;
    if (given->queue.empty()) {
      delete given;
    } else {
      s.orphans.insert(given);
    }
    return result::success;
  });
}

result query(cuda::abi::stream handle) {
  return guarded("cuStreamQuery", needs::context, [&](state& s) {
    stream* given = nullptr;
    if (const result bad = check_stream(s, handle, given); bad != result::success) return bad;
    if (given->capture != nullptr) {
      given->capture_spoilt = true;
      return result::stream_capture_unsupported;
    }
    return given->queue.empty() ? result::success : result::not_ready;
  });
}

result add(const char* name, cuda::abi::stream handle, const operation& what) {
  return guarded(name, needs::context, [&](state& s) {
    stream* given = nullptr;
    if (const result bad = check_stream(s, handle, given); bad != result::success) return bad;
    put(*given, what);
    return result::success;
  });
}

result wait_event(cuda::abi::stream handle, cuda::abi::event which, unsigned) {
  operation op;
  op.kind = operation::what::wait;
  op.event = which;
  {
    const std::lock_guard lock(the().mutex);
    auto* const e = reinterpret_cast<event*>(which);
    if (the().events.count(e) == 0) return result::invalid_handle;
    op.generation = e->recorded;
  }
  return add("cuStreamWaitEvent", handle, op);
}

result write_value(const char* name, operation::what kind, cuda::abi::stream handle, device_ptr at,
                   std::uint64_t value, unsigned flags) {
  if (flags != cuda::abi::WRITE_VALUE_DEFAULT || at % 4 != 0) return result::invalid_value;
  operation op;
  op.kind = kind;
  op.to = at;
  op.size = kind == operation::what::write32 ? 4 : 8;
  op.value = value;
  const std::lock_guard lock(the().mutex);
  // A flag lies in memory that the driver knows.
  if (the().find(at, op.size) == nullptr) return result::invalid_value;
  return the().config.stream_writes ? add(name, handle, op) : result::not_supported;
}

result write32(cuda::abi::stream s, device_ptr at, std::uint32_t value, unsigned flags) {
  return write_value("cuStreamWriteValue32", operation::what::write32, s, at, value, flags);
}
result write64(cuda::abi::stream s, device_ptr at, std::uint64_t value, unsigned flags) {
  return write_value("cuStreamWriteValue64", operation::what::write64, s, at, value, flags);
}

// All or nothing.
result write_batch(cuda::abi::stream s, unsigned count, cuda::abi::word_operation* all,
                   unsigned flags) {
  using cuda::abi::memory_operation;
  return guarded("cuStreamBatchMemOp", needs::context, [&](state& now) {
    stream* given = nullptr;
    if (const result bad = check_stream(now, s, given); bad != result::success) return bad;
    if (count == 0 || count >= 256 || flags != 0) return result::invalid_value;
    if (!now.config.stream_writes) return result::not_supported;
    std::vector<operation> made;
    for (unsigned i = 0; i < count; ++i) {
      const bool waits = all[i].what == memory_operation::wait_value_64;
      const bool is_wide = waits || all[i].what == memory_operation::write_value_64;
      operation op;
      op.kind = waits     ? operation::what::wait_value
                : is_wide ? operation::what::write64
                          : operation::what::write32;
      op.to = all[i].address;
      op.size = is_wide ? 8 : 4;
      op.value = all[i].value;
      const unsigned wanted = waits ? cuda::abi::WAIT_VALUE_EQUAL : cuda::abi::WRITE_VALUE_DEFAULT;
      if ((!is_wide && all[i].what != memory_operation::write_value_32) || all[i].flags != wanted ||
          op.to % op.size != 0 || now.find(op.to, op.size) == nullptr)
        return result::invalid_value;
      made.push_back(op);
    }
    for (const operation& op : made) put(*given, op);
    return result::success;
  });
}

result event_create(cuda::abi::event* out, unsigned) {
  return guarded("cuEventCreate", needs::context, [&](state& s) {
    auto* const made = new event;
    s.events.insert(made);
    *out = handle_of(made);
    return result::success;
  });
}

result event_destroy(cuda::abi::event handle) {
  return guarded("cuEventDestroy", needs::nothing, [&](state& s) {
    auto* const given = reinterpret_cast<event*>(handle);
    if (s.events.erase(given) == 0) return result::invalid_handle;
    delete given;
    return result::success;
  });
}

result event_record(cuda::abi::event which, cuda::abi::stream handle) {
  operation op;
  op.kind = operation::what::record;
  op.event = which;
  const std::lock_guard lock(the().mutex);
  auto* const e = reinterpret_cast<event*>(which);
  if (the().events.count(e) == 0) return result::invalid_handle;
  op.generation = e->recorded + 1;
  const result answer = add("cuEventRecord", handle, op);
  if (answer == result::success) ++e->recorded;
  return answer;
}

result event_query(cuda::abi::event which) {
  return guarded("cuEventQuery", needs::nothing, [&](state& s) {
    if (const result forbidden = unsafe_in_capture(); forbidden != result::success)
      return forbidden;
    auto* const e = reinterpret_cast<event*>(which);
    if (s.events.count(e) == 0) return result::invalid_handle;
    if (e->error != result::success) return e->error;
    return e->reached == e->recorded ? result::success : result::not_ready;
  });
}

operation copy_of(device_ptr to, device_ptr from, std::size_t size) {
  operation op;
  op.to = to;
  op.from = from;
  op.size = size;
  return op;
}

result copy(device_ptr to, device_ptr from, std::size_t size, cuda::abi::stream handle) {
  return add("cuMemcpyAsync", handle, copy_of(to, from, size));
}

// Rows that lie behind each other are one copy. Only out of host memory.
result copy_rows(const cuda::abi::memcpy_2d* what, cuda::abi::stream handle) {
  using cuda::abi::memory_type;
  const auto is_plain = [&](const cuda::abi::memcpy_side& side) {
    return side.x_bytes == 0 && side.y == 0 && side.pitch == what->width_bytes;
  };
  if (!is_plain(what->from) || !is_plain(what->to) || what->width_bytes == 0 || what->height == 0 ||
      what->from.type != memory_type::host || what->to.type != memory_type::gpu)
    return result::invalid_value;
  return add("cuMemcpy2DAsync", handle,
             copy_of(what->to.address, reinterpret_cast<device_ptr>(what->from.host),
                     what->width_bytes * what->height));
}

result copy_batch(device_ptr* to, device_ptr* from, std::size_t* sizes, std::size_t count,
                  cuda::abi::memcpy_attributes* attributes, std::size_t* indices,
                  std::size_t attribute_count, cuda::abi::stream handle) {
  return guarded("cuMemcpyBatchAsync", needs::context, [&](state& s) {
    stream* given = nullptr;
    if (const result bad = check_stream(s, handle, given); bad != result::success) return bad;
    if (count == 0 || attribute_count != 1 || indices[0] != 0 ||
        attributes[0].order != cuda::abi::source_order::stream_order)
      return result::invalid_value;
    for (std::size_t i = 0; i < count; ++i) {
      if (sizes[i] == 0) return result::invalid_value;
      put(*given, copy_of(to[i], from[i], sizes[i]));
    }
    return result::success;
  });
}

// Null for an event that was destroyed while work with it was queued, which is allowed.
event* event_of(const state& s, const operation& op) {
  auto* const e = static_cast<event*>(op.event);
  return s.events.count(e) == 0 ? nullptr : e;
}

bool is_ready(state& s, const operation& op) {
  if (op.kind == operation::what::wait_value) {
    const std::byte* const at = s.resolve(op.to, op.size);
    return at == nullptr || __atomic_load_n(reinterpret_cast<const std::uint64_t*>(at),
                                            __ATOMIC_ACQUIRE) == op.value;
  }
  if (op.kind == operation::what::launch) return op.kernel->is_ready(s, op.parameter.data());
  if (op.kind != operation::what::wait) return true;
  const event* const e = event_of(s, op);
  return e == nullptr || e->reached >= op.generation;
}

result perform(state& s, const operation& op) {
  switch (op.kind) {
    case operation::what::record:
      if (event* const e = event_of(s, op)) e->reached = op.generation;
      return result::success;
    case operation::what::wait:
    case operation::what::wait_value:
      return result::success;
    case operation::what::launch:
      return op.kernel->run(s, op.parameter.data());
    default:
      break;
  }
  std::byte* const to = s.resolve(op.to, op.size);
  if (to == nullptr) return result::illegal_address;
  if (op.kind != operation::what::copy) {
    // One store, as a GPU would do it; the copies before it are visible to who sees the value.
    if (op.size == 4) {
      __atomic_store_n(reinterpret_cast<std::uint32_t*>(to), static_cast<std::uint32_t>(op.value),
                       __ATOMIC_RELEASE);
    } else {
      __atomic_store_n(reinterpret_cast<std::uint64_t*>(to), op.value, __ATOMIC_RELEASE);
    }
    return result::success;
  }
  const std::byte* const from = s.resolve(op.from, op.size);
  if (from == nullptr) return result::illegal_address;
  std::memmove(to, from, op.size);
  return result::success;
}

// A sticky error: the whole context is of no use from here on.
void break_context(state& s, const context* owner, result code) {
  for (stream* each : s.streams) {
    if (each->owner != owner) continue;
    for (const operation& op : each->queue) {
      if (event* const e = event_of(s, op)) e->error = code;
    }
    each->queue.clear();
    each->error = code;
  }
}

}  // namespace

void put(stream& s, const operation& what) {
  if (s.capture != nullptr) {
    s.capture->all.push_back(what);
  } else {
    s.queue.push_back(what);
  }
}

result check_stream(const state& s, cuda::abi::stream handle, stream*& out) {
  auto* const given = reinterpret_cast<stream*>(handle);
  if (s.streams.count(given) == 0 || given->owner != current()) return result::invalid_handle;
  if (given->owner->destroyed) return result::context_is_destroyed;
  out = given;
  return given->error;
}

bool state::run_one() {
  std::vector<stream*> ready;
  std::set<stream*> all = streams;
  all.insert(orphans.begin(), orphans.end());
  for (stream* each : all) {
    if (!each->queue.empty() && is_ready(*this, each->queue.front())) ready.push_back(each);
  }
  if (ready.empty()) return false;
  stream* const chosen = ready[random() % ready.size()];
  result code = std::exchange(break_next, result::success);
  operation& next = chosen->queue.front();
  const bool has_steps = next.kind == operation::what::launch && next.kernel->step != nullptr;
  if (has_steps && code == result::success && !next.kernel->step(*this, *chosen, next, code))
    return true;
  const operation op = next;
  chosen->queue.pop_front();
  if (code == result::success && !has_steps) code = perform(*this, op);
  if (code != result::success) {
    if (event* const e = event_of(*this, op)) e->error = code;
    break_context(*this, chosen->owner, code);
  }
  if (chosen->queue.empty() && orphans.erase(chosen) != 0) delete chosen;
  return true;
}

void fill_streams(functions& table) {
  table.stream_create = &create;
  table.stream_destroy = &destroy;
  table.stream_query = &query;
  table.stream_wait_event = &wait_event;
  table.stream_write_value_32 = &write32;
  table.stream_write_value_64 = &write64;
  table.stream_batch_mem_op = &write_batch;
  table.event_create = &event_create;
  table.event_destroy = &event_destroy;
  table.event_record = &event_record;
  table.event_query = &event_query;
  table.memcpy_async = &copy;
  table.memcpy_2d_async = &copy_rows;
  table.memcpy_batch_async = &copy_batch;
}

}  // namespace lci::mock
