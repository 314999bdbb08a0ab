// First contact between two processes of one host: an abstract socket, a hello in each direction
// that hands the arena over, a check of the peer's user, a bye. After that the socket only reports
// the peer's end: its hang-up. Callers: fabric. Threads: single (under the connections' lock).
// Always true: a record is one datagram of a SOCK_SEQPACKET socket; decoders look at length and
// version before anything else.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "backends/shm/layout.hpp"
#include "lci/base/descriptor.hpp"

namespace lci::shm {

using fabric_id = std::array<std::uint8_t, 16>;

// What decides whether two sockets can meet.
struct surroundings {
  std::string host;              // boot id of the kernel
  std::uint64_t network_ns = 0;  // inode of the network namespace, which abstract names belong to
};

// Where a fabric is reached; its text form is fabric::address().
struct address : surroundings {
  fabric_id id{};  // random; names the abstract socket

  std::string text() const;
  static std::optional<address> parse(const std::string& text);
  // A new random id on this host. Throws backend_error.
  static address make();
  // Empty if a fabric there can be reached from `here`, else the reason.
  std::string why_unreachable(const address& here) const;
};

// Processes for which this is the same can meet: one kernel, and then the network namespace that
// abstract names belong to, the user namespace and user that the check of the caller is about. The
// others (pid, ipc, mount, uts) do not matter, since memory files are passed and not named.
// LCI_HOST_ID replaces what follows the kernel. Throws argument_error for a bad one.
std::string place_here();

// What each side says first; the arena's descriptor travels with it.
struct hello {
  static constexpr std::uint32_t MAGIC = 0x6c636968;
  std::uint32_t magic = MAGIC;
  std::uint16_t version = WIRE_VERSION;
  std::uint16_t bytes = sizeof_hello();  // of this record
  std::int32_t rank = -1;                // the sender's
  std::uint32_t reserved = 0;
  fabric_id from{};                 // the sender's fabric
  fabric_id to{};                   // whom it means
  std::uint64_t arena_reserve = 0;  // bytes to map
  std::uint64_t control = 0;        // offsets in the sender's arena: control_page,
  std::uint64_t rows = 0;           // the region table's rows, 0 if there is none,
  std::uint64_t table = 0;          // device_table for this peer
  std::uint64_t probe_address =
      0;                          // where the sender's own copy of probe_value lies: an argument of
  std::uint64_t probe_value = 0;  // process_vm_readv, which finds out whether that call works
  static constexpr std::uint16_t sizeof_hello() { return 96; }
};
static_assert(sizeof(hello) == hello::sizeof_hello());

// What a side says last that lives and cannot take the other in, so that both know why.
struct refusal {
  static constexpr std::uint32_t MAGIC = 0x6c636972;
  static constexpr std::size_t MOST = 240;
  std::uint32_t magic = MAGIC;
  std::uint32_t size = 0;  // bytes of `why`
  char why[MOST] = {};
};

struct bye {
  static constexpr std::uint32_t MAGIC = 0x6c636962;
  std::uint32_t magic = MAGIC;
  std::uint32_t reserved = 0;
};

// Empty `why` if the bytes are a hello that can be used.
struct decoded_hello {
  hello what;
  std::string why;
};
decoded_hello decode_hello(std::span<const std::byte> record);
bool is_bye(std::span<const std::byte> record) noexcept;
// Which words a refusal has; empty for any other record.
std::string_view words_of_refusal(std::span<const std::byte> record) noexcept;

// Callers that may wait for a listening socket, if the system allows so many.
constexpr int BACKLOG = 4096;
// The listening socket of a fabric. Throws backend_error.
base::descriptor listen_at(const fabric_id& id);
// Answers an errno value; 0 and a connected socket when the peer's queue took us.
int connect_to(const fabric_id& id, base::descriptor& out) noexcept;
// The user and process at the other end, as seen from here (pid 0: not visible).
struct credentials {
  uid_t uid = static_cast<uid_t>(-1);
  pid_t pid = 0;
};
credentials peer_of(int fd) noexcept;
// A descriptor that is readable once that process has ended; empty where there is none.
base::descriptor watch_end(pid_t process) noexcept;
bool has_ended(const base::descriptor& process) noexcept;
// Sends one record, with a descriptor unless that is -1. Answers an errno value.
int send_record(int fd, std::span<const std::byte> record, int passed_fd) noexcept;
// As far as the other side's buffer has room, which it has.
void send_refusal(int fd, std::string_view why) noexcept;
// One record as received. size 0: the peer hung up. error: an errno value, EAGAIN when there is
// nothing now.
struct received {
  int error = 0;
  std::size_t size = 0;
  base::descriptor passed;
  std::array<std::byte, 256> bytes;
};
received receive_record(int fd) noexcept;

}  // namespace lci::shm
