// The public classes of memory for transports.
#include <charconv>
#include <system_error>

#include "lci/errors.hpp"
#include "lci/runtime/global.hpp"
#include "lci/transport/core.hpp"
#include "lci/transport/memory_table.hpp"
#include "lci/transport_memory.hpp"

namespace lci {

namespace {

constexpr std::string_view BUFFER_START = "lcib1-";

std::string hex_of(std::uint64_t value) {
  char text[17];
  const auto done = std::to_chars(text, text + sizeof text, value, 16);
  return std::string(text, done.ptr);
}

bool take_hex(std::string_view& text, std::uint64_t& value) {
  const auto done = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  const auto used = static_cast<std::size_t>(done.ptr - text.data());
  if (done.ec != std::errc() || used == text.size() || text[used] != '-') return false;
  text.remove_prefix(used + 1);
  return true;
}

[[noreturn]] void throw_outside(const char* what, std::size_t offset, std::size_t length,
                                std::size_t size) {
  throw argument_error(std::string(what) + ": " + std::to_string(length) + " bytes at offset " +
                       std::to_string(offset) + " are not inside its " + std::to_string(size) +
                       " bytes");
}

void check_inside(const char* what, std::size_t offset, std::size_t length, std::size_t size) {
  if (offset > size || length > size - offset) throw_outside(what, offset, length, size);
}

transports::memory_state& checked(const std::shared_ptr<transports::memory_state>& state,
                                  const char* what) {
  if (state == nullptr) throw argument_error(std::string(what) + ": there is no memory");
  return *state;
}

// For what takes locks, which a thread of the parent may have held at a fork().
transports::memory_state& checked_own(const std::shared_ptr<transports::memory_state>& state,
                                      const char* what) {
  runtime::refuse_fork(what);
  return checked(state, what);
}

}  // namespace

int memory_view::device() const {
  const auto state = state_.lock();
  return state == nullptr ? -1 : state->device();
}

memory_view memory_view::view(size_t offset, size_t length) const {
  check_inside("view", offset, length, size_);
  return memory_view(static_cast<char*>(data_) + offset, length, state_);
}

remote_buffer::remote_buffer(uint64_t address, size_t size, const std::string& key)
    : address_(address), size_(size), key_(key) {}

remote_buffer remote_buffer::of_key(const std::string& key) {
  const auto said = transports::read_key(key);
  if (!said) throw argument_error("remote_buffer: the text is not a key of a memory");
  return remote_buffer(said->address, said->size, key);
}

remote_buffer remote_buffer::slice(size_t offset, size_t length) const {
  check_inside("slice", offset, length, size_);
  return remote_buffer(address_ + offset, length, key_);
}

std::string remote_buffer::to_string() const {
  return std::string(BUFFER_START) + hex_of(address_) + "-" + hex_of(size_) + "-" + key_;
}

remote_buffer remote_buffer::parse(const std::string& text) {
  std::string_view left = text;
  std::uint64_t address = 0, size = 0;
  bool is_good = left.starts_with(BUFFER_START);
  if (is_good) left.remove_prefix(BUFFER_START.size());
  is_good = is_good && take_hex(left, address) && take_hex(left, size) &&
            transports::read_key(left).has_value();
  if (!is_good) throw argument_error("remote_buffer: the text is not a remote buffer");
  return remote_buffer(address, size, std::string(left));
}

memory::memory(void* data, size_t size) {
  runtime::refuse_fork("memory");  // as checked_own()
  state_ = transports::memory_table::add(data, size);
}
memory::memory(memory&& other) noexcept : state_(std::move(other.state_)) {}
memory& memory::operator=(memory&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}

memory::~memory() {
  if (state_ == nullptr) return;
  // In a child of fork() it is the parent's, whose threads may have held the locks: it stays.
  if (runtime::global().is_forked) {
    new std::shared_ptr<transports::memory_state>(std::move(state_));
    return;
  }
  state_->end();
  transports::memory_table::remove(*state_);
  for (const auto& core : state_->users()) core->forget(state_->id());
}

void* memory::data() const { return state_ == nullptr ? nullptr : state_->data(); }
size_t memory::size() const { return state_ == nullptr ? 0 : state_->size(); }
int memory::device() const { return state_ == nullptr ? -1 : state_->device(); }
bool memory::contains(const void* pointer, size_t length) const {
  return state_ != nullptr && state_->contains(pointer, length);
}

memory_view memory::view_at(size_t offset, size_t length) const {
  const transports::memory_state& state = checked(state_, "view");
  check_inside("view", offset, length, state.size());
  return state.view_of(static_cast<char*>(state.data()) + offset, length);
}

memory_view memory::view_of(const void* pointer, size_t length) const {
  const transports::memory_state& state = checked(state_, "view");
  if (!state.contains(pointer, length))
    throw argument_error("view: " + std::to_string(length) + " bytes at that address are not " +
                         "inside the memory of " + std::to_string(state.size()) + " bytes");
  return state.view_of(const_cast<void*>(pointer), length);
}

std::string memory::remote_key(const key_options& options) const {
  return checked_own(state_, "remote_key").give_key(options);
}

remote_buffer memory::remote(const key_options& options) const {
  return remote_buffer(reinterpret_cast<std::uintptr_t>(data()), size(), remote_key(options));
}

void memory::revoke(const std::string& key) {
  transports::memory_state& state = checked_own(state_, "revoke");
  const auto said = transports::read_key(key);
  if (!said || !transports::is_own(key) || said->slot != static_cast<std::uint32_t>(state.id()) ||
      said->generation != static_cast<std::uint32_t>(state.id() >> 32))
    throw argument_error("revoke: the text is not a key of this memory");
  state.withdraw(*said);
  for (const auto& core : state.users()) core->withdraw(state.id());
}

void memory::revoke() {
  transports::memory_state& state = checked_own(state_, "revoke");
  state.withdraw_all();
  for (const auto& core : state.users()) core->withdraw(state.id());
}

bool memory::revoke_and_wait(double limit_s) {
  transports::check_limit("revoke_and_wait", limit_s);
  revoke();
  const auto start = std::chrono::steady_clock::now();
  for (const auto& core : state_->users()) {
    const std::chrono::duration<double> used = std::chrono::steady_clock::now() - start;
    const double left = limit_s < 0 ? limit_s : std::max(limit_s - used.count(), 0.0);
    if (!core->wait_released(state_->id(), left)) return false;
  }
  return true;
}

}  // namespace lci
