// libfabric as lci_perf measures it: tagged send and receive over reliable datagrams, its shared
// memory provider unless FI_PROVIDER names another one. Called by: lci_perf, which starts each
// process. Threads: one for each seat, with an endpoint of its own.
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#include <memory>
#include <mutex>

#include "tools/perf/worker.hpp"

namespace {

using namespace lci_perf;

void check(int error, const char* what) {
  if (error < 0) throw std::runtime_error(std::string(what) + ": " + fi_strerror(-error));
}

// Everything is closed at the end: the shm provider keeps a file in /dev/shm for each endpoint.
template <class Object>
struct close_fid {
  void operator()(Object* object) const { fi_close(&object->fid); }
};
template <class Object>
using owned = std::unique_ptr<Object, close_fid<Object>>;

// Opens an object: open(&object) is the call that makes it.
template <class Object, class Open>
owned<Object> open_with(Open open, const char* what) {
  Object* object = nullptr;
  check(open(&object), what);
  return owned<Object>(object);
}

struct free_info {
  void operator()(fi_info* info) const { fi_freeinfo(info); }
};
using owned_info = std::unique_ptr<fi_info, free_info>;

// The first provider with the promise that costs it least: a thread has an endpoint and a
// completion queue of its own, and opens and closes them under library::opening.
owned_info find_provider(const board& page) {
  const char* const name = std::getenv("FI_PROVIDER");
  int error = -FI_ENODATA;
  for (const fi_threading threading : {FI_THREAD_DOMAIN, FI_THREAD_COMPLETION, FI_THREAD_SAFE}) {
    if (page.is_threads != 0 && threading == FI_THREAD_DOMAIN) continue;
    const owned_info hints(fi_allocinfo());
    hints->ep_attr->type = FI_EP_RDM;
    hints->caps = FI_TAGGED;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->domain_attr->threading = threading;
    hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->fabric_attr->prov_name = strdup(name != nullptr ? name : "shm");
    fi_info* found = nullptr;
    error = fi_getinfo(FI_VERSION(1, 14), nullptr, nullptr, 0, hints.get(), &found);
    if (error == 0) return owned_info(found);
  }
  check(error, "fi_getinfo");
  return nullptr;
}

// Domain and fabric of a process.
class library {
 public:
  explicit library(board& page)
      : info(find_provider(page)),
        fabric(open_with<fid_fabric>(
            [&](fid_fabric** to) { return fi_fabric(info->fabric_attr, to, nullptr); },
            "fi_fabric")),
        domain(open_with<fid_domain>(
            [&](fid_domain** to) { return fi_domain(fabric.get(), info.get(), to, nullptr); },
            "fi_domain")) {
    const std::uint32_t version = fi_version();
    std::snprintf(page.version, sizeof page.version, "libfabric %u.%u, %s", FI_MAJOR(version),
                  FI_MINOR(version), info->fabric_attr->prov_name);
  }
  owned_info info;
  owned<fid_fabric> fabric;
  owned<fid_domain> domain;
  std::mutex opening;  // held by a thread that opens or closes what belongs to the domain
};

// An endpoint, and the contexts of its operations.
class fabric_port {
 public:
  fabric_port(library& all, board& page, int number)
      : all_(all), inject_(all.info->tx_attr->inject_size) {
    card &mine = page.cards[number], &theirs = page.cards[number ^ 1];
    size_t bytes = sizeof mine.bytes;
    open();
    check(fi_getname(&endpoint_->fid, mine.bytes, &bytes), "fi_getname");
    // edge perf.card, writer: the name is visible to the other end.
    mine.size.store(static_cast<std::uint32_t>(bytes), std::memory_order_release);
    // edge perf.card, reader
    for (patience step; theirs.size.load(std::memory_order_acquire) == 0;) step();
    const std::lock_guard<std::mutex> alone(all_.opening);
    if (fi_av_insert(addresses_.get(), theirs.bytes, 1, &peer_, 0, nullptr) != 1)
      throw std::runtime_error("fi_av_insert: not taken");
  }
  ~fabric_port() {
    const std::lock_guard<std::mutex> alone(all_.opening);
    endpoint_.reset();
    addresses_.reset();
    queue_.reset();
  }
  fabric_port(const fabric_port&) = delete;
  fabric_port& operator=(const fabric_port&) = delete;

  void start(char* data, std::size_t size) {
    if (size <= inject_) {
      retry([&] { return fi_tinject(endpoint_.get(), data, size, peer_, TAG); });
      return;
    }
    while (sends_ - sent_ >= MOST_IN_WINDOW) progress();
    fi_context2* const context = &sending_[sends_++ % MOST_IN_WINDOW];
    retry([&] { return fi_tsend(endpoint_.get(), data, size, nullptr, peer_, TAG, context); });
  }
  void finish() {
    while (sent_ < sends_) progress();
  }
  void expect(char* data, std::size_t size) {
    fi_context2* const context = &receiving_[receives_++ % MOST_IN_WINDOW];
    retry([&] { return fi_trecv(endpoint_.get(), data, size, nullptr, peer_, TAG, 0, context); });
  }
  void wait() {
    while (received_ < receives_) progress();
  }
  void send(char* data, std::size_t size) { start(data, size), finish(); }
  void recv(char* data, std::size_t size) { expect(data, size), wait(); }
  void progress() {
    fi_cq_entry entries[16];
    const ssize_t got = fi_cq_read(queue_.get(), entries, 16);
    if (got == -FI_EAGAIN) return;
    check(static_cast<int>(got), "fi_cq_read");
    for (ssize_t i = 0; i < got; ++i) {
      auto* const context = static_cast<fi_context2*>(entries[i].op_context);
      const bool is_send = context >= sending_ && context < sending_ + MOST_IN_WINDOW;
      ++(is_send ? sent_ : received_);
    }
  }

 private:
  static constexpr std::uint64_t TAG = 1;
  void open() {
    const std::lock_guard<std::mutex> alone(all_.opening);
    fi_cq_attr cq{};
    cq.format = FI_CQ_FORMAT_CONTEXT;
    fi_av_attr av{};
    av.type = FI_AV_TABLE;
    fid_domain* const domain = all_.domain.get();
    queue_ = open_with<fid_cq>([&](fid_cq** to) { return fi_cq_open(domain, &cq, to, nullptr); },
                               "fi_cq_open");
    addresses_ = open_with<fid_av>(
        [&](fid_av** to) { return fi_av_open(domain, &av, to, nullptr); }, "fi_av_open");
    endpoint_ = open_with<fid_ep>(
        [&](fid_ep** to) { return fi_endpoint(domain, all_.info.get(), to, nullptr); },
        "fi_endpoint");
    check(fi_ep_bind(endpoint_.get(), &queue_->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
    check(fi_ep_bind(endpoint_.get(), &addresses_->fid, 0), "fi_ep_bind");
    check(fi_enable(endpoint_.get()), "fi_enable");
  }
  template <class Post>
  void retry(Post post) {
    for (;;) {
      const ssize_t error = post();
      if (error != -FI_EAGAIN) return check(static_cast<int>(error), "a post");
      progress();
    }
  }
  library& all_;
  owned<fid_cq> queue_;
  owned<fid_av> addresses_;
  owned<fid_ep> endpoint_;
  fi_addr_t peer_ = 0;
  std::size_t inject_;
  fi_context2 sending_[MOST_IN_WINDOW], receiving_[MOST_IN_WINDOW];
  std::uint64_t sends_ = 0, sent_ = 0, receives_ = 0, received_ = 0;
};

void serve_all(board& page) {
  if (page.is_gpu != 0) throw std::runtime_error("lci_perf measures it between host memory only");
  if (page.is_shared != 0) throw std::runtime_error("lci_perf gives each thread an endpoint");
  page.operations.store(bit(operation::sendrecv), std::memory_order_relaxed);
  library all(page);
  run_seats(page, std::atoi(std::getenv(RANK_VARIABLE)), [&](int pair, bool is_first) {
    seat mine(page, pair, is_first);
    mine.pin();
    page_buffer out = buffer_of(page), in = buffer_of(page);
    fabric_port port(all, page, 2 * pair + (is_first ? 0 : 1));
    mine.serve([&](const order& o) { execute(mine, port, out.data(), in.data(), o); });
  });
}

}  // namespace

int main() { return run_worker("lci_perf_libfabric", serve_all); }
