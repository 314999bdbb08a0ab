// The first card as endpoints of kernels see it. Owned by fabric. Threads: shared.
#pragma once

#include "backends/ibv/cards.hpp"
#include "backends/ibv/region.hpp"
#include "lci/net/kernel_card.hpp"

namespace lci::ibv {

class kernel_card final : public net::kernel_card {
 public:
  explicit kernel_card(cards& all) : cards_(all) {}
  std::vector<net::tier_report> tiers() override;
  std::unique_ptr<net::kernel_queue> make_queue(const net::kernel_queue_options& wanted) override;
  std::unique_ptr<net::kernel_queue> make_target() override;
  std::uint32_t key_in(const net::remote_target& at) noexcept override {
    return ibv::key_in(at, 0);
  }
  std::uint32_t key_of(std::uint64_t local_key) noexcept override {
    const auto* const made = reinterpret_cast<const registration*>(local_key);
    return made != nullptr && made->on[0] != nullptr ? made->on[0]->lkey : 0;
  }

 private:
  cards& cards_;
};

}  // namespace lci::ibv
