#include "backends/ibv/receives.hpp"

#include <algorithm>
#include <cerrno>

#include "lci/errors.hpp"

namespace lci::ibv {
namespace {

constexpr std::uint32_t MOST = 256;
constexpr std::uint32_t WORTH = 16;

receives::place& place_around(ibv_recv_wr& wr) noexcept {
  return reinterpret_cast<receives::place&>(wr);
}

}  // namespace

receives::receives(const cards& on, regions& memory, mem::packet_pool& packets, std::size_t most)
    : memory_(memory),
      packets_(packets),
      size_(static_cast<std::uint32_t>(std::clamp<std::size_t>(
          most, 1, std::min<std::size_t>(MOST, on.first().limits.max_srq_wr)))),
      worth_(std::clamp<std::uint32_t>(size_ / 4, 1, WORTH)),
      places_(std::make_unique<place[]>(size_)) {
  const chosen_port& card = on.first();
  ibv_srq_init_attr made{};
  made.attr.max_wr = size_;
  made.attr.max_sge = 1;
  srq_.reset(library().create_srq(on.pd(), &made));
  if (!srq_)
    throw_error("ibv_create_srq", card.name + ", " + std::to_string(size_) + " receives", errno);
  for (std::uint32_t i = size_; i-- > 0;) {
    place& one = places_[i];
    one.wr = {reinterpret_cast<std::uintptr_t>(&one) | 1, nullptr, &one.part, 1};
    replace(one);
  }
  post();
  if (!are_all_posted())
    throw backend_error("ibv: " + std::to_string(chained_ + lacking_) + " of " +
                        std::to_string(size_) + " receives could not be posted on " + card.name);
}

void receives::replace(place& used) noexcept {
  used.packet = nullptr;
  used.wr.next = empty_;
  empty_ = &used.wr;
  ++lacking_;
}

// False: there is no packet now; the program holds them, and senders wait.
bool receives::equip(place& empty) noexcept {
  mem::packet* const packet = packets_.get();
  if (packet == nullptr) return false;
  const std::size_t size = packets_.payload_size();
  empty.part = {reinterpret_cast<std::uint64_t>(packet->payload()),
                static_cast<std::uint32_t>(size), 0};
  if (!memory_.find_key(packet->payload(), size, 0, empty.part.lkey)) {
    packets_.put(packet);
    return false;
  }
  empty.packet = packet;
  return true;
}

void receives::equip_empty() noexcept {
  while (empty_ != nullptr) {
    place& one = place_around(*empty_);
    if (!equip(one)) return;
    empty_ = one.wr.next;
    --lacking_;
    again(one);
  }
}

void receives::post() noexcept {
  equip_empty();
  if (tail_ == &head_) return;
  *tail_ = nullptr;
  ibv_recv_wr* bad = head_;
  if (ibv_post_srq_recv(srq_.get(), head_, &bad) != 0) [[unlikely]] {
    // From `bad` on nothing was posted.
    for (; head_ != bad; head_ = head_->next) --chained_;
    return;
  }
  chained_ = 0;
  tail_ = &head_;
}

}  // namespace lci::ibv
