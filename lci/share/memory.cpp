#include "lci/share/memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "lci/mem/memory_domain.hpp"
#include "lci/share/gpus.hpp"

namespace lci::share {
namespace {

using detail::buffer_memory;

std::string failed(const char* call, std::size_t size) {
  return std::string(call) + " failed for " + std::to_string(size) +
         " bytes of shared host memory: " + std::strerror(errno) + " [" + std::to_string(errno) +
         "]";
}

class host_memory final : public buffer_memory {
 public:
  explicit host_memory(std::size_t bytes)
      : fd_(memfd_create("lci-buffer", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
    if (!fd_) throw backend_error(failed("memfd_create", bytes));
    if (bytes > static_cast<std::size_t>(INT64_MAX) ||
        ftruncate(fd_.get(), static_cast<off_t>(bytes)) != 0)
      throw backend_error(failed("ftruncate", bytes));
    // A process that maps it relies on its size.
    if (fcntl(fd_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
      throw backend_error(failed("F_ADD_SEALS", bytes));
    void* const mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
    if (mapped == MAP_FAILED) throw backend_error(failed("mmap", bytes));
    at = static_cast<std::byte*>(mapped);
    size = bytes;
    how = "host memory of a memory file";
  }
  ~host_memory() override { munmap(at, size); }

  export_facts export_range(std::size_t offset, std::size_t part) override {
    export_facts out;
    out.fields.way = handle_way::host_file;
    out.fields.memory_size = size;
    out.fields.offset = offset;
    out.fields.size = part;
    out.fields.memory_fd = fd_.get();
    out.how = "a descriptor of the memory file";
    return out;
  }

 private:
  base::descriptor fd_;
};

export_facts export_gpu(const std::byte* at, std::size_t size) {
  const gpu_side& gpus = need_gpus();
  mem::exported_range found = gpus.sharing->export_range(at, size);
  if (!found.why_not.empty()) throw buffer_error(buffer_fault::not_exportable, found.why_not);
  export_facts out;
  out.fields.way = handle_way::gpu;
  out.fields.memory_size = found.memory_size;
  out.fields.offset = found.offset;
  out.fields.size = size;
  out.fields.memory_fd = found.fd.get();
  out.fields.driver_version = static_cast<std::uint64_t>(gpus.sharing->driver_version());
  gpus.domain->name.copy(out.fields.domain.data(), out.fields.domain.size());
  found.pci.copy(out.fields.pci.data(), out.fields.pci.size());
  std::memcpy(out.fields.ticket.data(), found.ticket.data(),
              std::min(found.ticket.size(), out.fields.ticket.size()));
  out.fd = std::move(found.fd);
  out.how = found.how;
  return out;
}

class gpu_memory final : public buffer_memory {
 public:
  gpu_memory(std::size_t bytes, int number) : sharing_(*need_gpus().sharing) {
    at = static_cast<std::byte*>(sharing_.allocate(bytes, number, how));
    size = bytes;
    device = number;
  }
  ~gpu_memory() override {
    if (mark_.is_ours()) sharing_.release(at);
  }
  export_facts export_range(std::size_t offset, std::size_t part) override {
    return export_gpu(at + offset, part);
  }

 private:
  mem::memory_sharing& sharing_;
};

class wrapped_memory final : public buffer_memory {
 public:
  wrapped_memory(void* pointer, std::size_t bytes) {
    const mem::memory_place place = mem::find_place(pointer);
    if (!place.is_handled)
      throw buffer_error(buffer_fault::not_exportable, place.domain->refusal(pointer));
    at = static_cast<std::byte*>(pointer);
    size = bytes;
    const std::string kind =
        place.domain != nullptr ? place.domain->describe(pointer) : "host memory";
    how = kind + " of the program";
    if (place.kind == mem::mem_kind::device) device = place.device;
  }
  export_facts export_range(std::size_t offset, std::size_t part) override {
    if (device != buffer::HOST) return export_gpu(at + offset, part);
    throw buffer_error(buffer_fault::not_exportable,
                       how + " cannot be mapped by other processes: take it from buffer::create()");
  }
};

}  // namespace

std::shared_ptr<buffer_memory> make_host_memory(std::size_t size) {
  return std::make_shared<host_memory>(size);
}

std::shared_ptr<buffer_memory> make_gpu_memory(std::size_t size, int device) {
  return std::make_shared<gpu_memory>(size, device);
}

std::shared_ptr<buffer_memory> wrap_memory(void* pointer, std::size_t size) {
  return std::make_shared<wrapped_memory>(pointer, size);
}

}  // namespace lci::share
