/// @file transport_memory.hpp
/// Memory for transports: registered memory, views of it, and its names for other processes.
#ifndef LCI_TRANSPORT_MEMORY_HPP
#define LCI_TRANSPORT_MEMORY_HPP

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "lci/export.hpp"

namespace lci {

namespace transports {
class memory_state;
}  // namespace transports

/// A part of registered memory; refers to it and never owns it. Plain to copy. A view whose memory
/// has ended is refused by the operation that gets it.
class LCI_PUBLIC memory_view {
 public:
  memory_view() : data_(nullptr), size_(0) {}
  /// The first byte.
  /// @return in host or GPU memory; null for a default-constructed view
  void* data() const { return data_; }
  /// The length in bytes.
  /// @return 0 for an empty view
  size_t size() const { return size_; }
  /// The GPU whose memory it is.
  /// @return its number in this process, or -1 for host memory
  int device() const;
  /// A part of this view.
  /// @param offset  first byte, counted from data()
  /// @param length  bytes
  /// @return the part
  /// @throws lci::argument_error  it is not inside this view
  memory_view view(size_t offset, size_t length) const;

 private:
  friend class memory;
  friend class transports::memory_state;
  memory_view(void* data, size_t size, std::weak_ptr<transports::memory_state> state);
  void* data_;
  size_t size_;
  std::weak_ptr<transports::memory_state> state_;
};

/// What a key allows, and for how long. The peer's library enforces this: rights, bounds of a part
/// and time guard against mistakes, not against a peer whose library was altered. Such a peer can
/// use the whole memory until its registration ends, which revoke() and the end of the memory
/// cause.
struct key_options {
  /// Seconds from now, at most 1e9; 0: until it is revoked or the memory ends
  double valid_s = 0;
  bool can_read = true;   ///< whether peers may read the memory
  bool can_write = true;  ///< whether peers may write it
};

/// Memory of another process, or a part of it: an address there, a length and the key. The address
/// is only a number here. A remote buffer can be sent as text to the program that is to read or
/// write that memory.
class LCI_PUBLIC remote_buffer {
 public:
  remote_buffer() : address_(0), size_(0) {}
  /// A part of the memory that a key names, by its address there.
  /// @param address  first byte, as the owner has it
  /// @param size  bytes
  /// @param key  what memory::remote_key() returned there
  remote_buffer(uint64_t address, size_t size, const std::string& key);
  /// All of the memory that a key names.
  /// @param key  what memory::remote_key() returned there
  /// @return the buffer
  /// @throws lci::argument_error  the text is no key
  static remote_buffer of_key(const std::string& key);
  /// The address in its owner's process.
  /// @return a number, not to be dereferenced
  uint64_t address() const { return address_; }
  /// The length in bytes.
  /// @return bytes
  size_t size() const { return size_; }
  /// The key.
  /// @return text
  const std::string& key() const { return key_; }
  /// A part of this buffer.
  /// @param offset  first byte, counted from address()
  /// @param length  bytes
  /// @return the part
  /// @throws lci::argument_error  it is not inside this buffer
  remote_buffer slice(size_t offset, size_t length) const;
  /// As one line of text without blanks.
  /// @return what parse() takes
  std::string to_string() const;
  /// From the text.
  /// @param text  what to_string() returned, in any process
  /// @return the buffer
  /// @throws lci::argument_error  the text is not of this form
  static remote_buffer parse(const std::string& text);

 private:
  uint64_t address_;
  size_t size_;
  std::string key_;
};

/// Memory of the program that transports may use. It does not own the bytes: they must outlive this
/// object. It needs no connection: each connection registers it at first use. The kind of memory
/// and its GPU are found from the pointer.
///
/// The destructor withdraws all keys. It does not wait for peers that are writing at that moment;
/// if that matters, call revoke_and_wait() first. Threads: any, all functions, except assignment
/// and the destructor.
class LCI_PUBLIC memory {
 public:
  /// No memory.
  memory() {}
  /// @param data  first byte, in host or GPU memory
  /// @param size  bytes, at least 1
  /// @throws lci::argument_error  null, no bytes, or beyond the end of the address space
  memory(void* data, size_t size);
  /// Takes over what another one names.
  /// @param other  names no memory afterwards
  memory(memory&& other) noexcept;
  /// Exchanges with another one.
  /// @param other  gets what this one named
  /// @return this one
  memory& operator=(memory&& other) noexcept;
  ~memory();

  /// The first byte.
  /// @return null for no memory
  void* data() const;
  /// The length in bytes.
  /// @return 0 for no memory
  size_t size() const;
  /// The GPU whose memory it is.
  /// @return its number in this process, or -1 for host memory
  int device() const;
  /// Whether bytes are inside.
  /// @param pointer  the first of them
  /// @param length  how many
  /// @return true if all are
  bool contains(const void* pointer, size_t length = 1) const;
  /// All of it.
  /// @return the view
  memory_view view() const { return view_at(0, size()); }
  /// A part of it.
  /// @param offset  first byte, counted from data()
  /// @param length  bytes
  /// @return the view
  /// @throws lci::argument_error  it is not inside
  memory_view view(size_t offset, size_t length) const { return view_at(offset, length); }
  /// A part of it, by its address.
  /// @param pointer  first byte
  /// @param length  bytes
  /// @return the view
  /// @throws lci::argument_error  it is not inside
  template <class T>
  memory_view view(T* pointer, size_t length) const {
    return view_of(pointer, length);
  }

  /// A key to all of this memory, to be sent anywhere. It is authenticated: the owner recognises
  /// its own keys and refuses all others, including altered ones. No address in it is dereferenced
  /// unchecked. Calls with the same rights and no time limit return the same text.
  /// @param options  rights and time
  /// @return text without blanks
  /// @throws lci::argument_error  no memory, no right, or `valid_s` is not in 0..1e9
  /// @throws lci::backend_error  this build has no libsodium
  std::string remote_key(const key_options& options = key_options()) const;
  /// remote_key() with address and length: what a peer passes to transport::write().
  /// @param options  rights and time
  /// @return the buffer
  remote_buffer remote(const key_options& options = key_options()) const;
  /// Withdraws one key. A peer that has it starts nothing with it any more; operations that it has
  /// begun complete if they take no longer than a second.
  /// @param key  one of this memory
  /// @throws lci::argument_error  it is not
  void revoke(const std::string& key);
  /// Withdraws all keys given so far.
  void revoke();
  /// Withdraws all keys and makes progress on the transports involved until no peer uses them.
  /// @param limit_s  seconds; below 0 or above 1e9: no limit
  /// @return true: no peer accesses the memory any more; false: the time is up. A peer that has not
  /// answered within one second is cut off
  /// @throws lci::argument_error  `limit_s` is not a number; nothing was withdrawn
  bool revoke_and_wait(double limit_s);

  memory(const memory&) = delete;  ///< there is one owner
  /// Deleted: there is one owner.
  /// @return  never
  memory& operator=(const memory&) = delete;

 private:
  memory_view view_at(size_t offset, size_t length) const;
  memory_view view_of(const void* pointer, size_t length) const;
  std::shared_ptr<transports::memory_state> state_;
};

}  // namespace lci

#endif  // LCI_TRANSPORT_MEMORY_HPP
