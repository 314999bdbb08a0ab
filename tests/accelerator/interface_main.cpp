// What the public interface answers to GPU memory, which no backend handles yet: a sentence, at
// once, and nothing changed. On the real driver or on the mock.
#include <gtest/gtest.h>

#include <string>

#include "lci.hpp"
#include "tests/accelerator/real_gpu.hpp"

namespace lci {
namespace {

using cuda::real_gpu;
using kind = real_gpu::kind;
constexpr std::size_t SIZE = std::size_t{2} << 20;

// The text of the error that `call` throws, or "".
template <class Error, class Call>
std::string refusal(Call call) {
  try {
    call();
  } catch (const Error& e) {
    return e.what();
  }
  return {};
}

class gpu_buffer {
 public:
  explicit gpu_buffer(kind what) : what_(what), at_(real_gpu::get().allocate(what, SIZE)) {}
  ~gpu_buffer() { real_gpu::get().free(what_, at_, SIZE); }
  gpu_buffer(const gpu_buffer&) = delete;
  gpu_buffer& operator=(const gpu_buffer&) = delete;
  void* get() const { return at_; }

 private:
  kind what_;
  void* at_;
};

TEST(register_memory, gpu__is_refused_by_name) {
  for (const auto& [made, name] : {std::pair{kind::device, "device memory of GPU 0"},
                                   std::pair{kind::pool, "stream-ordered memory of GPU 0"},
                                   std::pair{kind::vmm, "VMM memory of GPU 0"}}) {
    const gpu_buffer memory(made);
    const std::string text =
        refusal<backend_error>([&, at = memory.get()] { lci::register_memory(at, SIZE); });
    EXPECT_NE(text.find(name), std::string::npos) << text;
  }
}

TEST(register_memory, managed__is_never_handled) {
  const gpu_buffer memory(kind::managed);
  const std::string text =
      refusal<argument_error>([&] { lci::register_memory(memory.get(), SIZE); });
  EXPECT_NE(text.find("anaged"), std::string::npos) << text;
}

TEST(register_memory, pinned__is_host_memory) {
  const gpu_buffer memory(kind::pinned);
  mr_t mr = lci::register_memory(memory.get(), SIZE);
  lci::deregister_memory(&mr);
}

TEST(post, gpu__is_refused_where_the_caller_says_that_it_may_be) {
  const gpu_buffer memory(kind::device);
  comp_t done = alloc_counter();
  comp_t handler = alloc_counter();
  const rcomp_t rcomp = register_rcomp(handler);
  for (const mr_t mr : {MR_DEVICE, MR_UNKNOWN}) {
    for (const std::size_t size : {std::size_t{8}, std::size_t{4096}, SIZE}) {
      void* const at = memory.get();
      for (const std::string& text :
           {refusal<backend_error>([&] { post_am_x(0, at, size, done, rcomp).mr(mr)(); }),
            refusal<backend_error>([&] { post_send_x(0, at, size, 1, done).mr(mr)(); }),
            refusal<backend_error>([&] { post_recv_x(0, at, size, 1, done).mr(mr)(); })})
        EXPECT_NE(text.find("device memory of GPU 0"), std::string::npos) << text;
    }
  }
  for (int i = 0; i < 1000; ++i) progress();
  EXPECT_EQ(counter_get(done), 0);
  EXPECT_EQ(counter_get(handler), 0);
  deregister_rcomp(rcomp);
  free_comp(&handler);
  free_comp(&done);
}

TEST(post, host__of_unknown_kind_goes_as_ever) {
  comp_t done = alloc_counter();
  std::uint64_t out = 42;
  std::uint64_t in = 0;
  post_recv_x(0, &in, sizeof in, 7, done).mr(MR_UNKNOWN)();
  post_send_x(0, &out, sizeof out, 7, COMP_NULL).mr(MR_UNKNOWN)();
  while (counter_get(done) == 0) progress();
  EXPECT_EQ(in, 42u);
  free_comp(&done);
}

}  // namespace
}  // namespace lci

int main(int count, char** arguments) {
  testing::InitGoogleTest(&count, arguments);
  if (const int skipped = lci::cuda::skip_without_gpu(); skipped != 0) return skipped;
  lci::g_runtime_init();
  const int failed = RUN_ALL_TESTS();
  lci::g_runtime_fina();
  return failed;
}
