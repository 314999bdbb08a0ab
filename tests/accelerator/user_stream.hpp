// A stream of the program, as it would use it itself: work in it, captured or not, and graphs. By
// the symbols of the driver's library that a program would link, on the real driver and on the
// mock. Threads: single; a context is current.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "backends/cuda/abi.hpp"

namespace lci::cuda {

class user_stream {
 public:
  // The library is loaded already.
  explicit user_stream(std::string library = "libcuda.so.1") : library_(std::move(library)) {
    must(call<abi::result (*)(abi::stream*, unsigned)>("cuStreamCreate")(&stream_, 1));
  }
  ~user_stream() { must(call<abi::result (*)(abi::stream)>("cuStreamDestroy_v2")(stream_)); }
  user_stream(const user_stream&) = delete;
  user_stream& operator=(const user_stream&) = delete;

  void* get() const { return stream_; }
  void copy(void* to, const void* from, std::size_t size) const {
    using function = abi::result (*)(abi::device_ptr, abi::device_ptr, std::size_t, abi::stream);
    must(call<function>("cuMemcpyAsync")(address(to), address(from), size, stream_));
  }
  bool is_idle() const {
    const abi::result answer = call<abi::result (*)(abi::stream)>("cuStreamQuery")(stream_);
    EXPECT_TRUE(answer == abi::result::success || answer == abi::result::not_ready)
        << static_cast<int>(answer);
    return answer == abi::result::success;
  }

  void begin_capture(abi::capture_mode mode = abi::capture_mode::global) const {
    using function = abi::result (*)(abi::stream, abi::capture_mode);
    must(call<function>("cuStreamBeginCapture_v2")(stream_, mode));
  }
  // The graph, instantiated; an EXPECT fails when the capture was spoilt.
  void* end_capture() const {
    void *graph = nullptr, *instance = nullptr;
    must(call<abi::result (*)(abi::stream, void**)>("cuStreamEndCapture")(stream_, &graph));
    using function = abi::result (*)(void**, void*, unsigned long long);
    must(call<function>("cuGraphInstantiateWithFlags")(&instance, graph, 0));
    must(call<abi::result (*)(void*)>("cuGraphDestroy")(graph));
    return instance;
  }
  // One that was spoilt: there is no graph.
  void abandon_capture() const {
    void* none = nullptr;
    EXPECT_EQ((call<abi::result (*)(abi::stream, void**)>("cuStreamEndCapture")(stream_, &none)),
              abi::result::stream_capture_invalidated);
    EXPECT_EQ(none, nullptr);
  }
  void launch(void* instance) const {
    must(call<abi::result (*)(void*, abi::stream)>("cuGraphLaunch")(instance, stream_));
  }
  void destroy(void* instance) const {
    must(call<abi::result (*)(void*)>("cuGraphExecDestroy")(instance));
  }

 private:
  static void must(abi::result answer) { ASSERT_EQ(answer, abi::result::success); }
  static abi::device_ptr address(const void* pointer) {
    return reinterpret_cast<std::uintptr_t>(pointer);
  }
  template <class Function>
  Function call(const char* name) const {
    void* const found = dlsym(dlopen(library_.c_str(), RTLD_NOW | RTLD_NOLOAD), name);
    EXPECT_NE(found, nullptr) << name;
    return reinterpret_cast<Function>(found);
  }

  std::string library_;
  abi::stream stream_ = nullptr;
};

}  // namespace lci::cuda
