#include "lci/runtime/attribute_text.hpp"

#include <charconv>
#include <cmath>
#include <limits>

#include "lci/comp/queue.hpp"
#include "lci/comp/sync.hpp"
#include "lci/errors.hpp"
#include "lci/proto/engine/handler_depth.hpp"
#include "lci/version.hpp"

namespace lci::runtime {

namespace {

namespace env = base::env;

constexpr double INT_MOST = std::numeric_limits<int>::max();
// Larger sizes are misprints, and doubles hold every whole number up to here.
constexpr double SIZE_MOST = 9007199254740992.0;  // 2^53

constexpr range RANGES[] = {
    {"imm_nbits_tag", 0, 31},
    {"imm_nbits_rcomp", 0, 31},
    {"gpu_resident", 0, 64},
    {"max_handler_depth", 1, proto::MAX_HANDLER_DEPTH},
    {"max_handler_wait_s", 0, INT_MOST},
    {"packet_size", 2 * LCI_CACHE_LINE, 1 << 30},
    {"npackets", 0, INT_MOST},
    {"sync_threshold", 1, comp::sync::MAX_THRESHOLD},
    {"cq_default_length", 1, comp::queue::MAX_LENGTH},
    {"max_msg_size", 1, SIZE_MOST},
    {"ibv_gid_idx", -1, 255},
    {"net_max_sends", 1, INT_MOST},
    {"net_max_recvs", 1, INT_MOST},
    {"net_max_cqes", 1, INT_MOST},
    {"ofi_lock_mode", 0, LCI_NET_LOCK_ALL},
    {"shm_slot_size", LCI_CACHE_LINE, 1 << 30},
    {"shm_producer_cas_attempts", 1, INT_MOST},
    {"shm_consumer_cas_attempts", 1, INT_MOST},
    {"shm_max_polls", 1, LCI_BACKEND_MAX_POLLS},
};

// Words are the enumerators, numbers their values; the compiler cannot check that, but a test does.
constexpr env::word BACKEND[] = {{"none", 0}, {"ibv", 1}, {"ofi", 2}, {"ucx", 3}, {"shm", 4}};
constexpr env::word RDV_PROTOCOL[] = {{"auto_select", 0}, {"write", 1}, {"writeimm", 2}};
constexpr env::word MATCHING_ENGINE[] = {{"queue", 0}, {"map", 1}};
constexpr env::word CQ_TYPE[] = {{"array_atomic", 0}, {"lcrq", 1}, {"per_thread", 2}};
constexpr env::word ODP[] = {{"none", 0}, {"explicit_odp", 1}, {"implicit_odp", 2}};
constexpr env::word PREFETCH[] = {
    {"none", 0}, {"prefetch", 1}, {"prefetch_write", 2}, {"prefetch_no_fault", 3}};
constexpr env::word GPU_PATH[] = {{"auto", 0}, {"auto_select", 0}, {"direct", 1}, {"staged", 2}};
constexpr env::word GPU_GDRCOPY[] = {{"auto", 0}, {"auto_select", 0}, {"on", 1}, {"off", 2}};
constexpr env::word GPU_PROXY[] = {{"off", 0}, {"progress", 1}, {"thread", 2}};
constexpr env::word GPU_TIER[] = {
    {"automatic", 0}, {"gpu_direct", 1}, {"cpu_rings", 2}, {"cpu_forwards", 3}, {"proxy", 4}};
constexpr env::word FAILURE_NOTICE[] = {{"own", 0}, {"all", 1}};
constexpr env::word THREAD_DOMAIN[] = {{"none", 0}, {"all_qp", 1}, {"per_qp", 2}};
constexpr env::word LOCK_MODE[] = {{"none", 0},
                                   {"send", LCI_NET_TRYLOCK_SEND},
                                   {"recv", LCI_NET_TRYLOCK_RECV},
                                   {"poll", LCI_NET_TRYLOCK_POLL},
                                   {"mr", LCI_NET_LOCK_MR},
                                   {"all", LCI_NET_LOCK_ALL}};

}  // namespace

const range* find_range(std::string_view attribute) noexcept {
  for (const range& r : RANGES) {
    if (r.attribute == attribute) return &r;
  }
  return nullptr;
}

namespace {

[[noreturn]] void throw_out_of_range(std::string_view who, std::string_view attribute,
                                     const std::string& value, const std::string& legal) {
  throw argument_error(std::string(who) + ": " + std::string(attribute) + " is " + value +
                       "; legal are " + legal);
}

template <class T>
void check_number(std::string_view who, std::string_view attribute, T value) {
  const range* const r = find_range(attribute);
  if (r == nullptr) return;
  const auto given = static_cast<double>(value);
  if (given >= r->low && given <= r->high) {
    // As for the variable.
    if (attribute == "shm_slot_size" && std::fmod(given, LCI_CACHE_LINE) != 0)
      throw_out_of_range(who, attribute, std::to_string(value),
                         "multiples of " + std::to_string(LCI_CACHE_LINE));
    return;
  }
  throw_out_of_range(who, attribute, std::to_string(value),
                     std::to_string(static_cast<std::int64_t>(r->low)) + " to " +
                         std::to_string(static_cast<std::int64_t>(r->high)));
}

}  // namespace

void settings_check::number(std::string_view attribute, int value) const {
  check_number(who, attribute, value);
}
void settings_check::number(std::string_view attribute, std::size_t value) const {
  check_number(who, attribute, value);
}
void settings_check::fraction(std::string_view attribute, double value) const {
  // As for the variable: not all of a queue can be reserved.
  if (!(value >= 0.0 && value < 1.0))
    throw_out_of_range(who, attribute, std::to_string(value), "0 to less than 1");
}
void settings_check::word(std::string_view attribute, std::span<const env::word> words,
                          std::uint64_t value) const {
  std::string legal;
  for (const env::word& w : words) {
    if (w.value == value) return;
    legal += (legal.empty() ? "" : ", ") + std::string(w.text);
  }
  throw_out_of_range(who, attribute, std::to_string(value), legal);
}

std::span<const env::word> words_of(attr_backend_t) noexcept { return BACKEND; }
std::span<const env::word> words_of(attr_rdv_protocol_t) noexcept { return RDV_PROTOCOL; }
std::span<const env::word> words_of(attr_matching_engine_type_t) noexcept {
  return MATCHING_ENGINE;
}
std::span<const env::word> words_of(attr_cq_type_t) noexcept { return CQ_TYPE; }
std::span<const env::word> words_of(attr_ibv_odp_strategy_t) noexcept { return ODP; }
std::span<const env::word> words_of(attr_ibv_prefetch_strategy_t) noexcept { return PREFETCH; }
std::span<const env::word> words_of(attr_gpu_path_t) noexcept { return GPU_PATH; }
std::span<const env::word> words_of(attr_gpu_gdrcopy_t) noexcept { return GPU_GDRCOPY; }
std::span<const env::word> words_of(attr_gpu_proxy_t) noexcept { return GPU_PROXY; }
std::span<const env::word> words_of(attr_gpu_tier_t) noexcept { return GPU_TIER; }
std::span<const env::word> words_of(attr_failure_notice_t) noexcept { return FAILURE_NOTICE; }
std::span<const env::word> words_of(attr_ibv_td_strategy_t) noexcept { return THREAD_DOMAIN; }
std::span<const env::word> lock_mode_words() noexcept { return LOCK_MODE; }

void parse(std::string_view what, std::string_view, std::string_view text, bool& out) {
  out = env::parse_bool(what, text);
}

void parse(std::string_view what, std::string_view attribute, std::string_view text, int& out) {
  const range* const r = find_range(attribute);
  const auto low = r ? static_cast<std::int64_t>(r->low) : std::numeric_limits<int>::min();
  const auto high = r ? static_cast<std::int64_t>(r->high) : std::numeric_limits<int>::max();
  out = static_cast<int>(env::parse_signed(what, text, low, high));
}

void parse(std::string_view what, std::string_view attribute, std::string_view text,
           std::size_t& out) {
  if (attribute == "ofi_lock_mode") {
    out = env::parse_flags(what, text, LOCK_MODE);
    return;
  }
  const range* const r = find_range(attribute);
  const auto low = r ? static_cast<std::uint64_t>(r->low) : 0;
  const auto high =
      r ? static_cast<std::uint64_t>(r->high) : std::numeric_limits<std::uint64_t>::max();
  out = env::parse_unsigned(what, text, low, high);
}

void parse(std::string_view what, std::string_view, std::string_view text, double& out) {
  // The only fraction is net_send_reserved_pct: with all of the queue reserved, nothing could be
  // posted.
  out = env::parse_double(what, text, 0.0, 1.0, env::upper_limit::excluded);
}

void parse(std::string_view, std::string_view, std::string_view text, std::string& out) {
  out = text;
}

std::string text_of(std::string_view, bool value) { return value ? "1" : "0"; }
std::string text_of(std::string_view, int value) { return std::to_string(value); }

std::string text_of(std::string_view attribute, std::size_t value) {
  if (attribute != "ofi_lock_mode") return std::to_string(value);
  std::string list;
  for (const env::word& w : LOCK_MODE) {
    if (w.value == 0 || w.value == LCI_NET_LOCK_ALL || (value & w.value) == 0) continue;
    list += (list.empty() ? "" : ",") + std::string(w.text);
  }
  return list.empty() ? "none" : list;
}

std::string text_of(std::string_view, double value) {
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  return std::string(digits, end);
}

std::string text_of(std::string_view, const std::string& value) { return value; }

std::string word_for(std::span<const env::word> words, std::uint64_t value) {
  for (const env::word& w : words) {
    if (w.value == value) return std::string(w.text);
  }
  return std::to_string(value);
}

}  // namespace lci::runtime
