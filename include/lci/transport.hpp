/// @file transport.hpp
/// Transports: two programs that were started separately read and write each other's memory,
/// without launcher, rank or collective. Not part of lci.hpp. docs/transport.md has a first
/// program.
#ifndef LCI_TRANSPORT_HPP
#define LCI_TRANSPORT_HPP

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lci/export.hpp"
#include "lci/transfer.hpp"
#include "lci/transport_memory.hpp"

namespace lci {

/// How a transport is made.
struct transport_options {
  bool use_gpu = true;                 ///< false: GPU memory is refused, here and to peers
  std::vector<std::string> providers;  ///< of "shm", "ibv", "ofi"; empty: all that are usable
  std::string address = "127.0.0.1";   ///< where bind() listens
  int port = 0;                        ///< where bind() listens; 0: a free port
  std::string key;         ///< the secret in the URL, at least 16 bytes; empty: a new one
  double valid_s = 0;      ///< how long the URL can be used, seconds up to 1e9; 0: while it listens
  int uses = 0;            ///< how many peers may use the URL; 0: any number
  double timeout_s = 10;   ///< for setting up one connection; above 0, up to 1e9
  double spin_s = 0.0001;  ///< how long a blocking call spins before it sleeps; up to 1e9
  bool progress_thread = false;  ///< true: a thread of the library makes progress
};

/// What a write is to do besides writing.
struct transfer_options {
  bool notify = false;  ///< a write: tells the target, once its bytes and all before are there
  uint64_t tag = 0;     ///< of the notification; up to 65535 is quickest
  double limit_s = 0;   ///< time limit in seconds; 0 or above 1e9: none
};

/// Connections between this program and others.
///
/// Call bind() on one side and connect() with its URL on the other, or both on both sides. Then
/// each side reads and writes memory for which it has a key. Nothing moves unless a thread makes
/// progress: in process(), in a blocking call, or in the thread that option `progress_thread`
/// starts.
///
/// Threads: any, all functions at the same time, except the destructor.
class LCI_PUBLIC transport {
 public:
  class peer;
  class batch;

  /// Whether transports work in this process.
  /// @param why_not  set to a sentence if not; null is legal
  /// @return true if so
  static bool supported(std::string* why_not = nullptr);

  /// A transport without connections.
  /// @param options  how
  /// @throws lci::argument_error  an option is out of range
  /// @throws lci::backend_error  supported() says why
  explicit transport(const transport_options& options = transport_options());
  /// Closes it. Operations under way end with lci::peer_failure_error.
  ~transport();

  /// Listens, once; later calls return the same.
  /// @return URL with address, port and secret. Every program that has it may connect: send it as
  /// you would send a password
  /// @throws lci::backend_error  the system refuses the address
  std::string bind();
  /// Begins to connect and returns at once. Both sides may do it with each other's URL.
  /// @param url  what bind() returned on the other side
  /// @return the peer
  /// @throws lci::argument_error  not a URL of bind()
  /// @throws lci::backend_error  the system has no descriptor left, for example
  peer connect(const std::string& url);
  /// The next peer that has connected to bind()'s URL. Peers that have closed meanwhile are
  /// skipped.
  /// @return the peer; not valid if there is none now
  peer accept();
  /// All peers that are not closed.
  /// @return in the order in which they came
  std::vector<peer> peers();
  /// Whether there is a peer, and the connections to all peers are up.
  /// @return true if so
  bool connected();
  /// Makes progress until connected().
  /// @param limit_s  seconds; below 0 or above 1e9: no limit
  /// @return false: the time is up
  /// @throws lci::argument_error  `limit_s` is not a number
  /// @throws lci::backend_error  the connection was refused, with the reason
  /// @throws lci::peer_failure_error  the peer cannot be reached, or is lost
  bool wait_connected(double limit_s = -1);
  /// Ends all connections in an orderly way; operations that are not complete fail.
  void close();

  /// Writes local memory to a peer's. The call returns at once; before the connection is up, the
  /// operation waits for it. For transports with one peer, or with none yet.
  /// @param local  source; its bytes must not change before the transfer is done
  /// @param remote  target
  /// @param notify  tells the target; its wait_for_write() then returns
  /// @param tag  of the notification
  /// @return the transfer: done when the source may be reused; without notification, when the bytes
  /// are there
  /// @throws lci::argument_error  sizes differ, an empty view, several peers
  /// @throws lci::peer_failure_error  the peer is lost
  transfer write(const memory_view& local, const remote_buffer& remote, bool notify = false,
                 uint64_t tag = 0);
  /// write() with options.
  /// @param local  source
  /// @param remote  target
  /// @param options  what else
  /// @return the transfer
  transfer write(const memory_view& local, const remote_buffer& remote,
                 const transfer_options& options);
  /// Reads a peer's memory into local memory.
  /// @param local  target
  /// @param remote  source
  /// @param options  `notify` must be false
  /// @return the transfer: done when the bytes are there
  transfer read(const memory_view& local, const remote_buffer& remote,
                const transfer_options& options = transfer_options());
  /// Starts all operations of a batch as one transfer.
  /// @param all  the batch; may be used again
  /// @param options  what else
  /// @return the transfer: done when all are
  transfer submit(const batch& all, const transfer_options& options = transfer_options());

  /// Waits for the next notification of any peer, and takes it. All bytes that this peer wrote with
  /// this and earlier writes are then visible to this thread and to kernels started later.
  /// Notifications of one peer that are under way at the same time may come in any order.
  /// Notifications that the program does not take are kept, without a limit.
  /// @return the notification
  /// @throws lci::peer_failure_error  the last peer is lost and no notification is left. After
  /// bind() it waits for other peers instead: peers() returns those that are connected
  notification wait_for_write();
  /// The same with a time limit.
  /// @param limit_s  seconds; 0: makes progress once and does not wait; below 0 or above 1e9: no
  /// limit
  /// @param out  the notification
  /// @return false: the time is up
  /// @throws lci::argument_error  `limit_s` is not a number
  bool wait_for_write(double limit_s, notification* out);
  /// A transfer that is done at the next notification, which transfer::note() returns. Takes
  /// precedence over wait_for_write(). It ends with lci::cancelled_error if the transport is
  /// closed, and with lci::peer_failure_error as wait_for_write() does.
  /// @return the transfer
  /// @throws lci::peer_failure_error  as wait_for_write()
  transfer next_write();

  /// A descriptor that is readable when process() has something to do; for poll, epoll, and event
  /// loops. While nothing arrives and nothing is under way it stays silent.
  /// @return owned by the transport, the same every time
  int event_fd() const;
  /// Makes progress, and runs callbacks. Never blocks.
  /// @return whether something happened
  bool process();
  /// For people: each peer, which networks lead to it, and why.
  /// @return several lines
  std::string describe();

  transport(const transport&) = delete;  ///< there is one owner
  /// Deleted: there is one owner.
  /// @return  never
  transport& operator=(const transport&) = delete;

 private:
  std::shared_ptr<transports::core> core_;
};

/// One of the programs that a transport is connected with. Copies refer to the same one.
class LCI_PUBLIC transport::peer {
 public:
  peer() {}
  /// Whether it refers to a program.
  /// @return false for a default-constructed one, and if accept() had none
  bool is_valid() const { return link_ != nullptr; }
  /// Its number within the transport.
  /// @return counted from 0, in the order of connect() and accept()
  int number() const;
  /// Whether operations can be carried out now.
  /// @return false before the connection is up, and after its end
  bool connected() const;
  /// Why the connection has ended.
  /// @return empty if it has not
  std::string why_closed() const;
  /// Ends this connection; operations that are not complete fail.
  void close();
  /// As transport::write().
  /// @param local  source
  /// @param remote  target
  /// @param notify  tells the target
  /// @param tag  of the notification
  /// @return the transfer
  transfer write(const memory_view& local, const remote_buffer& remote, bool notify = false,
                 uint64_t tag = 0);
  /// As transport::write().
  /// @param local  source
  /// @param remote  target
  /// @param options  what else
  /// @return the transfer
  transfer write(const memory_view& local, const remote_buffer& remote,
                 const transfer_options& options);
  /// As transport::read().
  /// @param local  target
  /// @param remote  source
  /// @param options  `notify` must be false
  /// @return the transfer
  transfer read(const memory_view& local, const remote_buffer& remote,
                const transfer_options& options = transfer_options());
  /// As transport::submit().
  /// @param all  the batch
  /// @param options  what else
  /// @return the transfer
  transfer submit(const batch& all, const transfer_options& options = transfer_options());
  /// As transport::describe().
  /// @return a few lines
  std::string describe() const;

 private:
  friend class transport;
  explicit peer(std::shared_ptr<transports::link> link) : link_(std::move(link)) {}
  std::shared_ptr<transports::link> link_;
};

/// Operations that are started together and complete together.
class LCI_PUBLIC transport::batch {
 public:
  /// One read or write.
  struct entry {
    memory_view local;     ///< here
    remote_buffer remote;  ///< there; as long
    bool is_write;         ///< false: a read
  };
  /// Adds a write.
  /// @param local  source
  /// @param remote  target
  /// @return itself
  batch& write(const memory_view& local, const remote_buffer& remote);
  /// Adds a read.
  /// @param local  target
  /// @param remote  source
  /// @return itself
  batch& read(const memory_view& local, const remote_buffer& remote);
  /// Adds writes of several views to the bytes of one buffer, one behind the other.
  /// @param locals  sources
  /// @param remote  target, as long as all of them together
  /// @return itself
  batch& write(const std::vector<memory_view>& locals, const remote_buffer& remote);
  /// Adds reads of the bytes of one buffer into several views, one behind the other.
  /// @param locals  targets
  /// @param remote  source, as long as all of them together
  /// @return itself
  batch& read(const std::vector<memory_view>& locals, const remote_buffer& remote);
  /// Forgets all entries.
  void clear() { entries_.clear(); }
  /// What it has.
  /// @return in the order added
  const std::vector<entry>& entries() const { return entries_; }

 private:
  std::vector<entry> entries_;
};

}  // namespace lci

#endif  // LCI_TRANSPORT_HPP
