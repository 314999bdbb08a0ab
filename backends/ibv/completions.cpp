#include "backends/ibv/completions.hpp"

#include <algorithm>
#include <cerrno>

#include "lci/base/env.hpp"
#include "lci/base/log.hpp"
#include "lci/errors.hpp"

namespace lci::ibv {
namespace {

// None where it is not asked for, or the card offers none.
extended_queue make_extended(const chosen_port& card, std::uint32_t size) {
  if (base::env::find("LCI_IBV_EXTENDED_CQ").value_or("0") == "0") return {};
  return make_extended_queue(card, size);
}

}  // namespace

completions::completions(const chosen_port& card, std::uint32_t size)
    : card_(card), size_(size), extended_(make_extended(card, size)) {
  cq_.reset(
      extended_.queue != nullptr
          ? ibv_cq_ex_to_cq(extended_.queue)
          : library().create_cq(card.context.get(), static_cast<int>(size), nullptr, nullptr, 0));
  if (!cq_)
    throw_error("ibv_create_cq", card.name + ", " + std::to_string(size) + " entries", errno);
  base::log::debug("ibv", "%s: %s completion queue of %u entries", card.name.c_str(),
                   extended_.queue != nullptr ? "extended" : "plain", size);
}

void completions::make_room(std::size_t peers, std::uint32_t depth, std::uint32_t others) {
  const std::size_t wanted = others + depth * peers;
  if (wanted <= size_) return;
  const auto most = static_cast<std::size_t>(card_.limits.max_cqe);
  if (wanted > most)
    throw backend_error("ibv: the completion queue of " + card_.name + " holds " +
                        std::to_string(most) + " entries, too few for " + std::to_string(peers) +
                        " peers with net_max_sends " + std::to_string(depth));
  const auto next = static_cast<std::uint32_t>(
      std::min(std::max(wanted, 2 * static_cast<std::size_t>(size_)), most));
  if (const int rc = library().resize_cq(cq_.get(), static_cast<int>(next)); rc != 0)
    throw_error("ibv_resize_cq", card_.name + ", to " + std::to_string(next), rc);
  size_ = next;
}

}  // namespace lci::ibv
