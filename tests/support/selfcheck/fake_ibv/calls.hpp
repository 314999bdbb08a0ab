// The functions of the fake verbs library, as a user finds them, and the hand that moves it.
#pragma once

#include <dlfcn.h>

#include <stdexcept>

#include "tests/support/fake_ibv/fake_ibv.hpp"

#undef ibv_reg_mr

namespace lci::test {

inline fake_ibv& library() {
  static fake_ibv* const one = load_fake_ibv(LCI_FAKE_IBV);
  if (one == nullptr) throw std::runtime_error("there is no " LCI_FAKE_IBV);
  return *one;
}

template <class Function>
Function* find_call(const char* name) {
  library();
  void* const at = dlsym(dlopen("libibverbs.so.1", RTLD_NOW), name);
  if (at == nullptr) throw std::runtime_error(name);
  return reinterpret_cast<Function*>(at);
}

}  // namespace lci::test

#define LCI_CALL(name) ::lci::test::find_call<decltype(::name)>(#name)
