#include "lci/proxy/side.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <new>
#include <string>
#include <thread>
#include <utility>

#include "lci/base/log.hpp"
#include "lci/base/spinlock.hpp"
#include "lci/errors.hpp"
#include "lci/runtime/global.hpp"

namespace lci::proxy {
namespace {

template <class T>
std::unique_ptr<T> take_out(std::vector<std::unique_ptr<T>>& list, const T& one) noexcept {
  const auto at = std::find_if(list.begin(), list.end(),
                               [&](const std::unique_ptr<T>& each) { return each.get() == &one; });
  std::unique_ptr<T> taken = std::move(*at);
  list.erase(at);
  return taken;
}

// Memory that kernels of a forgotten endpoint may still be reading, however late: it stays until
// the process ends, and checkers find it.
struct left_behind {
  block what;
  void* before = nullptr;
};
struct left_behind_list {
  base::spinlock lock;  // runtimes may end at the same time
};
void leave(block&& one) noexcept {
  static left_behind_list list;
  const std::lock_guard lock(list.lock);
  void*& all = runtime::global().left_behind;
  auto* const made = new (std::nothrow) left_behind;
  if (made == nullptr) return one.forget();
  made->what = std::move(one);
  made->before = all;
  all = made;
}

side* side_of(const runtime_impl_t& runtime) noexcept {
  // There is no other extension.
  return static_cast<side*>(runtime.extension());
}

}  // namespace

side::~side() = default;

side& side::of(runtime_impl_t& owner) {
  return static_cast<side&>(owner.extend([&owner] { return std::make_unique<side>(owner); }));
}

side::found_endpoint side::find(const gpu::endpoint_t& handle, const char* who) {
  if (handle.is_empty()) throw argument_error(std::string(who) + ": the endpoint is empty");
  found_endpoint found{};
  runtime::global().runtimes.any_of([&](const runtime_impl_t& runtime) {
    side* const in = side_of(runtime);
    if (in == nullptr) return false;
    const std::lock_guard lock(in->mutex_);
    for (const std::unique_ptr<endpoint>& one : in->endpoints_) {
      if (one->record() != handle.record || one->handle().generation != handle.generation) continue;
      if (!one->try_pin()) continue;
      found.in = in;
      found.one.reset(one.get());
      return true;
    }
    return false;
  });
  if (found.in != nullptr) return found;
  runtime::refuse_fork(who);
  throw argument_error(std::string(who) + ": the endpoint was freed");
}

side::found_queue side::find(const gpu::queue_t& handle, const char* who) {
  if (handle.is_empty()) throw argument_error(std::string(who) + ": the queue is empty");
  found_queue found{};
  runtime::global().runtimes.any_of([&](const runtime_impl_t& runtime) {
    side* const in = side_of(runtime);
    if (in == nullptr) return false;
    const std::lock_guard lock(in->mutex_);
    for (const owned_queue& one : in->queues_) {
      if (one.one->record() != handle.record) continue;
      found = {in, one.one.get()};
      return true;
    }
    return false;
  });
  if (found.in != nullptr) return found;
  runtime::refuse_fork(who);
  throw argument_error(std::string(who) + ": the queue was freed");
}

proxy_driver& side::driver_of(device_impl_t& device, attr_gpu_proxy_t how) {
  const std::lock_guard lock(mutex_);
  for (const std::unique_ptr<proxy_driver>& one : drivers_)
    if (&one->device() == &device && one->how() == how) return *one;
  drivers_.push_back(std::make_unique<proxy_driver>(device, how));
  return *drivers_.back();
}

proxy_driver* side::find_driver(const endpoint& of) noexcept {
  const std::lock_guard lock(mutex_);
  for (const std::unique_ptr<proxy_driver>& one : drivers_)
    if (&one->device() == &of.device() && one->how() == of.settings().proxy) return one.get();
  return nullptr;
}

// What serves a running kernel is loaded now: later that may have to wait for the kernel.
void side::prepare(int gpu) {
  try {
    owner_.shared.gpu.gpus.use(gpu_domain()).prepare_atomics(gpu);
  } catch (const backend_error& error) {
    base::log::info("gpu", "no atomic operations on memory of GPU %d: %s", gpu, error.what());
  }
}

// Kernels that have the handle may wait for our progress, which must not wait for them meanwhile.
void side::hold(const endpoint& one, int change) noexcept {
  if (one.settings().gpu == gpu::NO_GPU) return;
  owner_.shared.gpu.gpus.running()->hold(change);  // which has copied the endpoint's record
}

endpoint& side::make_endpoint(device_impl_t& device, const endpoint_settings& wanted) {
  std::uint64_t generation;
  {
    const std::lock_guard lock(mutex_);
    generation = ++generation_;
    records_.reserve(records_.size() + endpoints_.size() + 1);
    endpoints_.reserve(endpoints_.size() + 1);  // one thread at a time makes them
    ended_endpoints_.reserve(ended_endpoints_.size() + endpoints_.size() + 1);
  }
  if (wanted.gpu != gpu::NO_GPU) prepare(wanted.gpu);
  auto made = std::make_unique<endpoint>(device, wanted, all_keys, generation);
  endpoint& one = *made;
  driver_of(device, wanted.proxy).add(one);
  hold(one, 1);
  const std::lock_guard lock(mutex_);
  endpoints_.push_back(std::move(made));
  return one;
}

void side::end_endpoint(endpoint& one, ending how) noexcept {
  constexpr auto PATIENCE = std::chrono::seconds(5);
  proxy_driver* const served_by = find_driver(one);
  auto start = std::chrono::steady_clock::now();
  bool was_given_up = false;
  const auto is_over = [&](bool is_there) {
    was_given_up = !is_there && std::chrono::steady_clock::now() - start > PATIENCE;
    return is_there || was_given_up;
  };
  if (how == ending::forgotten) one.stop_kernels();
  served_by->wait_until([&] { return is_over(one.is_idle_st()); });
  if (was_given_up)
    base::log::warn("gpu", "an endpoint was freed with work requests that did not end");
  one.abort();
  served_by->remove(one);
  one.take_receives_back();
  // What lci still has of it reads and writes the program's memory.
  start = std::chrono::steady_clock::now();
  served_by->wait_until([&] { return is_over(!one.is_in_use()); });
  if (was_given_up)
    base::log::warn("gpu",
                    "an endpoint was freed with operations under way, which may still "
                    "read and write the program's memory");
  {
    const std::lock_guard lock(mutex_);
    one.hide();
  }
  // Calls of other threads that have found it before, which make progress by themselves.
  while (one.is_pinned()) std::this_thread::yield();
  all_keys.forget_all(&one);
  retire(one, how);
}

void side::retire(endpoint& one, ending how) noexcept {
  const bool is_forgotten = how == ending::forgotten;
  block record = one.retire();  // may wait for a GPU, and handlers may run meanwhile
  hold(one, -1);
  // Ends behind the lock: to give back memory of a GPU the driver may wait for kernels, which may
  // wait for a thread that wants the lock.
  std::unique_ptr<endpoint> taken;
  const std::lock_guard lock(mutex_);
  taken = take_out(endpoints_, one);
  if (is_forgotten) {
    leave(std::move(record));
    for (block& each : taken->part_with()) leave(std::move(each));
  } else {
    records_.push_back(std::move(record));  // there is room
  }
  for (owned_queue& each : queues_) {
    if (each.of != &one) continue;
    owner_.core.rcomps.bury(*each.one);
    each.of = nullptr;
    if (!is_forgotten) continue;
    for (block& part : each.one->end()) leave(std::move(part));
  }
  if (is_forgotten) queue_records_.leave_all(&leave);
  if (taken->is_in_use()) ended_endpoints_.push_back(std::move(taken));  // likewise
}

gpu_queue& side::make_queue(endpoint& of, std::uint32_t capacity, std::uint32_t message_size) {
  gpu::queue_record* const record = queue_records_.take(of.settings().gpu);
  auto made = std::make_unique<gpu_queue>(owner_.core, owner_.shared.gpu.gpus, *record, of.record(),
                                          of.handle().generation, of.settings().gpu, capacity,
                                          message_size);
  gpu_queue& one = *made;
  const std::lock_guard lock(mutex_);
  ended_queues_.reserve(ended_queues_.size() + queues_.size() + 1);
  queues_.push_back({std::move(made), &of});
  of.add(one);
  return one;
}

void side::end_queue(gpu_queue& one) noexcept {
  owner_.core.rcomps.bury(one);
  std::array<block, 2> memory;  // given back behind the lock, as an endpoint's
  const std::lock_guard lock(mutex_);
  const auto at = std::find_if(queues_.begin(), queues_.end(),
                               [&](const owned_queue& each) { return each.one.get() == &one; });
  for (const std::unique_ptr<endpoint>& each : endpoints_)
    if (each.get() == at->of) each->remove(one);
  // No endpoint has it, not even a freed one, whose record says 0; but its kind is known.
  one.record()->generation |= ~gpu::OF_GPU;
  memory = one.end();
  ended_queues_.push_back(std::move(at->one));  // there is room
  queues_.erase(at);
}

void side::on_device_ends(device_impl_t& device) noexcept {
  std::size_t count = 0;
  for (;;) {
    endpoint* found = nullptr;
    {
      const std::lock_guard lock(mutex_);
      for (const std::unique_ptr<endpoint>& one : endpoints_)
        if (&one->device() == &device) found = one.get();
    }
    if (found == nullptr) break;
    end_endpoint(*found, ending::forgotten);
    ++count;
  }
  if (count != 0)
    base::log::warn("gpu", "%zu GPU endpoints were still alive when their device was freed", count);
  const std::lock_guard lock(mutex_);
  std::erase_if(drivers_, [&](const std::unique_ptr<proxy_driver>& one) {
    return &one->device() == &device;
  });
}

}  // namespace lci::proxy
