// libfabric as lci_perf measures it: tagged send and receive over reliable datagrams, its shared
// memory provider unless FI_PROVIDER names another one. Called by: lci_perf, which starts each
// process. Threads: one for each seat, with an endpoint of its own.
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#include "tools/perf/worker.hpp"

namespace {

using namespace lci_perf;

void check(int error, const char* what) {
  if (error < 0) throw std::runtime_error(std::string(what) + ": " + fi_strerror(-error));
}

// Domain and fabric of a process.
class library {
 public:
  explicit library(board& page) {
    fi_info* const hints = fi_allocinfo();
    const char* const name = std::getenv("FI_PROVIDER");
    hints->ep_attr->type = FI_EP_RDM;
    hints->caps = FI_TAGGED;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->domain_attr->threading = page.is_threads != 0 ? FI_THREAD_SAFE : FI_THREAD_DOMAIN;
    hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->fabric_attr->prov_name = strdup(name != nullptr ? name : "shm");
    check(fi_getinfo(FI_VERSION(1, 14), nullptr, nullptr, 0, hints, &info), "fi_getinfo");
    fi_freeinfo(hints);
    check(fi_fabric(info->fabric_attr, &fabric, nullptr), "fi_fabric");
    check(fi_domain(fabric, info, &domain, nullptr), "fi_domain");
    const std::uint32_t version = fi_version();
    std::snprintf(page.version, sizeof page.version, "libfabric %u.%u, %s", FI_MAJOR(version),
                  FI_MINOR(version), info->fabric_attr->prov_name);
  }
  fi_info* info = nullptr;
  fid_fabric* fabric = nullptr;
  fid_domain* domain = nullptr;
};

// An endpoint, and the contexts of its operations. Ends with the process.
class fabric_port {
 public:
  fabric_port(library& all, board& page, int number) : inject_(all.info->tx_attr->inject_size) {
    fi_cq_attr cq{};
    cq.format = FI_CQ_FORMAT_CONTEXT;
    fi_av_attr av{};
    av.type = FI_AV_TABLE;
    fid_av* addresses = nullptr;
    check(fi_cq_open(all.domain, &cq, &queue_, nullptr), "fi_cq_open");
    check(fi_av_open(all.domain, &av, &addresses, nullptr), "fi_av_open");
    check(fi_endpoint(all.domain, all.info, &endpoint_, nullptr), "fi_endpoint");
    check(fi_ep_bind(endpoint_, &queue_->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
    check(fi_ep_bind(endpoint_, &addresses->fid, 0), "fi_ep_bind");
    check(fi_enable(endpoint_), "fi_enable");
    card &mine = page.cards[number], &theirs = page.cards[number ^ 1];
    size_t bytes = sizeof mine.bytes;
    check(fi_getname(&endpoint_->fid, mine.bytes, &bytes), "fi_getname");
    // edge perf.card, writer: the name is visible to the other end.
    mine.size.store(static_cast<std::uint32_t>(bytes), std::memory_order_release);
    // edge perf.card, reader
    for (patience step; theirs.size.load(std::memory_order_acquire) == 0;) step();
    if (fi_av_insert(addresses, theirs.bytes, 1, &peer_, 0, nullptr) != 1)
      throw std::runtime_error("fi_av_insert: not taken");
  }

  void start(char* data, std::size_t size) {
    if (size <= inject_) {
      retry([&] { return fi_tinject(endpoint_, data, size, peer_, TAG); });
      return;
    }
    while (sends_ - sent_ >= MOST_IN_WINDOW) progress();
    fi_context2* const context = &sending_[sends_++ % MOST_IN_WINDOW];
    retry([&] { return fi_tsend(endpoint_, data, size, nullptr, peer_, TAG, context); });
  }
  void finish() {
    while (sent_ < sends_) progress();
  }
  void expect(char* data, std::size_t size) {
    fi_context2* const context = &receiving_[receives_++ % MOST_IN_WINDOW];
    retry([&] { return fi_trecv(endpoint_, data, size, nullptr, peer_, TAG, 0, context); });
  }
  void wait() {
    while (received_ < receives_) progress();
  }
  void send(char* data, std::size_t size) { start(data, size), finish(); }
  void recv(char* data, std::size_t size) { expect(data, size), wait(); }
  void progress() {
    fi_cq_entry entries[16];
    const ssize_t got = fi_cq_read(queue_, entries, 16);
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
  template <class Post>
  void retry(Post post) {
    for (;;) {
      const ssize_t error = post();
      if (error != -FI_EAGAIN) return check(static_cast<int>(error), "a post");
      progress();
    }
  }
  fid_cq* queue_ = nullptr;
  fid_ep* endpoint_ = nullptr;
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
    std::vector<char> out = buffer_of(page), in = buffer_of(page);
    fabric_port port(all, page, 2 * pair + (is_first ? 0 : 1));
    mine.serve([&](const order& o) { execute(mine, port, out.data(), in.data(), o); });
  });
  std::_Exit(0);  // closing is not measured
}

}  // namespace

int main() { return run_worker("lci_perf_libfabric", serve_all); }
