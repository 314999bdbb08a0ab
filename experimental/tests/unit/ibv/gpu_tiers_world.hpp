// A card of mlx5 for the tests of tiers: the stand-in's memory, a card that carries out what is in
// it, and a GPU's side that only writes down what is mapped. Threads: the test's, and a card's
// where a test starts one.
#pragma once

#include <dlfcn.h>

#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "backends/ibv/gpu_tiers.hpp"
#include "experimental/ibv/gpu_tiers/queue_base.hpp"
#include "experimental/tests/support/fake_ibv/mlx5.hpp"
#include "lci/device/cq_writer.hpp"
#include "lci/device/request.hpp"
#include "lci/errors.hpp"
#include "tests/support/must_fire.hpp"
#include "tests/unit/ibv/world.hpp"

namespace lci::ibv {

inline test::fake_mlx5& maker() {
  static test::fake_mlx5* const one = [] {
    card();
    void* const library = dlopen(LCI_FAKE_MLX5, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw std::runtime_error(dlerror());
    return reinterpret_cast<test::fake_mlx5* (*)()>(dlsym(library, "lci_fake_mlx5"))();
  }();
  return *one;
}

// Maps everything somewhere else, where nothing is.
class written_maps final : public mem::kernel_memory {
 public:
  static constexpr std::uintptr_t AWAY = std::uintptr_t{1} << 46;
  struct entry {
    std::size_t size;
    bool is_register;
  };
  void* map(void* host, std::size_t size, bool is_register) override {
    if (refuses_registers && is_register) throw backend_error("no register for kernels");
    if (refuses_memory && !is_register) throw backend_error("no memory for kernels");
    mapped.emplace(host, entry{size, is_register});
    most = std::max(most, mapped.size());
    return at(host);
  }
  void unmap(void* host, std::size_t size) noexcept override {
    const auto found = mapped.find(host);
    if (found == mapped.end() || found->second.size != size) ++wrong;
    // What the card's library has freed is not unmapped any more.
    if (card().live().qps == 0) ++wrong;
    if (found != mapped.end()) mapped.erase(found);
  }
  std::string why_no_dma_buf() override { return dma_buf; }
  template <class T>
  static T* at(T* host) {
    return reinterpret_cast<T*>(reinterpret_cast<std::uintptr_t>(host) ^ AWAY);
  }
  std::multimap<void*, entry> mapped;
  std::size_t most = 0;
  int wrong = 0;
  bool refuses_registers = false, refuses_memory = false;
  std::string dma_buf;
};

// What a card does with the bytes that it is told of: writes, reads and NOPs, at addresses of this
// process. Everything else fails: atomic operations as on a card whose memory is not registered for
// them. Threads: single.
class stand_in_card {
 public:
  explicit stand_in_card(const test::fake_direct_queue& q)
      : q_(q), ring_{q.ring, q.blocks}, cq_({q.completions, q.count, q.entry_size, q.consumer}) {}

  std::size_t progress() {
    const std::uint32_t record = wqe::be32(
        wqe::word_at<std::uint32_t>(q_.record + wqe::SEND_RECORD).load(std::memory_order_acquire));
    const std::uint64_t until = wqe::widened(next_, static_cast<std::uint16_t>(record));
    std::size_t count = 0;
    for (; next_ < until && !cq_.is_full(); ++count) carry_out();
    return count;
  }
  wqe::syndrome fails_with = wqe::syndrome::none;  // the next one
  bool looks_at_peer = false;  // what the other end would not take fails as it does on a card

 private:
  void carry_out() {
    wqe::octoword copy[wqe::MAX_OCTOWORDS];
    copy[0] = *wqe::octoword_at(ring_, next_, 0);
    const std::uint32_t octowords = device::octowords_in(copy[0]);
    for (std::uint32_t k = 1; k < octowords; ++k) copy[k] = *wqe::octoword_at(ring_, next_, k);
    device::request r;
    wqe::completion c;
    c.error = device::parse(copy, octowords, next_, q_.qpn, 1u << 30, &r);
    if (c.error == wqe::syndrome::none) c.error = refusal_of(r.op);
    if (fails_with != wqe::syndrome::none) c.error = fails_with;
    if (looks_at_peer && c.error == wqe::syndrome::none && r.length != 0) c.error = ask_peer(r);
    c.kind =
        c.error == wqe::syndrome::none ? wqe::cqe_opcode::request : wqe::cqe_opcode::request_error;
    auto* at = reinterpret_cast<unsigned char*>(r.raddr);
    for (std::uint32_t i = 0; c.error == wqe::syndrome::none && i < r.piece_count; ++i) {
      auto* const mine = reinterpret_cast<unsigned char*>(r.pieces[i].address);
      if (r.op == wqe::opcode::rdma_write) std::memcpy(at, mine, r.pieces[i].length);
      if (r.op == wqe::opcode::rdma_read) std::memcpy(mine, at, r.pieces[i].length);
      at += r.pieces[i].length;
    }
    if (c.error == wqe::syndrome::none && r.is_inline && r.op == wqe::opcode::rdma_write)
      std::memcpy(at, r.inline_data, r.inline_length);
    c.qpn = q_.qpn;
    c.wqe_counter = static_cast<std::uint16_t>(next_);
    c.send_opcode = static_cast<std::uint8_t>(r.op);
    if (r.signaled || c.error != wqe::syndrome::none) cq_.write(c);
    next_ += wqe::blocks_of(octowords);
  }

  static wqe::syndrome refusal_of(wqe::opcode op) {
    switch (op) {
      case wqe::opcode::nop:
      case wqe::opcode::rdma_write:
      case wqe::opcode::rdma_read:
        return wqe::syndrome::none;
      default:
        return wqe::is_atomic(op) ? wqe::syndrome::remote_access
                                  : wqe::syndrome::local_qp_operation;
    }
  }

  wqe::syndrome ask_peer(const device::request& r) const {
    switch (maker().reach(q_.qpn, r.rkey, r.raddr, r.length)) {
      case test::fake_reach::yes:
        return wqe::syndrome::none;
      case test::fake_reach::no_peer:
        return wqe::syndrome::retry_exceeded;
      case test::fake_reach::no_access:
        break;
    }
    return wqe::syndrome::remote_access;
  }

  const test::fake_direct_queue q_;
  const wqe::send_ring ring_;
  device::cq_writer cq_;
  std::uint64_t next_ = 0;
};

class on_an_mlx5_card : public on_a_card {
 protected:
  on_an_mlx5_card() { maker().reset(); }
  ~on_an_mlx5_card() override { EXPECT_EQ(maker().live_uars(), 0u); }

  // The port, and a domain that the test's memory is registered with.
  const chosen_port& port() {
    if (!port_) {
      port_.emplace(open_best_port({}));
      pd_.reset(library().alloc_pd(port_->context.get()));
    }
    return *port_;
  }
  ibv_pd* domain() {
    port();
    return pd_.get();
  }
  std::unique_ptr<tier_queue> open_tier(net::gpu_tier tier, std::uint32_t blocks = 64,
                                        mem::kernel_memory* maps = nullptr) {
    tier_options options;
    options.tier = tier;
    options.blocks = blocks;
    options.max_inline = 220;
    options.maps = maps;
    auto out = gpu_tiers::open(port(), domain(), options);
    if (maps == nullptr) out->connect(out->address());
    return out;
  }
  // The only queue that there is, as the card sees it.
  static test::fake_direct_queue seen() {
    const auto all = maker().queues();
    EXPECT_EQ(all.size(), 1u);
    return all.at(0);
  }
  // A write of `pieces` pieces, whose keys are those of a region.
  struct prepared {
    std::vector<wqe::sge> pieces;
    wqe::send_request request;
  };
  prepared write_of(std::uint32_t pieces, std::uint32_t length = 8) {
    if (!region_)
      region_.reset(library().reg_mr(domain(), memory_, sizeof(memory_),
                                     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
    prepared out;
    const auto at = reinterpret_cast<std::uintptr_t>(memory_);
    for (std::uint32_t i = 0; i < pieces; ++i)
      out.pieces.push_back({at + std::uint64_t{i} * length, length, region_->lkey});
    out.request.op = wqe::opcode::rdma_write;
    out.request.raddr = at + sizeof(memory_) / 2;
    out.request.rkey = region_->rkey;
    return out;
  }
  static wqe::send_request of(const prepared& what) {
    wqe::send_request out = what.request;
    out.entries = what.pieces.data();
    out.entry_count = static_cast<std::uint32_t>(what.pieces.size());
    return out;
  }
  // The bytes of that request, in one piece.
  static std::vector<unsigned char> bytes_of(const prepared& what, std::uint64_t index,
                                             std::uint32_t qpn) {
    alignas(64) unsigned char room[1024] = {};
    wqe::send_request r = of(what);
    r.qpn = qpn;
    wqe::written_wqe written;
    // In a ring of 16 blocks it is written at its begin.
    EXPECT_EQ(wqe::write_send_wqe({room, 16}, index & 0xffff & ~std::uint64_t{15}, r, {}, &written),
              wqe::status::ok);
    std::vector<unsigned char> out(room, room + written.octowords * wqe::OCTOWORD_SIZE);
    out[1] = static_cast<unsigned char>(index >> 8);
    out[2] = static_cast<unsigned char>(index);
    return out;
  }

  std::optional<chosen_port> port_;
  pd_handle pd_;
  mr_handle region_;
  alignas(4096) unsigned char memory_[8192] = {};
};

}  // namespace lci::ibv
