#include "backends/ibv/kernel_card.hpp"

#include <cstring>
#include <type_traits>
#include <utility>

#include "backends/ibv/gpu_tiers.hpp"
#include "lci/errors.hpp"

namespace lci::ibv {
namespace {

static_assert(std::is_trivially_copyable_v<tier_address>);

// Of a tier, with its address as bytes.
class exchanged_queue final : public net::kernel_queue {
 public:
  explicit exchanged_queue(std::unique_ptr<tier_queue> one) : one_(std::move(one)) {}
  const wqe::send_queue& here() const noexcept override { return one_->here(); }
  const wqe::send_queue& at_gpu() const noexcept override { return one_->at_gpu(); }
  std::string address() const override {
    const tier_address own = one_->address();
    return {reinterpret_cast<const char*>(&own), sizeof(own)};
  }
  void connect(std::string_view peer) override {
    tier_address there;
    if (peer.size() != sizeof(there))
      throw backend_error("ibv: the address of a kernels' queue has " +
                          std::to_string(peer.size()) + " bytes");
    std::memcpy(&there, peer.data(), sizeof(there));
    one_->connect(there);
  }
  std::size_t progress_st() noexcept override { return one_->progress_st(); }

 private:
  std::unique_ptr<tier_queue> one_;
};

}  // namespace

std::vector<net::tier_report> kernel_card::tiers() { return gpu_tiers::probe(cards_.config()); }

std::unique_ptr<net::kernel_queue> kernel_card::make_queue(
    const net::kernel_queue_options& wanted) {
  tier_options options;
  options.tier = wanted.tier;
  options.blocks = wanted.blocks;
  options.max_inline = wanted.max_inline;
  options.waits = wanted.waits;
  options.maps = wanted.maps;
  return std::make_unique<exchanged_queue>(gpu_tiers::open(cards_.first(), cards_.pd(), options));
}

std::unique_ptr<net::kernel_queue> kernel_card::make_target() {
  return std::make_unique<exchanged_queue>(gpu_tiers::open_target(cards_.first(), cards_.pd()));
}

}  // namespace lci::ibv
