// libfabric without a network: a shared library called libfabric.so.1 that is loaded like the real
// one. What a test wants to know or to set goes through this interface, which the same library
// hands out (lci_fake_ofi()).
//
// The model: every endpoint of this process is on one network. What is posted waits at the endpoint
// that it names until that one's completion queue is read, as with providers that make progress by
// polling; there is room for so much, and then posts answer FI_EAGAIN. Threads: shared, one lock.
// Always true: what a provider answers with an error is answered so; what no provider forgives (a
// buffer without its description, a context that is used twice, an object closed before what needs
// it) is a complaint, which ends the program unless the test collects them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace lci::test {

struct fake_ofi_config {
  std::string provider = "fake";
  std::string also = {};  // a second provider of the same domain, which comes first; empty: none
  std::string domain = "fake0";
  std::string name_prefix = "fake://";  // of endpoints; longer names are longer addresses
  bool has_host_names = false;          // names are addresses of this host, as those of tcp are
  std::string source =
      "fake://here";           // what the domain says its address is: an IP address, or text
  std::string pci = {};        // of its card: "0000:3b:00.0"; empty: it tells of no card
  std::size_t data_bytes = 8;  // of immediate data
  std::size_t inject = 128;
  std::size_t most = std::size_t{1} << 30;  // bytes of one operation
  std::size_t key_bytes = 8;
  int mr_mode = 0;              // FI_MR_*
  bool keeps_order = true;      // messages among themselves, and behind writes
  bool has_delivery = true;     // FI_DELIVERY_COMPLETE
  bool has_gpu_memory = false;  // FI_HMEM, for who asks
  bool completes_early = true;  // a message, when it is handed over, or else when it is received
  bool makes_progress = false;  // says that it does
  unsigned again = 0;           // one post in so many answers FI_EAGAIN
  unsigned shuffle = 0;         // seed of the order in which completions come; 0: as they happen
  unsigned late =
      0;  // reads of its queue after which a write is there; later messages are not held
  unsigned late_messages = 0;  // the same of a message; those behind it wait too
  std::size_t room = 1024;     // posts that wait at one endpoint

  // What LCI_FAKE_OFI says: "data_bytes=4,mr=endpoint+local,again=7".
  static fake_ofi_config from_environment();
};

// What is registered, as it was asked for.
struct fake_registration {
  const void* address = nullptr;
  std::size_t size = 0;
  int iface = 0;   // FI_HMEM_*
  int device = 0;  // of that; 0 for memory of the host
  std::uint64_t key = 0;
};

class fake_ofi {
 public:
  // Nothing may be alive.
  virtual void reset(const fake_ofi_config& config = {}) = 0;
  // With what LCI_FAKE_OFI says now.
  virtual void reset_as_environment_says() = 0;
  virtual std::size_t live() const = 0;  // objects
  // Those that are not of the host, in the order in which they were made.
  virtual std::vector<fake_registration> gpu_registrations() const = 0;
  virtual std::vector<std::string> take_complaints() = 0;
  // From the first call of this on, complaints are collected.
  virtual std::size_t calls(const std::string& name) const = 0;  // "fi_writemsg"
  // The nth call of that name from now on, and those behind it up to `times`, answer this code.
  virtual void fail(const std::string& name, unsigned nth, int code, unsigned times = 1) = 0;
  // Everything that waits at, or is posted to, endpoints of which the name holds this text ends
  // with that code.
  virtual void cut(const std::string& part, int code) = 0;
  // Called around whatever the library does by itself; null: nothing. Nobody may be inside.
  virtual void call_around(void (*begin)(), void (*end)()) = 0;

 protected:
  ~fake_ofi() = default;
};

// Loads it, or finds the one that is loaded when `path` is empty. Null: it is another library.
fake_ofi* load_fake_ofi(const std::string& path);

}  // namespace lci::test
