#include "lci/transport/memory_table.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <unordered_map>
#include <utility>

#include "lci/base/address_space.hpp"
#include "lci/collective.hpp"
#include "lci/errors.hpp"
#include "lci/mem/memory_domain.hpp"

namespace lci {

// Here, since only this makes views that are not empty.
memory_view::memory_view(void* data, size_t size, std::weak_ptr<transports::memory_state> state)
    : data_(data), size_(size), state_(std::move(state)) {}

}  // namespace lci

namespace lci::transports {

std::string seconds_text(double value) {
  std::array<char, 32> text{};  // all digits: it may be close to a limit
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

void check_seconds(const char* call, const char* name, double value) {
  if (value >= 0 && value <= MOST_SECONDS) return;  // false for what is no number
  throw argument_error(std::string(call) + ": " + name + " is " + seconds_text(value) +
                       "; expected 0 to 1e9 seconds");
}

void check_limit(const char* call, double limit_s) {
  if (std::isnan(limit_s)) throw argument_error(std::string(call) + ": limit_s is not a number");
}

memory_state::memory_state(void* data, std::size_t size, std::uint32_t slot,
                           std::uint32_t generation)
    : data_(data), size_(size), slot_(slot), generation_(generation) {
  if (data == nullptr) throw argument_error("memory: data is null");
  if (size == 0) throw argument_error("memory: size is 0; expected at least 1");
  detail::check_memory("memory", "data", data, size);
  const mem::memory_place place = mem::find_place(data);
  if (!place.is_handled) throw argument_error("memory: " + place.domain->refusal(data));
  kind_ = place.kind;
  if (kind_ != mem::mem_kind::host) device_ = place.device;
}

bool memory_state::contains(const void* at, std::size_t length) const noexcept {
  const auto first = reinterpret_cast<std::uintptr_t>(data_);
  const auto wanted = reinterpret_cast<std::uintptr_t>(at);
  return wanted >= first && wanted - first <= size_ && length <= size_ - (wanted - first);
}

memory_view memory_state::view_of(void* data, std::size_t size) const {
  return memory_view(data, size, std::const_pointer_cast<memory_state>(shared_from_this()));
}

std::string memory_state::give_key(const key_options& options) {
  check_seconds("remote_key", "valid_s", options.valid_s);
  if (!options.can_read && !options.can_write)
    throw argument_error("remote_key: the key would allow nothing");
  memory_key key;
  key.slot = slot_;
  key.generation = generation_;
  key.address = reinterpret_cast<std::uintptr_t>(data_);
  key.size = size_;
  key.rights = static_cast<std::uint8_t>((options.can_read ? memory_key::MAY_READ : 0) |
                                         (options.can_write ? memory_key::MAY_WRITE : 0));
  if (options.valid_s > 0)
    key.ends_ms = clock_ms() + static_cast<std::uint64_t>(std::ceil(options.valid_s * 1000));
  const std::lock_guard lock(mutex_);
  std::string& lasting = lasting_[key.rights];
  // In a child of fork() that of the parent is not its own.
  if (key.ends_ms == 0 && !lasting.empty() && is_own(lasting)) return lasting;
  key.number = next_number_++;
  std::string text = write_key(key);
  if (key.ends_ms == 0) lasting = text;
  return text;
}

void memory_state::withdraw(const memory_key& key) {
  const std::lock_guard lock(mutex_);
  if (key.number >= first_good_) withdrawn_.emplace(key.number, key.ends_ms);
  // Only those are kept that nothing else refuses.
  const std::uint64_t now = clock_ms();
  std::erase_if(withdrawn_, [&](const auto& one) { return one.second != 0 && one.second <= now; });
  while (withdrawn_.erase(first_good_) != 0) ++first_good_;
  if (key.ends_ms == 0) lasting_[key.rights & 3].clear();
}

void memory_state::withdraw_all() {
  const std::lock_guard lock(mutex_);
  first_good_ = next_number_;
  withdrawn_.clear();
  for (std::string& one : lasting_) one.clear();
}

void memory_state::end() {
  // edge memory.ended: partner is has_ended(); operations that see it are refused.
  has_ended_.store(true, std::memory_order_release);
}

std::string memory_state::refusal_of(const memory_key& key) const {
  const std::lock_guard lock(mutex_);
  if (has_ended()) return "its memory has ended";
  if (key.number < first_good_ || withdrawn_.contains(key.number)) return "it was revoked";
  if (key.ends_ms != 0 && clock_ms() >= key.ends_ms) return "its time is over";
  return {};
}

void memory_state::used_by(const std::shared_ptr<core>& transport) {
  const std::lock_guard lock(mutex_);
  std::erase_if(users_, [](const auto& one) { return one.expired(); });
  for (const auto& one : users_)
    if (!one.owner_before(transport) && !transport.owner_before(one)) return;
  users_.push_back(transport);
}

std::vector<std::shared_ptr<core>> memory_state::users() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<core>> all;
  for (const auto& one : users_)
    if (auto alive = one.lock()) all.push_back(std::move(alive));
  return all;
}

namespace memory_table {

namespace {

struct table {
  std::mutex mutex;  // guards the rest
  std::uint32_t next_slot = 0, generation = 1;
  std::unordered_map<std::uint64_t, std::weak_ptr<memory_state>> all;
};

// Never freed: memory of the program may end after the library's static objects.
table& the_table() {
  static table* const one = new table;
  return *one;
}

}  // namespace

std::shared_ptr<memory_state> add(void* data, std::size_t size) {
  table& in = the_table();
  std::uint32_t slot = 0, generation = 0;
  {
    const std::lock_guard lock(in.mutex);
    slot = in.next_slot++;
    if (in.next_slot == 0) ++in.generation;
    generation = in.generation;
  }
  auto one = std::make_shared<memory_state>(data, size, slot, generation);
  const std::lock_guard lock(in.mutex);
  in.all.emplace(one->id(), one);
  return one;
}

void remove(const memory_state& one) noexcept {
  table& in = the_table();
  const std::lock_guard lock(in.mutex);
  in.all.erase(one.id());
}

std::shared_ptr<memory_state> find(std::uint64_t id) {
  table& in = the_table();
  const std::lock_guard lock(in.mutex);
  const auto found = in.all.find(id);
  return found == in.all.end() ? nullptr : found->second.lock();
}

std::optional<admitted> admit(std::string_view key, std::string& why) {
  if (!is_own(key)) {
    why = "its process has given out no such key";
    return std::nullopt;
  }
  admitted result{nullptr, *read_key(key)};
  result.memory = find(std::uint64_t{result.key.generation} << 32 | result.key.slot);
  why = result.memory ? result.memory->refusal_of(result.key) : "its memory has ended";
  if (!why.empty()) return std::nullopt;
  return result;
}

}  // namespace memory_table

}  // namespace lci::transports
