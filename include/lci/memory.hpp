/// @file memory.hpp
/// Memory that peers may access, packets that the program fills in place, and the allocator of
/// message buffers.
#ifndef LCI_MEMORY_HPP
#define LCI_MEMORY_HPP

#include <cstdlib>
#include <type_traits>

#include "lci/options.hpp"

namespace lci {

/// Allocates the buffers of received active messages. Derive from it and pass it to
/// set_allocator(), or to alloc_packet_pool_x for the packets of a pool. All threads that make
/// progress may call both functions at the same time. The memory may be GPU memory: the GPU then
/// copies messages there.
class LCI_PUBLIC allocator_base_t {
 public:
  virtual ~allocator_base_t() {}
  /// Allocates.
  /// @param size  bytes; 0 is legal
  /// @return at least that many bytes
  virtual void* allocate(size_t size) = 0;
  /// Frees memory.
  /// @param ptr  the result of allocate()
  virtual void deallocate(void* ptr) = 0;
};

/// The allocator used until another one is set: malloc and free.
class LCI_PUBLIC allocator_default_t : public allocator_base_t {
 public:
  void* allocate(size_t size) override { return std::malloc(size == 0 ? 1 : size); }
  void deallocate(void* ptr) override { std::free(ptr); }
};

/// Memory of one GPU, for packet pools and set_allocator(). The constructor uses no GPU and never
/// fails. allocate() throws lci::backend_error with the reason if there is no such GPU or it has no
/// memory left. allocate() and deallocate() may wait for the GPU. The memory is aligned to 256
/// bytes and outlives the runtime. deallocate() throws lci::argument_error for memory that it has
/// not allocated. Threads: any.
class LCI_PUBLIC device_allocator_t : public allocator_base_t {
 public:
  /// @param gpu  the GPU's number in this process
  explicit device_allocator_t(int gpu = 0) : gpu_(gpu) {}
  void* allocate(size_t size) override;
  void deallocate(void* ptr) override;

 private:
  int gpu_;
};

/// Host memory that GPUs read and write (pinned); otherwise like device_allocator_t. It works for
/// all GPUs of the process.
class LCI_PUBLIC pinned_allocator_t : public allocator_base_t {
 public:
  /// @param gpu  the GPU through which it is allocated; a GPU that the program already uses costs
  /// nothing more
  explicit pinned_allocator_t(int gpu = 0) : gpu_(gpu) {}
  void* allocate(size_t size) override;
  void deallocate(void* ptr) override;

 private:
  int gpu_;
};

/// The one instance of the default allocator.
extern LCI_PUBLIC allocator_default_t g_allocator_default;

namespace detail {

/// Arguments of alloc_packet_pool.
struct alloc_packet_pool_args {
  overrides_t<packet_pool_settings_t> settings;
  runtime_t runtime;
  allocator_base_t* allocator = nullptr;  // null: host memory that peers can see
  const char* name = nullptr;
  void* user_context = nullptr;
};
/// Arguments of register_packet_pool and deregister_packet_pool.
struct bind_packet_pool_args {
  packet_pool_t packet_pool;
  device_t device;
  runtime_t runtime;
};
/// Arguments of register_memory.
struct register_memory_args {
  void* address = nullptr;
  size_t size = 0;
  runtime_t runtime;
  device_t device;
};
/// Arguments of deregister_memory.
struct deregister_memory_args {
  mr_t* mr = nullptr;
  mr_t value;  // given instead of a pointer
  runtime_t runtime;
};
/// Arguments of get_rmr.
struct get_rmr_args {
  mr_t mr;
  runtime_t runtime;
};
/// Arguments of get_upacket and get_max_bcopy_size.
struct packet_pool_args {
  runtime_t runtime;
  packet_pool_t packet_pool;
};
/// Arguments of put_upacket.
struct put_upacket_args {
  void* packet = nullptr;
  runtime_t runtime;
};
/// Arguments of set_allocator and get_allocator.
struct allocator_args {
  allocator_base_t* allocator = nullptr;  // set_allocator only
  runtime_t runtime;
};

LCI_PUBLIC packet_pool_t alloc_packet_pool(const alloc_packet_pool_args& args);
LCI_PUBLIC void free_packet_pool(const free_args<packet_pool_t>& args);
LCI_PUBLIC void register_packet_pool(const bind_packet_pool_args& args);
LCI_PUBLIC void deregister_packet_pool(const bind_packet_pool_args& args);
LCI_PUBLIC packet_pool_t get_default_packet_pool(const get_default_args& args);
LCI_PUBLIC mr_t register_memory(const register_memory_args& args);
LCI_PUBLIC void deregister_memory(const deregister_memory_args& args);
LCI_PUBLIC rmr_t get_rmr(const get_rmr_args& args);
LCI_PUBLIC void* get_upacket(const packet_pool_args& args);
LCI_PUBLIC void put_upacket(const put_upacket_args& args);
LCI_PUBLIC size_t get_max_bcopy_size(const packet_pool_args& args);
LCI_PUBLIC void set_allocator(const allocator_args& args);
LCI_PUBLIC allocator_base_t* get_allocator(const allocator_args& args);

/// Base of register_packet_pool and deregister_packet_pool.
template <class Op, void (*Run)(const bind_packet_pool_args&)>
class bind_packet_pool_operation : public operation<Op, bind_packet_pool_args, void, Run>,
                                   public runtime_option<Op>,
                                   public packet_pool_option<Op>,
                                   public device_option<Op> {
 protected:
  bind_packet_pool_operation(packet_pool_t packet_pool, device_t device) {
    this->args.packet_pool = packet_pool;
    this->args.device = device;
  }
};

}  // namespace detail

/// Registers `size` bytes at `address` with a device. Peers access them with the result of
/// get_rmr().
/// @return  the region; end it with deregister_memory()
/// @throws lci::argument_error  null address with a size
/// @throws lci::backend_error   the system refuses; the text gives the reason
/// Threads: any.
class register_memory_x : public detail::operation<register_memory_x, detail::register_memory_args,
                                                   mr_t, &detail::register_memory>,
                          public detail::runtime_option<register_memory_x>,
                          public detail::device_option<register_memory_x> {
 public:
  /// Positional arguments, see the setters of their names.
  register_memory_x(void* address, size_t size) {
    args.address = address;
    args.size = size;
  }
  /// Sets the first byte.
  register_memory_x&& address(void* value) {
    args.address = value;
    return self();
  }
  /// Sets the length in bytes.
  register_memory_x&& size(size_t value) {
    args.size = value;
    return self();
  }
};

/// Ends a registration, and empties the handle if it was passed by pointer. Peers must not use its
/// rmr_t any more. Threads: any.
/// @throws lci::argument_error  empty or freed handle, null pointer
class deregister_memory_x
    : public detail::operation<deregister_memory_x, detail::deregister_memory_args, void,
                               &detail::deregister_memory>,
      public detail::runtime_option<deregister_memory_x> {
 public:
  /// Takes the handle to empty.
  explicit deregister_memory_x(mr_t* value) { args.mr = value; }
  /// Takes a copy of the handle; the original is unchanged.
  explicit deregister_memory_x(mr_t value) { args.value = detail::given(value); }
  /// Other pointers are not registrations, although they convert to a handle.
  template <class T, typename std::enable_if<!std::is_same<T, mr_t>::value, int>::type = 0>
  explicit deregister_memory_x(T*) = delete;
  /// Sets the handle to empty.
  deregister_memory_x&& mr(mr_t* value) {
    args.mr = value;
    args.value = mr_t();
    return self();
  }
};

/// Returns the remote key of a registered region. Threads: any.
/// @return  the remote key with which peers access the region; plain bytes to send to them, valid
/// until the region is deregistered
/// @throws std::runtime_error  empty handle
class get_rmr_x
    : public detail::operation<get_rmr_x, detail::get_rmr_args, rmr_t, &detail::get_rmr>,
      public detail::runtime_option<get_rmr_x> {
 public:
  /// Takes the region.
  explicit get_rmr_x(mr_t value) { args.mr = value; }
  /// Sets the region.
  get_rmr_x&& mr(mr_t value) {
    args.mr = value;
    return self();
  }
};

/// Creates a packet pool; it grows on demand up to `npackets`.
/// @return  the pool; free it with free_packet_pool()
/// @throws lci::argument_error  packet_size below two cache lines or above 1 GiB
class alloc_packet_pool_x
    : public detail::alloc_operation<alloc_packet_pool_x, detail::alloc_packet_pool_args,
                                     packet_pool_settings_t, packet_pool_t,
                                     &detail::alloc_packet_pool> {
 public:
  /// Sets the bytes of the longest message that a packet holds, rounded up to whole cache lines; a
  /// packet takes two cache lines more. Default: attribute `packet_size`.
  alloc_packet_pool_x&& packet_size(size_t value) { return set(&S::packet_size, value); }
  /// Sets the maximum number of packets. Default: attribute `npackets`.
  alloc_packet_pool_x&& npackets(size_t value) { return set(&S::npackets, value); }
  /// Sets the allocator of the payloads, for example of GPU memory: messages are then built and
  /// delivered there. Not owned; must outlive the pool. Called when packets are first needed, for
  /// many at a time. Default: null, host memory of the library.
  alloc_packet_pool_x&& allocator(allocator_base_t* value) {
    args.allocator = value;
    return self();
  }
};

/// Frees a packet pool and empties the handle. The program must have returned its packets, and the
/// devices that use it must be freed. Unreceived messages in its packets are dropped.
/// @throws lci::argument_error  a device still uses it; nothing is freed
class free_packet_pool_x
    : public detail::free_operation<free_packet_pool_x, packet_pool_t, &detail::free_packet_pool> {
 public:
  /// Takes the handle to empty.
  explicit free_packet_pool_x(packet_pool_t* value) : free_operation(value) {}
  /// Sets the handle to empty.
  free_packet_pool_x&& packet_pool(packet_pool_t* value) { return set(value); }
};

/// Makes a packet pool usable with a device. The device then uses a pool with an allocator to
/// deliver active messages for completion objects with `zero_copy_am`: messages of at most
/// get_max_bcopy_size() of the pool in a packet (return it with put_upacket()), larger ones in
/// memory of the pool's allocator (return it there). The pool registered last is used. Threads:
/// any; messages that have begun to arrive stay where they are.
class register_packet_pool_x
    : public detail::bind_packet_pool_operation<register_packet_pool_x,
                                                &detail::register_packet_pool> {
 public:
  /// Positional arguments, see the setters of their names.
  register_packet_pool_x(packet_pool_t packet_pool, device_t device)
      : bind_packet_pool_operation(packet_pool, device) {}
};

/// Undoes register_packet_pool(). Threads: any.
class deregister_packet_pool_x
    : public detail::bind_packet_pool_operation<deregister_packet_pool_x,
                                                &detail::deregister_packet_pool> {
 public:
  /// Positional arguments, see the setters of their names.
  deregister_packet_pool_x(packet_pool_t packet_pool, device_t device)
      : bind_packet_pool_operation(packet_pool, device) {}
};

/// The runtime's default packet pool; empty if it has none.
/// @return  the pool, which belongs to the runtime; empty if it has none
class get_default_packet_pool_x
    : public detail::get_default_operation<get_default_packet_pool_x, packet_pool_t,
                                           &detail::get_default_packet_pool> {};

/// Takes a packet of at least get_max_bcopy_size() writable bytes in which to build a message. A
/// post on the same pool that returns done or posted gives the packet back to the library; after
/// retry the caller still owns it. A packet of a pool with an allocator is in the allocator's
/// memory, aligned to 256 bytes; a post recognizes that memory and needs no mr. Rethrows what the
/// allocator throws. Threads: any.
/// @return  the first writable byte of the packet, or null if no packet is left
class get_upacket_x : public detail::operation<get_upacket_x, detail::packet_pool_args, void*,
                                               &detail::get_upacket>,
                      public detail::runtime_option<get_upacket_x>,
                      public detail::packet_pool_option<get_upacket_x> {};

/// Returns an unused packet, or the buffer of a zero-copy active message. Threads: any.
/// @throws lci::argument_error  not a packet
class put_upacket_x
    : public detail::operation<put_upacket_x, detail::put_upacket_args, void, &detail::put_upacket>,
      public detail::runtime_option<put_upacket_x> {
 public:
  /// Takes the packet.
  explicit put_upacket_x(void* value) { args.packet = value; }
  /// Sets the packet.
  put_upacket_x&& packet(void* value) {
    args.packet = value;
    return self();
  }
};

/// Largest message that is copied when it is posted, and that arrives in a packet where its
/// receiver wants packets. Threads: any.
/// @return  bytes: `packet_size` of the pool, rounded up to whole cache lines, or what the network
/// of the runtime's first net context takes in one piece, if that is less: 65472 inside a host,
/// 8192 over verbs or libfabric. Of a pool with an allocator: `packet_size`, rounded up
class get_max_bcopy_size_x
    : public detail::operation<get_max_bcopy_size_x, detail::packet_pool_args, size_t,
                               &detail::get_max_bcopy_size>,
      public detail::runtime_option<get_max_bcopy_size_x>,
      public detail::packet_pool_option<get_max_bcopy_size_x> {};

/// Replaces the runtime's allocator. The runtime does not own it, and it must outlive all
/// communication.
/// Threads: one at a time, while no thread communicates. @throws lci::argument_error  null
class set_allocator_x : public detail::operation<set_allocator_x, detail::allocator_args, void,
                                                 &detail::set_allocator>,
                        public detail::runtime_option<set_allocator_x> {
 public:
  /// Takes the allocator.
  explicit set_allocator_x(allocator_base_t* value) { args.allocator = value; }
  /// Sets the allocator.
  set_allocator_x&& allocator(allocator_base_t* value) {
    args.allocator = value;
    return self();
  }
};

/// The runtime's allocator. Threads: any.
/// @return  the allocator that was set, or the default one; the caller must not free it
class get_allocator_x : public detail::operation<get_allocator_x, detail::allocator_args,
                                                 allocator_base_t*, &detail::get_allocator>,
                        public detail::runtime_option<get_allocator_x> {};

/// register_memory_x without options.
inline mr_t register_memory(void* address, size_t size) {
  return register_memory_x(address, size).call();
}
/// deregister_memory_x without options.
inline void deregister_memory(mr_t* mr) { deregister_memory_x(mr).call(); }
/// The same by value: the caller's handle is unchanged and then invalid.
/// @param mr the registration to end
inline void deregister_memory(mr_t mr) { deregister_memory_x(mr).call(); }
/// Other pointers are not registrations, although they convert to a handle.
template <class T, typename std::enable_if<!std::is_same<T, mr_t>::value, int>::type = 0>
void deregister_memory(T*) = delete;
/// get_rmr_x without options.
inline rmr_t get_rmr(mr_t mr) { return get_rmr_x(mr).call(); }
/// alloc_packet_pool_x without options.
inline packet_pool_t alloc_packet_pool() { return alloc_packet_pool_x().call(); }
/// free_packet_pool_x without options.
inline void free_packet_pool(packet_pool_t* packet_pool) { free_packet_pool_x(packet_pool).call(); }
/// register_packet_pool_x without options.
inline void register_packet_pool(packet_pool_t packet_pool, device_t device) {
  register_packet_pool_x(packet_pool, device).call();
}
/// deregister_packet_pool_x without options.
inline void deregister_packet_pool(packet_pool_t packet_pool, device_t device) {
  deregister_packet_pool_x(packet_pool, device).call();
}
/// get_default_packet_pool_x without options.
inline packet_pool_t get_default_packet_pool() { return get_default_packet_pool_x().call(); }
/// get_upacket_x without options.
inline void* get_upacket() { return get_upacket_x().call(); }
/// put_upacket_x without options.
inline void put_upacket(void* packet) { put_upacket_x(packet).call(); }
/// get_max_bcopy_size_x without options.
inline size_t get_max_bcopy_size() { return get_max_bcopy_size_x().call(); }
/// set_allocator_x without options.
inline void set_allocator(allocator_base_t* allocator) { set_allocator_x(allocator).call(); }
/// get_allocator_x without options.
inline allocator_base_t* get_allocator() { return get_allocator_x().call(); }

}  // namespace lci

#endif  // LCI_MEMORY_HPP
