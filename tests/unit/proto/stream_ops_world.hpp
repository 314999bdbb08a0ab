// Operations in streams that run when told to, for the tests of stream_ops. Threads: single.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <exception>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "lci/comp/sync.hpp"
#include "lci/proto/gpu/stream_ops.hpp"
#include "tests/unit/proto/fake_streams.hpp"

namespace lci::test {

// What the posts of a test did; their context says which it was.
struct journal {
  std::vector<int> started;
  int refuse = 0;      // the next so many posts
  int refuse_one = 0;  // this one, always
  std::function<void()> inside;
};
inline journal& notes() {
  static journal one;
  return one;
}

inline status_t fake_post(const detail::post_args& args) {
  if (notes().refuse_one == args.rank) return errorcode_t::retry_nomem;
  if (notes().refuse > 0) {
    --notes().refuse;
    return errorcode_t::retry_nomem;
  }
  notes().started.push_back(args.rank);
  if (notes().inside) notes().inside();
  if (args.rank < 0) throw argument_error("rank " + std::to_string(args.rank));
  return errorcode_t::posted;
}

class stream_ops_test : public testing::Test {
 protected:
  stream_ops_test() {
    notes() = {};
    gpus.use_any();
  }
  ~stream_ops_test() override {
    ops.close();
    notes() = {};
    base::free_live(sync, "comp");
  }
  static fake_streams& streams() { return *fake_streams::now(); }
  static comp_attr_t with_threshold(int n) {
    comp_attr_t attr;
    attr.sync_threshold = n;
    return attr;
  }
  stream_op_impl_t* post(void* stream, int number) {
    detail::post_args args;
    args.rank = number;
    args.local_comp = comp_t(sync);
    return ops.add_post(stream, &fake_post, args, &device);
  }
  std::size_t advance() {
    return ops.advance([this](std::exception_ptr p) { problems.push_back(std::move(p)); });
  }
  std::vector<int> started() const { return notes().started; }
  void signal() const { sync->add(errorcode_t::done); }

  const with_fake_streams domain;
  proto::core of{0, 1, proto::wire::imm_layout{}, 1};
  proto::gpu::devices gpus{of};
  proto::gpu::stream_ops ops{gpus};
  comp::sync* sync = base::make_live<comp::sync>(with_threshold(1));
  std::vector<std::exception_ptr> problems;
  int device = 0;
  void* const S = &device;
  void* const T = &problems;
};

using ints = std::vector<int>;

}  // namespace lci::test
