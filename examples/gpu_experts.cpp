// A layer of a mixture of experts: lcrun -n 4 gpu_experts [tokens] [width] [cpu]
//
// Each process holds some tokens, vectors of `width` numbers, and one expert. Each token goes to
// two experts, in any process; their answers come back and are added. One kernel does all of it: it
// puts tokens into the experts' memory (dispatch), its expert computes answers for the tokens that
// have arrived, and puts them back (combine). Signals count the arrivals. The result is compared
// with the same layer computed by one process.
#include <cmath>

#include "kernel.hpp"

namespace {

namespace gpu = lci::gpu;
constexpr int CHOICES = 2;  // experts of a token

// The experts of a token, and the weights of their answers: invented, but the same on all ranks.
ANYWHERE inline int expert_of(int source, int token, int choice, int n) {
  return (source * 7 + token * 3 + choice * (1 + token % 5) + token / 4) % n;
}
ANYWHERE inline float weight_of(int token, int choice) {
  return choice == 0 ? 0.75f : 0.25f + 0.125f * float(token % 2);
}
ANYWHERE inline float value_of(int source, int token, int i) {
  return float(source) + 0.5f * float(token % 8) + 0.25f * float(i % 4);
}
// The answer of expert `e` for a number.
ANYWHERE inline float answer_of(int e, float x) { return x * float(e + 1) + 1.0f; }

// Rows of `width` numbers. A row for source s, token t and choice c lies at the same place in each
// rank's memory, so the ranks need not agree on places.
struct layer_t {
  gpu::endpoint_t endpoint;
  int me, n, tokens, width;
  const float* own;  // tokens rows
  gpu::key_t own_key;
  float* arrived;                // n * tokens * CHOICES rows: tokens for this expert
  const gpu::key_t* arrived_of;  // of each rank
  float* answered;               // as many: the answers of this expert
  gpu::key_t answered_key;
  float* returned;  // tokens * CHOICES rows: answers for this rank's tokens
  const gpu::key_t* returned_of;
  uint64_t* signals;  // [0, n): tokens from each source; [n, 2 n): answers from each expert
  const gpu::key_t* signals_of;
  float* result;  // tokens rows
  int* status;

  ANYWHERE uint64_t row_bytes() const { return uint64_t(width) * sizeof(float); }
  ANYWHERE int slot(int source, int token, int choice) const {
    return (source * tokens + token) * CHOICES + choice;
  }
  // The number of rows that `source` sends to `expert`.
  ANYWHERE uint64_t rows(int source, int expert) const {
    uint64_t count = 0;
    for (int t = 0; t < tokens; ++t)
      for (int c = 0; c < CHOICES; ++c) count += expert_of(source, t, c, n) == expert;
    return count;
  }
  // Block b sends to the experts b, b + B...
  ANYWHERE gpu::status dispatch(thread_t me_there) const {
    for (int e = me_there.block; e < n; e += me_there.blocks) {
      for (int t = 0; t < tokens; ++t) {
        for (int c = 0; c < CHOICES; ++c) {
          if (expert_of(me, t, c, n) != e) continue;
          const gpu::status s = gpu::put_signal<gpu::block>(
              endpoint, e, {arrived_of[e], uint64_t(slot(me, t, c)) * row_bytes()},
              {own_key, uint64_t(t) * row_bytes()}, row_bytes(),
              {signals_of[e], uint64_t(me) * sizeof(uint64_t)}, 1, gpu::signal_op::add);
          if (s != gpu::status::ok) return s;
        }
      }
    }
    return gpu::status::ok;
  }
  // The expert of this rank answers the sources b, b + B...
  ANYWHERE gpu::status answer(thread_t t) const {
    for (int source = t.block; source < n; source += t.blocks) {
      gpu::status s = gpu::wait_until<gpu::block>(
          endpoint, signals + source, gpu::comparison::greater_equal, rows(source, me), source);
      for (int token = 0; token < tokens && s == gpu::status::ok; ++token) {
        for (int c = 0; c < CHOICES && s == gpu::status::ok; ++c) {
          if (expert_of(source, token, c, n) != me) continue;
          const int row = slot(source, token, c);
          for (int i = t.thread; i < width; i += t.threads)
            answered[size_t(row) * size_t(width) + size_t(i)] =
                answer_of(me, arrived[size_t(row) * size_t(width) + size_t(i)]);
          s = gpu::put_signal<gpu::block>(
              endpoint, source, {returned_of[source], uint64_t(token * CHOICES + c) * row_bytes()},
              {answered_key, uint64_t(row) * row_bytes()}, row_bytes(),
              {signals_of[source], uint64_t(n + me) * sizeof(uint64_t)}, 1, gpu::signal_op::add);
        }
      }
      if (s != gpu::status::ok) return s;
    }
    return gpu::status::ok;
  }
  ANYWHERE gpu::status combine(thread_t t) const {
    for (int e = 0; e < n; ++e) {
      const gpu::status s = gpu::wait_until<gpu::block>(
          endpoint, signals + n + e, gpu::comparison::greater_equal, rows(me, e), e);
      if (s != gpu::status::ok) return s;
    }
    for (int token = t.block; token < tokens; token += t.blocks) {
      for (int i = t.thread; i < width; i += t.threads) {
        float sum = 0;
        for (int c = 0; c < CHOICES; ++c)
          sum += weight_of(token, c) *
                 returned[size_t(token * CHOICES + c) * size_t(width) + size_t(i)];
        result[size_t(token) * size_t(width) + size_t(i)] = sum;
      }
    }
    return gpu::status::ok;
  }
  ANYWHERE void operator()(thread_t t) const {
    gpu::status s = dispatch(t);
    if (s == gpu::status::ok) s = answer(t);
    if (s == gpu::status::ok) s = combine(t);
    if (s == gpu::status::ok) s = gpu::quiet<gpu::block>(endpoint);
    if (s != gpu::status::ok && t.thread == 0) *status = int(s);
  }
};

float reference(int source, int token, int i, int n) {
  float sum = 0;
  for (int c = 0; c < CHOICES; ++c)
    sum +=
        weight_of(token, c) * answer_of(expert_of(source, token, c, n), value_of(source, token, i));
  return sum;
}

int run(processor_t& processor, int tokens, int width) {
  const int me = lci::get_rank_me(), n = lci::get_rank_n();
  gpu::endpoint_t endpoint =
      lci::alloc_gpu_endpoint_x().gpu(processor.gpu()).gpu_proxy(lci::attr_gpu_proxy_t::progress)();
  size_t wrong = 0;
  int status = 0;
  {
    const size_t row = size_t(width), own_rows = size_t(tokens);
    const size_t there = size_t(n) * own_rows * CHOICES;
    shared_t<float> own(processor, own_rows * row, endpoint);
    shared_t<float> arrived(processor, there * row, endpoint);
    shared_t<float> answered(processor, there * row, endpoint);
    shared_t<float> returned(processor, own_rows * CHOICES * row, endpoint);
    shared_t<uint64_t> signals(processor, 2 * size_t(n), endpoint);
    float* const result = processor.allocate<float>(own_rows * row);
    int* const answer = processor.allocate<int>(1);
    std::vector<float> values(own_rows * row);
    for (int t = 0; t < tokens; ++t)
      for (int i = 0; i < width; ++i) values[size_t(t) * row + size_t(i)] = value_of(me, t, i);
    processor.write(own.at, values);
    lci::barrier();
    processor.run(4, processor.threads(128),
                  layer_t{endpoint, me, n, tokens, width, own.at, own.key, arrived.at,
                          arrived.keys_of, answered.at, answered.key, returned.at, returned.keys_of,
                          signals.at, signals.keys_of, result, answer},
                  endpoint);
    const std::vector<float> got = processor.read(result, own_rows * row);
    for (int t = 0; t < tokens; ++t)
      for (int i = 0; i < width; ++i)
        wrong += std::abs(got[size_t(t) * row + size_t(i)] - reference(me, t, i, n)) > 1e-3f;
    status = processor.read(answer, 1)[0];
    std::printf("rank %d on %s: %d tokens to %d experts each: %s, %zu of %zu numbers wrong\n", me,
                processor.name().c_str(), tokens, CHOICES, gpu::text_of(gpu::status(status)), wrong,
                got.size());
    lci::barrier();
    processor.free(result);
    processor.free(answer);
  }
  lci::free_gpu_endpoint(&endpoint);
  return wrong != 0 || status != 0;
}

}  // namespace

int main(int argc, char** argv) {
  const int tokens = argc > 1 ? std::atoi(argv[1]) : 64;
  const int width = argc > 2 ? std::atoi(argv[2]) : 256;
  if (tokens <= 0 || width <= 0)
    return std::puts("usage: lcrun -n 4 gpu_experts [tokens] [width] [cpu]"), 2;
  lci::g_runtime_init();
  int failures;
  {
    processor_t processor(lci::get_rank_me(), argc > 3 && std::string(argv[3]) == "cpu");
    failures = run(processor, tokens, width);
  }
  lci::g_runtime_fina();
  return failures;
}
