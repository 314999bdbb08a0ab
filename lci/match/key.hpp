// By what messages and receives are matched. Immutable values.
//
// The key of a message is {policy, and of rank and tag what the policy names}: two messages with
// different policies never have equal keys, whatever their rank and tag, and all 64 tag bits
// count. A receive without wildcard takes messages whose key equals its own. A receive with
// ANY_SOURCE or ANY_TAG ignores its policy and looks at a message's actual rank and tag: it takes
// every message that it covers, whatever policy that was sent with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "lci/types.hpp"

namespace lci::match {

// A message as it was sent; rank and tag are the actual ones even where the policy leaves them out.
struct match_key {
  int rank;  // the sender
  tag_t tag;
  matching_policy_t policy;
  std::size_t size = 0;  // bytes
};

// What a receive asks for.
struct recv_pattern {
  int rank;   // or ANY_SOURCE
  tag_t tag;  // or ANY_TAG
  matching_policy_t policy;
  std::size_t room = SIZE_MAX;  // bytes that there are for the message

  bool is_wildcard() const noexcept { return rank == ANY_SOURCE || tag == ANY_TAG; }
  // For patterns with a wildcard.
  bool covers(int message_rank, tag_t message_tag) const noexcept {
    return (rank == ANY_SOURCE || rank == message_rank) && (tag == ANY_TAG || tag == message_tag);
  }
};

// A key in the form that engines store and compare: fields that the policy leaves out are zero.
struct exact_key {
  std::uint64_t tag;
  std::uint32_t rank;
  std::uint32_t space;  // the policy, or RAW for the keys of matching_engine_insert(), which match
                        // nothing else

  static constexpr std::uint32_t RAW = static_cast<std::uint32_t>(matching_policy_t::max);
  friend bool operator==(const exact_key&, const exact_key&) = default;

  // From a match_key or a recv_pattern without wildcard.
  template <class Key>
  static exact_key of(const Key& key) noexcept {
    // The policy's number is a set of bits: rank 1, tag 2. As masks, so that no branch depends on
    // the policy.
    const auto policy = static_cast<std::uint32_t>(key.policy);
    const std::uint32_t rank_mask = 0 - (policy & 1);
    const std::uint64_t tag_mask = 0 - static_cast<std::uint64_t>(policy >> 1 & 1);
    return {key.tag & tag_mask, static_cast<std::uint32_t>(key.rank) & rank_mask, policy};
  }
  // The only sender whose messages a receive of this key takes, or ANY_SOURCE. Not for a raw key.
  int source() const noexcept { return (space & 1) != 0 ? static_cast<int>(rank) : ANY_SOURCE; }
  static exact_key raw(std::uint64_t key) noexcept { return {key, 0, RAW}; }

  // Callers take the low bits. Each bit of the key changes the upper half of a product, which is
  // what is left.
  std::uint64_t hash() const noexcept {
    const std::uint64_t x =
        tag + (std::uint64_t{rank} << 3 | space) * std::uint64_t{0x9E3779B97F4A7C15};
    return (x ^ x >> 32) * std::uint64_t{0xD6E8FEB86659FD93} >> 32;
  }
};
static_assert(static_cast<int>(matching_policy_t::rank_only) == 1);
static_assert(static_cast<int>(matching_policy_t::tag_only) == 2);
static_assert(static_cast<int>(matching_policy_t::rank_tag) == 3);

// The text of a truncation_error, whichever side detects it.
std::string truncation_text(const match_key& message, std::size_t room);

}  // namespace lci::match
