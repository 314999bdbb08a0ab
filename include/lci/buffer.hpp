/// @file buffer.hpp
/// Host or GPU memory that processes of one machine share: created or wrapped here, exported as
/// plain bytes, imported by another process. Needs no launcher, no rank and no runtime, and no
/// g_runtime_init(). Not part of lci.hpp: a program that does not include it pays nothing for it,
/// and no CUDA header is needed.
///
/// A handle is a name, not a permission that outlives its owner: each import compares it with what
/// the owner's process has published at that moment. docs/sharing.md describes how memory is
/// shared, and the limits.
#ifndef LCI_BUFFER_HPP
#define LCI_BUFFER_HPP

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

#include "lci/errors.hpp"

namespace lci {

/// Why a buffer could not be exported, imported or used any longer.
enum class buffer_fault {
  malformed,       ///< not a handle of this version: truncated, damaged, or something else
  forged,          ///< the owner never published these bytes
  stale,           ///< the owner has withdrawn the handle, or freed the memory
  other_machine,   ///< of another machine, another boot of it, or another space of process numbers
  other_user,      ///< of another user's process
  other_driver,    ///< of another GPU driver, or none is usable here
  owner_gone,      ///< the owner's process has ended
  unreachable,     ///< the system lets no descriptor pass between the two processes
  no_gpu,          ///< the owner's GPU cannot be used in this process
  not_exportable,  ///< this kind of memory cannot be shared; the text names it
  no_room          ///< too many handles of this process are out, or no address space or descriptors
};

/// The name of a fault.
/// @param fault  the fault
/// @return such as "stale"; never freed
LCI_PUBLIC const char* get_buffer_fault_str(buffer_fault fault);

/// A handle was refused, or memory cannot be shared. Nothing was changed, and nothing is left open.
class LCI_PUBLIC buffer_error : public std::runtime_error {
 public:
  /// @param fault  the reason, for programs
  /// @param what   the reason, for people
  buffer_error(buffer_fault fault, const std::string& what)
      : std::runtime_error(what), fault_(fault) {}
  /// The reason, for programs.
  /// @return the fault
  buffer_fault fault() const noexcept { return fault_; }

 private:
  buffer_fault fault_;
};

/// Whether buffer::sync() comes before or after an access from outside the GPU.
enum class buffer_sync {
  before,  ///< earlier work of this process on the GPU ends first
  after    ///< what arrived is visible to kernels that start later
};

/// Whether a GPU can be used. Starts the GPU's driver.
/// @return whether gpu_count() is not 0
/// Threads: any.
LCI_PUBLIC bool gpu_available();
/// Whether a GPU can be used, and the reason if not.
/// @param why_not  set: empty, or one sentence
/// @return whether gpu_count() is not 0
/// Threads: any.
LCI_PUBLIC bool gpu_available(std::string& why_not);
/// The number of GPUs of this process. Starts the GPU's driver.
/// @return 0 if none can be used
/// Threads: any.
LCI_PUBLIC int gpu_count();

namespace detail {
class buffer_memory;
class buffer_export;
class buffer_copies;
struct buffer_blocks;
}  // namespace detail

/// A range of memory that other processes of this machine can map. Move only; the memory lives as
/// long as the buffer or one of its slices. Threads: a buffer has one user at a time; its slices
/// and the static functions: any.
class LCI_PUBLIC buffer {
 public:
  /// Names host memory where a device is asked for.
  static const int HOST = -1;

  /// No memory.
  buffer() noexcept;
  /// Withdraws its handle. Memory that create() made is freed with its last buffer; importers keep
  /// what they have mapped.
  ~buffer();
  /// @param other  is left without memory
  buffer(buffer&& other) noexcept;
  /// @param other  is left without memory
  /// @return this
  buffer& operator=(buffer&& other) noexcept;

  /// Makes memory that can be exported: of a GPU (VMM with posix file descriptors where the driver
  /// has it, with fabric handles too if it gives them, else cuMemAlloc with CUDA IPC), or of the
  /// host (a memory file). Zeroed on the host.
  /// @param size    bytes, not 0
  /// @param device  the GPU by its number, or HOST
  /// @return the buffer
  /// @throws lci::argument_error  the size is 0
  /// @throws lci::backend_error   no such GPU, or no memory
  static buffer create(size_t size, int device = HOST);
  /// Names memory of the program; destroying never frees it. The program keeps it until no buffer
  /// of it is left. The pointer may lie inside an allocation, of a caching allocator for instance.
  /// @param pointer  host or GPU memory; it is not touched
  /// @param size     bytes, not 0
  /// @return the buffer. Whether it can be exported is found out by export_handle()
  /// @throws lci::argument_error  a null pointer or a size of 0
  /// @throws lci::buffer_error    not_exportable: GPU memory of a kind that lci does not handle
  /// (managed memory), by its name
  static buffer wrap(void* pointer, size_t size);
  /// Maps what another process has exported, or finds the existing mapping. A handle of this
  /// process gives the same memory.
  /// @param handle  what export_handle() gave; any bytes are allowed
  /// @return the buffer; its memory stays mapped until the last buffer of it is destroyed
  /// @throws lci::buffer_error   the handle was refused
  /// @throws lci::backend_error  the driver failed
  static buffer import(const std::string& handle);
  /// Sets how many mappings stay although no buffer uses them, so that the next import of the same
  /// handle finds them. They keep the owner's memory. Default: 0.
  /// @param count  maximum number; mappings beyond it are unmapped now
  static void keep_imports(size_t count);

  /// A handle of this range for other processes of this machine and user. Each call returns the
  /// same one until revoke().
  /// @return bytes to send anywhere; the process and this buffer must live until it is imported
  /// @throws lci::argument_error  no memory
  /// @throws lci::buffer_error    not_exportable with the kind, or no_room
  std::string export_handle();
  /// A dma-buf over GPU memory, for cards and drivers that accept one.
  /// @param offset  set: bytes from the start of the dma-buf to data()
  /// @return its descriptor, which the caller closes; it keeps the memory
  /// @throws lci::argument_error  no memory
  /// @throws lci::buffer_error    not_exportable: host memory, or the driver's reason
  int export_dma_buf(size_t& offset) const;
  /// Withdraws the handle: from now on its import is refused, and check() throws for those who have
  /// it mapped. They keep the mapping. Does nothing if there is no handle.
  void revoke() noexcept;

  /// A part of it, with a handle of its own. Keeps the memory.
  /// @param offset  bytes from data()
  /// @param size    bytes, not 0
  /// @return the part
  /// @throws lci::argument_error  the part is not inside
  buffer slice(size_t offset, size_t size) const;

  /// For an imported buffer, checks that its owner lives and has not withdrawn the handle. For
  /// other buffers it does nothing.
  /// @throws lci::buffer_error  owner_gone or stale. The mapping itself still exists and may be
  /// read, except CUDA IPC memory of an owner that has ended, for which the driver promises
  /// nothing. no_room: the check itself needed a descriptor, on systems without process descriptors
  void check() const;
  /// Orders the accesses of this process's GPU work to the memory with accesses from outside: by
  /// other processes, cards and the processor. `before` waits for all work of this process on the
  /// GPU. For host memory it is a fence of the processor.
  /// @param side  before or after the access
  /// @throws lci::backend_error  the driver failed
  void sync(buffer_sync side) const;

  /// @return whether there is memory
  explicit operator bool() const noexcept { return memory_ != nullptr; }
  /// @return the first byte; of GPU memory an address for the driver and kernels, and for
  /// lci::register_memory()
  void* data() const noexcept { return data_; }
  /// @return bytes
  size_t size() const noexcept { return size_; }
  /// @return whether it is memory of a GPU
  bool is_gpu() const noexcept { return device_ != HOST; }
  /// @return the GPU's number in this process, or HOST
  int device() const noexcept { return device_; }
  /// @return whether another process owns it
  bool is_imported() const noexcept;
  /// @return one line: kind of memory, size, how it was made, how it is shared
  std::string describe() const;

  /// Starts a thread that answers importers of this process's handles over a unix socket, for
  /// systems in which no process may take a descriptor from another (pidfd_getfd). Handles exported
  /// before are served too. Calling it again does nothing. A child of fork() must call it itself.
  /// @throws lci::buffer_error   no_room: no descriptors
  /// @throws lci::backend_error  no socket or no thread
  static void serve();
  /// Ends that thread.
  static void stop_serving() noexcept;

  buffer(const buffer&) = delete;  ///< there is one owner
  /// Deleted: there is one owner.
  /// @return  never
  buffer& operator=(const buffer&) = delete;

 private:
  friend class buffer_pool;
  buffer(std::shared_ptr<detail::buffer_memory> memory, size_t offset, size_t size) noexcept;

  // In this order: a handle ends before the memory, or the block of a pool that memory_ stands for.
  std::shared_ptr<detail::buffer_memory> memory_;
  std::shared_ptr<detail::buffer_export> export_;
  void* data_ = nullptr;
  size_t size_ = 0, offset_ = 0;  // bytes; offset of data_ in the memory
  int device_ = HOST;
};

/// Copies between host memory and a GPU's, or within either, one after the other. Without a GPU the
/// processor copies. Threads: one at a time.
class LCI_PUBLIC buffer_copier {
 public:
  /// @param device  whose engine copies, or buffer::HOST
  /// @throws lci::backend_error  no such GPU
  explicit buffer_copier(int device);
  /// Waits for what was started.
  ~buffer_copier();
  /// Starts a copy; host memory is quick if it is pinned (lci::pinned_allocator_t).
  /// @param to    destination; until the copy has ended, both ends belong to it
  /// @param from  source
  /// @param size  bytes
  /// @return its number: 1 for the first
  /// @throws lci::backend_error  the driver refused
  uint64_t start(void* to, const void* from, size_t size);
  /// How many copies have ended; does not wait.
  /// @return their number: all copies up to this number have ended
  /// @throws lci::backend_error  a copy failed
  uint64_t ended();
  /// Waits until that one has ended.
  /// @param number  what start() gave
  /// @throws lci::backend_error  a copy failed
  void wait(uint64_t number);

  buffer_copier(const buffer_copier&) = delete;  ///< there is one owner
  /// Deleted: there is one owner.
  /// @return  never
  buffer_copier& operator=(const buffer_copier&) = delete;

 private:
  std::unique_ptr<detail::buffer_copies> copies_;
};

/// Parts of one buffer, all of the same size, that are used in turn: a producer takes the next one,
/// a consumer gives the oldest one back. Threads: one at a time.
class LCI_PUBLIC buffer_ring {
 public:
  /// @param whole  is divided; bytes left over after the last part are not used
  /// @param parts  how many, not 0
  /// @throws lci::argument_error  the whole is smaller than `parts` bytes
  buffer_ring(buffer whole, size_t parts);
  /// @return bytes of one
  size_t part_size() const noexcept { return part_size_; }
  /// @return how many there are
  size_t parts() const noexcept { return parts_; }
  /// @return how many are taken
  size_t taken() const noexcept { return static_cast<size_t>(next_ - oldest_); }
  /// Takes the next one.
  /// @param index  set to its number, 0 to parts() - 1
  /// @return false: all are taken
  bool try_take(size_t& index) noexcept;
  /// Gives the oldest taken one back.
  /// @throws lci::argument_error  none is taken
  void give_back();
  /// @param index  a number below parts()
  /// @return its first byte
  /// @throws lci::argument_error  no such part
  void* data(size_t index) const;
  /// @return the whole, for instance to export it
  buffer& whole() noexcept { return whole_; }

 private:
  buffer whole_;
  size_t part_size_, parts_;
  uint64_t next_ = 0, oldest_ = 0;  // counted from the start; part = number % parts_
};

/// Blocks of the same size in one buffer. A block is a buffer that returns to the pool when it, its
/// slices and its imports in this process are destroyed; the pool's memory lives as long as one
/// block. An importer in another process does not keep the block: its check() throws `stale`, and
/// it may see the bytes of the block's next user. Threads: any.
class LCI_PUBLIC buffer_pool {
 public:
  /// @param block_size  bytes, not 0
  /// @param blocks      how many, not 0
  /// @param device      a GPU, or buffer::HOST
  /// @throws as buffer::create()
  buffer_pool(size_t block_size, size_t blocks, int device = buffer::HOST);
  /// Blocks that are still in use stay valid.
  ~buffer_pool();
  /// @return a block, or a buffer without memory if none is free
  buffer try_take();
  /// @return how many are free
  size_t free_blocks() const;

  buffer_pool(const buffer_pool&) = delete;  ///< there is one owner
  /// Deleted: there is one owner.
  /// @return  never
  buffer_pool& operator=(const buffer_pool&) = delete;

 private:
  buffer whole_;
  size_t block_size_;
  std::shared_ptr<detail::buffer_blocks> blocks_;
};

}  // namespace lci

#endif  // LCI_BUFFER_HPP
