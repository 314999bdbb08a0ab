// For files whose compilation is the test: what a fluent chain must look like, and one of
// everything to call it with.
#pragma once

#include "lci.hpp"

// A chain must be an rvalue of the operation itself, and both ways to run it must answer `Result`.
template <class Result, class Op>
void check(Op&&) {
  typedef typename std::decay<Op>::type plain;
  static_assert(!std::is_lvalue_reference<Op>::value, "setters return rvalues");
  static_assert(std::is_same<decltype(std::declval<const plain&>()()), Result>::value, "");
  static_assert(std::is_same<decltype(std::declval<const plain&>().call()), Result>::value, "");
  static_assert(std::is_copy_constructible<plain>::value && std::is_copy_assignable<plain>::value,
                "");
}

struct everything {
  lci::runtime_t runtime;
  lci::net_context_t net_context;
  lci::device_t device;
  lci::endpoint_t endpoint;
  lci::packet_pool_t pool;
  lci::matching_engine_t engine;
  lci::mr_t mr;
  lci::rmr_t rmr;
  lci::comp_t comp;
  lci::status_t status;
  lci::net_status_t net_status;
  char bytes[8];
  void* p;
  lci::rcomp_t rcomp;
};
