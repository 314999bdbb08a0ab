// The error texts for a handle that an operation cannot work with.
#include "lci/comp/kind.hpp"

#include <atomic>
#include <cstdio>
#include <string>

#include "lci/errors.hpp"

namespace lci::comp {
namespace {

constexpr const char* EXPECTED = "; expected a completion object that was not freed";

std::string address_of(const comp_impl_t* object) {
  char address[32];
  std::snprintf(address, sizeof address, "%p", static_cast<const void*>(object));
  return address;
}

// "comp: handle 0x... was freed"; for live objects "comp is a counter".
std::string description(const comp_impl_t* object) {
  if (comp_t(const_cast<comp_impl_t*>(object)).is_empty()) return "argument comp is empty";
  if (const char* name = name_of(object->attr.comp_type); name != nullptr)
    return std::string("argument comp is a ") + name;
  if (object == &buried()) return "argument comp was freed";
  const bool is_parents = object->attr.comp_type == forked::KIND;
  return "argument comp: handle " + address_of(object) +
         (is_parents ? std::string(" is the parent's: ") + base::FORKED_TEXT : " was freed");
}

}  // namespace

const char* name_of(attr_comp_type_t kind) noexcept {
  switch (kind) {
    case attr_comp_type_t::sync:
      return "synchronizer";
    case attr_comp_type_t::counter:
      return "counter";
    case attr_comp_type_t::cq:
      return "completion queue";
    case attr_comp_type_t::handler:
      return "handler";
    case attr_comp_type_t::graph:
      return "graph";
    case attr_comp_type_t::custom:
      return "user-defined completion object";
  }
  return nullptr;
}

void throw_wrong_kind(const comp_impl_t* object, attr_comp_type_t wanted, const char* who) {
  throw argument_error(std::string(who) + ": " + description(object) + "; expected a " +
                       name_of(wanted));
}

void freed::signal(status_t) { throw_freed(this); }

comp_impl_t& buried() noexcept {
  static freed only;
  return only;
}

void throw_freed(const comp_impl_t* object) {
  throw freed_error("signal: " + description(object) + EXPECTED);
}

std::string freed_text(const comp_impl_t* object) {
  return "signal: argument comp: handle " + address_of(object) + " was freed" + EXPECTED;
}
void forked::signal(status_t) { throw_not_comp(this, "signal"); }

void throw_not_comp(const comp_impl_t* object, const char* who) {
  throw argument_error(std::string(who) + ": " + description(object) + EXPECTED);
}

std::uint32_t next_serial() noexcept {
  static constinit std::atomic<std::uint32_t> last{0};
  // Relaxed: it is only a number. After 2^32 of them it starts over, but never gives 0, which no
  // object has.
  std::uint32_t serial;
  do serial = last.fetch_add(1, std::memory_order_relaxed) + 1;
  while (serial == 0);
  return serial;
}

}  // namespace lci::comp
