// The public class: who owns which part of what memory.
#include "lci/buffer.hpp"

#include <atomic>
#include <utility>

#include "lci/share/exports.hpp"
#include "lci/share/gpus.hpp"
#include "lci/share/imports.hpp"
#include "lci/share/server.hpp"

namespace lci {

const char* get_buffer_fault_str(buffer_fault fault) {
  switch (fault) {
    case buffer_fault::malformed:
      return "malformed";
    case buffer_fault::forged:
      return "forged";
    case buffer_fault::stale:
      return "stale";
    case buffer_fault::other_machine:
      return "other_machine";
    case buffer_fault::other_user:
      return "other_user";
    case buffer_fault::other_driver:
      return "other_driver";
    case buffer_fault::owner_gone:
      return "owner_gone";
    case buffer_fault::unreachable:
      return "unreachable";
    case buffer_fault::no_gpu:
      return "no_gpu";
    case buffer_fault::not_exportable:
      return "not_exportable";
    case buffer_fault::no_room:
      return "no_room";
  }
  return "unknown";
}

bool gpu_available() {
  std::string why_not;
  return gpu_available(why_not);
}

bool gpu_available(std::string& why_not) { return share::find_gpus(why_not) != nullptr; }

int gpu_count() {
  std::string why_not;
  const share::gpu_side* const gpus = share::find_gpus(why_not);
  return gpus == nullptr ? 0 : gpus->sharing->device_count();
}

const int buffer::HOST;

buffer::buffer() noexcept = default;
buffer::~buffer() = default;

buffer::buffer(std::shared_ptr<detail::buffer_memory> memory, size_t offset, size_t size) noexcept
    : memory_(std::move(memory)),
      data_(memory_->at + offset),
      size_(size),
      offset_(offset),
      device_(memory_->device) {}

buffer::buffer(buffer&& other) noexcept { *this = std::move(other); }

buffer& buffer::operator=(buffer&& other) noexcept {
  if (this == &other) return *this;
  export_ = std::move(other.export_);
  memory_ = std::move(other.memory_);
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, 0);
  offset_ = std::exchange(other.offset_, 0);
  device_ = std::exchange(other.device_, HOST);
  return *this;
}

buffer buffer::create(size_t size, int device) {
  if (size == 0) throw argument_error("buffer::create: the size is 0");
  return buffer(
      device == HOST ? share::make_host_memory(size) : share::make_gpu_memory(size, device), 0,
      size);
}

buffer buffer::wrap(void* pointer, size_t size) {
  if (pointer == nullptr) throw argument_error("buffer::wrap: the pointer is null");
  if (size == 0) throw argument_error("buffer::wrap: the size is 0");
  return buffer(share::wrap_memory(pointer, size), 0, size);
}

buffer buffer::import(const std::string& handle) {
  size_t offset = 0, size = 0;
  auto memory = share::imports::of_process().open(handle, offset, size);
  return buffer(std::move(memory), offset, size);
}

void buffer::keep_imports(size_t count) { share::imports::of_process().keep(count); }

std::string buffer::export_handle() {
  if (memory_ == nullptr) throw argument_error("buffer::export_handle: there is no memory");
  const std::string& origin = memory_->origin();
  if (!origin.empty() && size_ == memory_->size) return origin;
  // In a child of fork() that of the parent ends with the parent.
  if (export_ == nullptr || !export_->is_own())
    export_ = std::make_shared<detail::buffer_export>(memory_, offset_, size_);
  return export_->bytes();
}

int buffer::export_dma_buf(size_t& offset) const {
  if (memory_ == nullptr) throw argument_error("buffer::export_dma_buf: there is no memory");
  if (device_ == HOST)
    throw buffer_error(buffer_fault::not_exportable, memory_->how + " has no dma-buf");
  mem::network_export made = share::need_gpus().domain->export_for_network(data_, size_, false);
  if (!made.fd) throw buffer_error(buffer_fault::not_exportable, made.why_not);
  offset = made.offset;
  return made.fd.release();
}

void buffer::revoke() noexcept { export_.reset(); }

buffer buffer::slice(size_t offset, size_t size) const {
  if (size == 0 || offset > size_ || size > size_ - offset) {
    throw argument_error("buffer::slice: [" + std::to_string(offset) + ", +" +
                         std::to_string(size) + ") is not inside " + std::to_string(size_) +
                         " bytes, or empty");
  }
  return buffer(memory_, offset_ + offset, size);
}

void buffer::check() const {
  if (memory_ != nullptr) memory_->check();
}

void buffer::sync(buffer_sync side) const {
  if (device_ == HOST) {
    // edge buffer.sync, other side in the program: it tells the other process after this, or was
    // told before.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return;
  }
  mem::memory_sharing& gpus = *share::need_gpus().sharing;
  if (side == buffer_sync::before)
    gpus.wait_for_device(device_);
  else
    gpus.flush_outside_writes(device_);
}

bool buffer::is_imported() const noexcept {
  return memory_ != nullptr && !memory_->origin().empty();
}

std::string buffer::describe() const {
  if (memory_ == nullptr) return "no memory";
  std::string text = std::to_string(size_) + " bytes of " + memory_->how;
  if (size_ != memory_->size) text += ", a part of " + std::to_string(memory_->size);
  if (export_ == nullptr) return text;
  text += "; its handle is out: " + export_->how();
  text += share::is_serving() ? ", fetched by importers, or given by the serving thread"
                              : ", fetched by importers; no thread serves";
  return text;
}

void buffer::serve() { share::start_server(); }
void buffer::stop_serving() noexcept { share::stop_server(); }

}  // namespace lci
