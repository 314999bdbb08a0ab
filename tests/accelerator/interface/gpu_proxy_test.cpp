// Endpoints for kernels and memory of GPUs: threads in the place of kernels post to it, and what
// the host makes for a GPU is what a kernel needs.
#include <cstring>
#include <string>
#include <thread>

#include "tests/accelerator/interface/common.hpp"
#include "tests/interface/kernel_threads.hpp"
#include "tests/support/mock_cuda/mock_cuda.hpp"
#include "tests/support/sizes.hpp"

namespace accelerator_test {
namespace {

using interface_test::run_kernel;
using interface_test::thread_endpoint;
using lci::gpu::status;

// Registered memory of GPU 0, and the keys of all ranks.
class gpu_window {
 public:
  explicit gpu_window(std::size_t size) : keys_(static_cast<std::size_t>(world().n)) {
    at_ = lci::device_allocator_t().allocate(size);
    mr_ = lci::register_memory_x(at_, size).device(world().device)();
    const lci::rmr_t mine = lci::get_rmr(mr_);
    lci::allgather_x(&mine, keys_.data(), sizeof mine).device(world().device)();
  }
  ~gpu_window() {
    barrier();
    lci::deregister_memory(&mr_);
    lci::device_allocator_t().deallocate(at_);
  }
  gpu_window(const gpu_window&) = delete;
  gpu_window& operator=(const gpu_window&) = delete;
  void* at() const { return at_; }
  lci::mr_t mr() const { return mr_; }
  lci::rmr_t rmr(int rank) const { return keys_[static_cast<std::size_t>(rank)]; }

 private:
  void* at_;
  lci::mr_t mr_;
  std::vector<lci::rmr_t> keys_;
};

class gpu_proxy_memory : public testing::TestWithParam<lci::attr_gpu_proxy_t> {};

// Every way between host memory and memory of a GPU, of this rank and of the next.
TEST_P(gpu_proxy_memory, requests__move_it) {
  constexpr std::size_t LONG = 20000;
  gpu_window memory(4 * LONG);
  interface_test::window host(4 * LONG);
  thread_endpoint ep(GetParam());
  const lci::gpu::key_t own = lci::get_gpu_key(memory.mr());
  const lci::gpu::key_t here = lci::get_gpu_key(host.mr());
  for (const int to : {world().rank, world().next()}) {
    const lci::gpu::key_t there = lci::get_gpu_key(memory.rmr(to));
    for (const std::size_t size : {std::size_t{8}, std::size_t{300}, LONG}) {
      const std::vector<char> out = interface_test::pattern(size, size + 3);
      std::copy(out.begin(), out.end(), host.bytes().begin());
      run_kernel([&] {
        EXPECT_EQ(lci::gpu::put(ep, to, {there, 0}, {here, 0}, size), status::ok);
        EXPECT_EQ(lci::gpu::get(ep, to, {own, 2 * LONG}, {there, 0}, size), status::ok);
        EXPECT_EQ(lci::gpu::put(ep, to, {there, LONG}, {own, 2 * LONG}, size), status::ok);
        EXPECT_EQ(lci::gpu::get(ep, to, {here, LONG}, {there, LONG}, size), status::ok);
        EXPECT_EQ(lci::gpu::quiet(ep, to), status::ok);
      });
      EXPECT_EQ(interface_test::difference(host.bytes().data() + LONG, size, size + 3), "");
      barrier();
    }
  }
}

// The signal behind values, which have no order, says that they are there. Who looks has a queue of
// its own, behind which nothing of the other one waits.
TEST_P(gpu_proxy_memory, values__are_there_when_the_signal_behind_them_is) {
  constexpr std::uint64_t VALUES = 100, FLAG = 8 * VALUES, ROUNDS = 8;
  gpu_window memory(2 * (FLAG + 8));
  interface_test::window host(FLAG + 8);
  std::memset(host.bytes().data(), 0, FLAG + 8);
  thread_endpoint writer(GetParam()), reader(GetParam());
  const lci::gpu::key_t here = lci::get_gpu_key(host.mr());
  const auto read = [&](std::uint64_t at) {
    std::uint64_t out = 0;
    std::memcpy(&out, host.bytes().data() + at, sizeof(out));
    return out;
  };
  for (const int to : {world().rank, world().next()}) {
    const lci::gpu::key_t there = lci::get_gpu_key(memory.rmr(to));
    const std::uint64_t begin = to == world().rank ? 0 : FLAG + 8;
    std::memset(host.bytes().data(), 0, FLAG + 8);
    run_kernel([&] {
      EXPECT_EQ(lci::gpu::put(writer, to, {there, begin}, {here, 0}, FLAG + 8), status::ok);
      EXPECT_EQ(lci::gpu::quiet(writer, to), status::ok);
    });
    std::uint64_t wrong = 0;
    run_kernel(2, [&](int which) {
      for (std::uint64_t round = 1; which == 0 && round <= ROUNDS; ++round) {
        for (std::uint64_t i = 0; i < VALUES; ++i)
          EXPECT_EQ(lci::gpu::put_value(writer, to, {there, begin + 8 * i}, round), status::ok);
        EXPECT_EQ(lci::gpu::signal(writer, to, {there, begin + FLAG}, round), status::ok);
      }
      EXPECT_EQ(which == 0 ? lci::gpu::quiet(writer, to) : status::ok, status::ok);
      std::uint64_t seen = 0;
      while (which == 1 && seen != ROUNDS) {
        EXPECT_EQ(lci::gpu::get(reader, to, {here, FLAG}, {there, begin + FLAG}, 8), status::ok);
        EXPECT_EQ(lci::gpu::quiet(reader, to), status::ok);
        seen = read(FLAG);
        EXPECT_EQ(lci::gpu::get(reader, to, {here, 0}, {there, begin}, FLAG), status::ok);
        EXPECT_EQ(lci::gpu::quiet(reader, to), status::ok);
        // The writer may be further by now.
        for (std::uint64_t i = 0; i < VALUES; ++i) wrong += read(8 * i) < seen;
      }
    });
    EXPECT_EQ(wrong, 0u);
    barrier();
  }
}

TEST_P(gpu_proxy_memory, messages__go_from_it_and_into_it) {
  constexpr std::size_t SIZE = 5000;
  gpu_window memory(2 * SIZE);
  interface_test::window host(2 * SIZE);
  thread_endpoint ep(GetParam());
  const lci::gpu::key_t own = lci::get_gpu_key(memory.mr());
  const lci::gpu::key_t here = lci::get_gpu_key(host.mr());
  const int me = world().rank, to = world().next(), of = world().previous();
  const std::vector<char> out = interface_test::pattern(SIZE, static_cast<std::uint64_t>(me));
  std::copy(out.begin(), out.end(), host.bytes().begin());
  run_kernel([&] {
    EXPECT_EQ(lci::gpu::put(ep, me, {own, 0}, {here, 0}, SIZE), status::ok);
    EXPECT_EQ(lci::gpu::quiet(ep, me), status::ok);
    lci::gpu::ticket_t ticket;
    lci::gpu::message_t got;
    EXPECT_EQ(lci::gpu::recv(ep, of, {own, SIZE}, SIZE, 8, &ticket), status::ok);
    EXPECT_EQ(lci::gpu::send(ep, to, {own, 0}, SIZE, 8), status::ok);
    EXPECT_EQ(lci::gpu::wait_receive(ep, ticket, &got), status::ok);
    EXPECT_EQ(got.size, SIZE);
    EXPECT_EQ(lci::gpu::get(ep, me, {here, SIZE}, {own, SIZE}, SIZE), status::ok);
    EXPECT_EQ(lci::gpu::quiet(ep), status::ok);
  });
  EXPECT_EQ(
      interface_test::difference(host.bytes().data() + SIZE, SIZE, static_cast<std::uint64_t>(of)),
      "");
  barrier();
}

INSTANTIATE_TEST_SUITE_P(by, gpu_proxy_memory,
                         testing::Values(lci::attr_gpu_proxy_t::progress,
                                         lci::attr_gpu_proxy_t::thread),
                         interface_test::proxy_name);

// What a kernel is given: it reaches memory of its GPU, and no thread may use it.
TEST(gpu_proxy_endpoint, of_a_gpu__is_for_its_kernels) {
  gpu_window memory(4096);
  interface_test::window host(64);
  lci::gpu::endpoint_t ep = lci::alloc_gpu_endpoint_x(world().device)
                                .gpu(0)
                                .gpu_proxy(lci::attr_gpu_proxy_t::progress)
                                .depth(64)();
  const lci::gpu::key_t own = lci::get_gpu_key_x(memory.mr()).endpoint(ep)();
  EXPECT_EQ(own.mapped, reinterpret_cast<std::uintptr_t>(memory.at()));
  EXPECT_EQ(lci::get_gpu_key_x(host.mr()).endpoint(ep)().mapped, 0u);
  const lci::gpu::key_t there =
      lci::get_gpu_key_x(memory.rmr(world().next())).endpoint(ep).rank(world().next())();
  EXPECT_EQ(there.length, 4096u);
  EXPECT_EQ(lci::gpu::put(ep, world().rank, {own, 0}, {own, 8}, 8), status::wrong_gpu);
  lci::gpu::queue_t queue = lci::alloc_gpu_queue_x(ep)();
  EXPECT_FALSE(queue.is_empty());
  lci::free_gpu_queue(&queue);
  for (int i = 0; i < 100; ++i) progress();
  barrier();
  lci::free_gpu_endpoint(&ep);
  EXPECT_THROW(lci::alloc_gpu_endpoint_x(world().device)
                   .gpu(4711)
                   .gpu_proxy(lci::attr_gpu_proxy_t::progress)(),
               lci::argument_error);
}

// "": the endpoint is for kernels that this thread launches now.
std::string why_not_for(lci::gpu::endpoint_t ep) {
  try {
    lci::check_gpu_endpoint(ep);
  } catch (const lci::argument_error& error) {
    return error.what();
  }
  return "";
}

TEST(gpu_proxy_endpoint, of_a_gpu__is_refused_where_another_is_current) {
  lci::cuda::real_gpu& mine = lci::cuda::real_gpu::get();
  lci::gpu::endpoint_t ep = lci::alloc_gpu_endpoint_x(world().device)
                                .gpu_proxy(lci::attr_gpu_proxy_t::progress)
                                .depth(64)();
  EXPECT_EQ(why_not_for(ep), "");
  std::string in_another_thread;
  std::thread([&] { in_another_thread = why_not_for(ep); }).join();
  EXPECT_NE(in_another_thread.find("no GPU is current"), std::string::npos) << in_another_thread;
  const int count = mine.d.gpu_count();
  if (count > 1) {
    const int other = (mine.ordinal() + 1) % count;
    lci::cuda::abi::context context = mine.gpus.at(other).context();
    ASSERT_EQ(mine.d.call().ctx_push_current(context), lci::cuda::abi::result::success);
    const std::string refused = why_not_for(ep);
    EXPECT_EQ(mine.d.call().ctx_pop_current(&context), lci::cuda::abi::result::success);
    EXPECT_NE(refused.find("is of GPU " + std::to_string(mine.ordinal())), std::string::npos)
        << refused;
    EXPECT_EQ(why_not_for(ep), "");
  }
  lci::free_gpu_endpoint(&ep);
  barrier();
}

// Bytes of an endpoint's memory on the GPU, read as any other such memory.
template <class T>
T read_of(lci::gpu::endpoint_t by, interface_test::window& host, const T* at) {
  auto* const bytes = const_cast<T*>(at);
  lci::mr_t mr = lci::register_memory_x(bytes, sizeof(T)).device(world().device)();
  const lci::gpu::key_t from = lci::get_gpu_key(mr), to = lci::get_gpu_key(host.mr());
  const int me = world().rank;
  run_kernel([&] {
    EXPECT_EQ(lci::gpu::get(by, me, {to, 0}, {from, 0}, sizeof(T)), status::ok);
    EXPECT_EQ(lci::gpu::quiet(by, me), status::ok);
  });
  lci::deregister_memory(&mr);
  T out;
  std::memcpy(&out, host.bytes().data(), sizeof(T));
  return out;
}

// What kernels read all the time is in their GPU's memory, and the host's words reach it.
TEST(gpu_proxy_endpoint, of_a_gpu__its_records_and_words_are_there) {
  interface_test::window host(1024);
  thread_endpoint by(lci::attr_gpu_proxy_t::progress);
  lci::gpu::endpoint_t ep = lci::alloc_gpu_endpoint_x(world().device)
                                .gpu(0)
                                .gpu_proxy(lci::attr_gpu_proxy_t::progress)
                                .depth(64)();
  const lci::gpu::endpoint_record record = read_of(by, host, ep.record);
  EXPECT_EQ(record.generation, ep.generation);
  EXPECT_EQ(record.ranks, static_cast<std::uint32_t>(world().n));
  const lci::gpu::peer_record peer = read_of(by, host, record.peers);
  EXPECT_EQ(peer.queue.ring.blocks, 64u);
  EXPECT_EQ(read_of(by, host, peer.ended), 0u);
  EXPECT_EQ(read_of(by, host, record.waits.abort), 0u);
  lci::abort_gpu_endpoint(ep);
  EXPECT_EQ(read_of(by, host, record.waits.abort), 1u);
  const lci::gpu::endpoint_record* const at = ep.record;
  lci::free_gpu_endpoint(&ep);
  EXPECT_EQ(read_of(by, host, at).generation, 0u) << "copies of the handle find out";
  barrier();
}

// As reuse.overlaps, with kernels that may wait for progress: to close a mapping waits for them.
TEST(gpu_proxy_endpoint, of_a_gpu__no_mapping_is_closed_while_it_lives) {
  lci::test::mock_cuda* const mock = lci::test::load_mock_cuda("");
  const guarded keeper(place::device, 4096);
  lci::gpu::endpoint_t ep = lci::alloc_gpu_endpoint_x(world().device)
                                .gpu(0)
                                .gpu_proxy(lci::attr_gpu_proxy_t::progress)
                                .depth(64)();
  if (mock != nullptr) mock->forget_counts();
  for (std::size_t i = 0; i < 35; ++i) {
    const guarded shift(place::device, (1 + i % 5) * 64 * lci::test::KIB);
    const std::size_t size = lci::test::MIB - i % 7 * 16 * lci::test::KIB;
    guarded out(place::device, size), in(place::device, size);
    ASSERT_EQ(send_around(out, in, size), "") << "round " << i;
    barrier();
  }
  if (mock != nullptr) {
    EXPECT_EQ(mock->count("cuIpcCloseMemHandle"), 0u);
  }
  lci::free_gpu_endpoint(&ep);
  barrier();
}

}  // namespace
}  // namespace accelerator_test
