// From a handle to a completion object of a certain kind, with a typed error for every other
// handle.
//
// The kind is comp_impl_t::attr.comp_type. Our own objects are of the classes counter, sync,
// queue, handler and graph in this folder, made by base::make_live(); free_live() leaves a `freed`
// object in their place, whose kind is none, so that the look at the kind that is needed anyway
// notices a freed handle. Objects of the user are of kind custom and are never looked into.
//
// Threads: any. Functions only.
#pragma once

#include <cstdint>
#include <string>

#include "lci/base/platform.hpp"
#include "lci/base/type_stable.hpp"
#include "lci/errors.hpp"
#include "lci/library_comp.hpp"

namespace lci::comp {

// Objects of a kind that are freed before the memory of one is used again. Until then a call that
// is given one that was freed is refused. Operations under way know their object by its serial
// number as well, so that their signal never goes to one that was made later.
inline constexpr std::size_t COMP_QUARANTINE = 4096;

// Of a new object, never 0. Any thread.
std::uint32_t next_serial() noexcept;

// Stands where a completion object was; see base/type_stable.hpp.
struct freed final : comp_impl_t {
  static constexpr auto KIND = static_cast<attr_comp_type_t>(0xDEAD);
  freed() { attr.comp_type = KIND; }
  void signal(status_t status) override;
};

// The same in a process that was forked from the one that made it.
struct forked final : comp_impl_t {
  static constexpr auto KIND = static_cast<attr_comp_type_t>(0xF0F0);
  forked() { attr.comp_type = KIND; }
  void signal(status_t status) override;
};

// For people: "completion queue". Answers null for a number that is no kind, as a freed object has
// it.
const char* name_of(attr_comp_type_t kind) noexcept;

// The argument_error for an empty handle, a freed object, or an object of another kind; `who` is
// the operation.
[[noreturn]] LCI_COLD void throw_wrong_kind(const comp_impl_t* object, attr_comp_type_t wanted,
                                            const char* who);
// What a signal to a freed object throws; who knows the operation says it in its own words.
class freed_error : public argument_error {
 public:
  using argument_error::argument_error;
};
[[noreturn]] LCI_COLD void throw_freed(const comp_impl_t* object);
// What that error says of an object whose memory may be another one's by now.
LCI_COLD std::string freed_text(const comp_impl_t* object);
// Stands for every object that was freed while peers had a number for it, and keeps that from
// naming another one.
comp_impl_t& buried() noexcept;
// The same where every kind would do.
[[noreturn]] LCI_COLD void throw_not_comp(const comp_impl_t* object, const char* who);

// The object, known to be of class T.
template <class T>
T& as(comp_t handle, const char* who) {
  if (handle.is_empty() || handle.p_impl->attr.comp_type != T::KIND) [[unlikely]]
    throw_wrong_kind(handle.p_impl, T::KIND, who);
  return static_cast<T&>(*handle.p_impl);
}

// Is this an object that was not freed? The handle is not empty.
inline bool is_live(comp_t handle) noexcept {
  return static_cast<unsigned>(handle.p_impl->attr.comp_type) <=
         static_cast<unsigned>(detail::LIBRARY_COMP);
}

// Does a signal run code of the program? The object was not freed.
inline bool runs_user_code(const comp_impl_t& object) noexcept {
  static_assert(static_cast<int>(attr_comp_type_t::graph) ==
                    static_cast<int>(attr_comp_type_t::handler) + 1 &&
                static_cast<int>(attr_comp_type_t::custom) ==
                    static_cast<int>(attr_comp_type_t::graph) + 1);
  return static_cast<unsigned>(object.attr.comp_type) -
             static_cast<unsigned>(attr_comp_type_t::handler) <=
         2;
}

// The object, of whatever kind.
inline comp_impl_t& any(comp_t handle, const char* who) {
  if (handle.is_empty() || !is_live(handle)) [[unlikely]]
    throw_not_comp(handle.p_impl, who);
  return *handle.p_impl;
}

// Attributes of a new object of a certain kind.
inline comp_attr_t with_kind(comp_attr_t attr, attr_comp_type_t kind) {
  attr.comp_type = kind;
  return attr;
}

}  // namespace lci::comp
