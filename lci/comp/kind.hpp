// From a handle to a completion object of a certain kind, with a typed error for every other
// handle.
//
// The kind is comp_impl_t::attr.comp_type. lci's own objects are of the classes counter, sync,
// queue, handler and graph in this folder, made by base::make_live(); free_live() leaves a `freed`
// object in their place, whose kind is none of these, so that the check of the kind, needed anyway,
// detects a freed handle. Objects of the user are of kind custom and are never looked into.
#pragma once

#include <cstdint>
#include <string>

#include "lci/base/platform.hpp"
#include "lci/base/type_stable.hpp"
#include "lci/errors.hpp"
#include "lci/library_comp.hpp"

namespace lci::comp {

// How many objects of a kind are freed before the memory of one is used again. Until then, a call
// that is given a freed one is refused. Operations under way also know their object by its serial
// number, so their signal never goes to an object that was made later.
inline constexpr std::size_t COMP_QUARANTINE = 4096;

// The serial number for a new object, never 0. Any thread.
std::uint32_t next_serial() noexcept;

// Takes the place of a freed completion object; see base/type_stable.hpp.
struct freed final : comp_impl_t {
  static constexpr auto KIND = static_cast<attr_comp_type_t>(0xDEAD);
  freed() { attr.comp_type = KIND; }
  void signal(status_t status) override;
};

// The same, in a process that was forked from the one that made the object.
struct forked final : comp_impl_t {
  static constexpr auto KIND = static_cast<attr_comp_type_t>(0xF0F0);
  forked() { attr.comp_type = KIND; }
  void signal(status_t status) override;
};

// For people: "completion queue". Returns null for a number that is no kind, such as that of a
// freed object.
const char* name_of(attr_comp_type_t kind) noexcept;

// The argument_error for an empty handle, a freed object, or an object of another kind; `who` is
// the operation.
[[noreturn]] LCI_COLD void throw_wrong_kind(const comp_impl_t* object, attr_comp_type_t wanted,
                                            const char* who);
// What a signal to a freed object throws; a caller that knows the operation words it itself.
class freed_error : public argument_error {
 public:
  using argument_error::argument_error;
};
[[noreturn]] LCI_COLD void throw_freed(const comp_impl_t* object);
// The text of that error for an object whose memory may belong to another one by now.
LCI_COLD std::string freed_text(const comp_impl_t* object);
// Stands for every object that was freed while peers had a number for it, and keeps that number
// from naming another object.
comp_impl_t& buried() noexcept;
// The same, for operations that accept any kind.
[[noreturn]] LCI_COLD void throw_not_comp(const comp_impl_t* object, const char* who);

// The object, known to be of class T.
template <class T>
T& as(comp_t handle, const char* who) {
  if (handle.is_empty() || handle.p_impl->attr.comp_type != T::KIND) [[unlikely]]
    throw_wrong_kind(handle.p_impl, T::KIND, who);
  return static_cast<T&>(*handle.p_impl);
}

// True if this is an object that was not freed. The handle is not empty.
inline bool is_live(comp_t handle) noexcept {
  return static_cast<unsigned>(handle.p_impl->attr.comp_type) <=
         static_cast<unsigned>(detail::LIBRARY_COMP);
}

// True if a signal runs code of the program. The object was not freed.
inline bool runs_user_code(const comp_impl_t& object) noexcept {
  static_assert(static_cast<int>(attr_comp_type_t::graph) ==
                    static_cast<int>(attr_comp_type_t::handler) + 1 &&
                static_cast<int>(attr_comp_type_t::custom) ==
                    static_cast<int>(attr_comp_type_t::graph) + 1);
  return static_cast<unsigned>(object.attr.comp_type) -
             static_cast<unsigned>(attr_comp_type_t::handler) <=
         2;
}

// The object, of any kind.
inline comp_impl_t& any(comp_t handle, const char* who) {
  if (handle.is_empty() || !is_live(handle)) [[unlikely]]
    throw_not_comp(handle.p_impl, who);
  return *handle.p_impl;
}

// Base of lci's own objects, which have the serial number that is given.
template <attr_comp_type_t kind>
struct of_kind : comp_impl_t {
  static constexpr attr_comp_type_t KIND = kind;
  explicit of_kind(const comp_attr_t& given) : comp_impl_t(given) {
    attr.comp_type = kind;
    attr.serial = given.serial;
  }
};

}  // namespace lci::comp
