// Every call of device.cuh in every scope, as a kernel: that it compiles.
#include "lci/device.cuh"

namespace {

using namespace lci::gpu;

struct places {
  endpoint_t ep;
  place_t a, b;
  queue_t queue;
  unsigned char* buffer;
  std::uint64_t* word;
  int* word_4;
  int* answer;
};

template <class Scope>
__device__ int remote_calls(const places& p) {
  std::uint64_t which = 0;
  unsigned char small = 0;
  const status said[] = {
      put<Scope>(p.ep, 1, p.a, p.b, 100),
      put_value<Scope>(p.ep, 1, p.a, 7),
      put_signal<Scope>(p.ep, 1, p.a, p.b, 8, p.a, 1),
      put_signal<Scope>(p.ep, 1, p.a, p.b, 8, p.a, 1, signal_op::add),
      lci::gpu::signal<Scope>(p.ep, 1, p.a, 4),
      get<Scope>(p.ep, 1, p.a, p.b, 99),
      get_value<Scope>(p.ep, 1, p.a, &which),
      get_value<Scope>(p.ep, 1, p.a, &small),
      quiet<Scope>(p.ep),
      quiet<Scope>(p.ep, 1),
      fence<Scope>(p.ep),
      fence<Scope>(p.ep, 1),
      barrier<Scope>(p.ep, &p.a, p.word, barrier_words(2)),
      wait_until<Scope>(p.ep, p.word, comparison::equal, 5),
      wait_until<Scope>(p.ep, p.word_4, comparison::less, -5, 1),
      wait_until_all<Scope>(p.ep, p.word, 4, comparison::equal, 5),
      wait_until_all<Scope>(p.ep, p.word_4, 4, comparison::less, -5, p.answer),
      wait_until_any<Scope>(p.ep, p.word, 4, comparison::equal, 5, &which),
      wait_until_any<Scope>(p.ep, p.word_4, 4, comparison::less, -5, &which, p.answer, 1),
      lci::gpu::test<Scope>(p.ep, p.word, comparison::greater, 5)};
  int sum = rank(p.ep) + ranks(p.ep) + static_cast<int>(syndrome_of(p.ep, 1));
  sum += static_cast<int>(which) + small;
  for (const status s : said) sum += static_cast<int>(s) + text_of(s)[0];
  return sum;
}

template <class Scope, class T>
__device__ int atomic_calls(const places& p) {
  T old = 0;
  const T one = 1;
  const status said[] = {
      add<Scope>(p.ep, 1, p.a, one),
      fetch_add<Scope>(p.ep, 1, p.a, one, p.b),
      fetch_add<Scope>(p.ep, 1, p.a, one, &old),
      compare_swap<Scope>(p.ep, 1, p.a, one, old, p.b),
      compare_swap<Scope>(p.ep, 1, p.a, one, old, &old),
      lci::gpu::swap<Scope>(p.ep, 1, p.a, old, p.b),
      lci::gpu::swap<Scope>(p.ep, 1, p.a, one, &old),
      lci::gpu::set<Scope>(p.ep, 1, p.a, one),
      fetch<Scope>(p.ep, 1, p.a, &old),
      and_<Scope>(p.ep, 1, p.a, one),
      fetch_and<Scope>(p.ep, 1, p.a, one, p.b),
      fetch_and<Scope>(p.ep, 1, p.a, one, &old),
      or_<Scope>(p.ep, 1, p.a, one),
      fetch_or<Scope>(p.ep, 1, p.a, one, p.b),
      fetch_or<Scope>(p.ep, 1, p.a, one, &old),
      xor_<Scope>(p.ep, 1, p.a, one),
      fetch_xor<Scope>(p.ep, 1, p.a, one, p.b),
      fetch_xor<Scope>(p.ep, 1, p.a, one, &old),
  };
  int sum = static_cast<int>(old);
  for (const status s : said) sum += static_cast<int>(s);
  return sum;
}

template <class Scope>
__device__ int message_calls(const places& p) {
  ticket_t ticket;
  message_t message;
  const status said[] = {send<Scope>(p.ep, 1, p.a, 4, 4),
                         send_value<Scope>(p.ep, 1, 3, 4),
                         am<Scope>(p.ep, 1, p.a, 4, 4),
                         am_value<Scope>(p.ep, 1, 3, 4, 5),
                         recv<Scope>(p.ep, ANY_RANK, p.a, 4, 4, &ticket),
                         test_receive<Scope>(p.ep, ticket, &message),
                         wait_receive<Scope>(p.ep, ticket, &message),
                         poll<Scope>(p.queue, p.buffer, 64, &message),
                         lci::gpu::wait<Scope>(p.queue, p.buffer, 64, &message)};
  int sum = message.rank;
  for (const status s : said) sum += static_cast<int>(s);
  return sum;
}

template <class Scope>
__device__ int all_calls(const places& p) {
  return remote_calls<Scope>(p) + message_calls<Scope>(p) + atomic_calls<Scope, int>(p) +
         atomic_calls<Scope, unsigned long long>(p);
}

}  // namespace

extern "C" __global__ void lci_test_every_call(places p) {
  *p.answer = all_calls<thread>(p) + all_calls<warp>(p) + all_calls<block>(p);
}
