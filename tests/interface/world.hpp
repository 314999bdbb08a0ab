// What every test of the interface suite stands on: this rank's view of the job, waiting with
// progress, buffers that can be verified, and objects that free themselves.
//
// All ranks run the same tests in the same order; a test therefore may be collective without saying
// so, and each starts with a barrier. With several devices test number k runs on device k mod
// devices. Threads: the main thread of each rank runs the tests; those that start threads say so.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lci.hpp"

namespace interface_test {

struct world_t {
  int rank = -1;
  int n = 0;
  int threads = 4;         // --threads
  bool long_mode = false;  // --long
  std::vector<lci::device_t> devices;
  lci::device_t device;    // the one of the running test
  std::size_t inject = 0;  // I: largest message that is inlined
  std::size_t bcopy = 0;   // B: largest message that travels in a packet

  int next() const { return (rank + 1) % n; }
  int previous() const { return (rank + n - 1) % n; }
};
world_t& world();

// All ranks, over the running test's device.
void barrier();
// The same with progress also on other devices: their messages may still have to leave.
void barrier_over(const std::vector<lci::device_t>& devices);
// One round of progress on the running test's device.
void progress();
// Enough rounds of progress for whatever should not come to come.
void linger();

// Makes progress until `holds()`; the watchdog of the suite ends a wait in vain.
template <class Predicate>
void wait_until(Predicate holds) {
  while (!holds()) progress();
}

// Runs a post until it answers something else than retry.
template <class Op>
lci::status_t insist(const Op& op) {
  lci::status_t status = op();
  while (status.is_retry()) {
    progress();
    status = op();
  }
  return status;
}

// The next status of a queue, with progress until it comes.
lci::status_t pop(lci::comp_t cq);
// Whether the queue has nothing, after lingering.
bool stays_empty(lci::comp_t cq);

// Bytes that depend on seed and position.
std::vector<char> pattern(std::size_t size, std::uint64_t seed);
// "" or where `data` differs from pattern(size, seed).
std::string difference(const void* data, std::size_t size, std::uint64_t seed);

// Sizes around every limit; resolved when the runtime is there.
enum class size_at { zero, one, inject, inject_1, bcopy_12, bcopy, bcopy_1, kib_64, mib_1 };
constexpr size_at ALL_SIZES[] = {size_at::zero,     size_at::one,      size_at::inject,
                                 size_at::inject_1, size_at::bcopy_12, size_at::bcopy,
                                 size_at::bcopy_1,  size_at::kib_64,   size_at::mib_1};
std::size_t bytes(size_at at);
const char* name_of(size_at at);

// A completion object that is freed at the end of the test.
class owned_comp {
 public:
  explicit owned_comp(lci::comp_t comp) : comp_(comp) {}
  ~owned_comp() { lci::free_comp(&comp_); }
  owned_comp(const owned_comp&) = delete;
  owned_comp& operator=(const owned_comp&) = delete;
  operator lci::comp_t() const { return comp_; }

 private:
  lci::comp_t comp_;
};

// A completion queue that peers can name. Collective: all ranks make it, and it begins and ends
// with a barrier.
class inbox {
 public:
  explicit inbox(bool zero_copy_am = false);
  ~inbox();
  inbox(const inbox&) = delete;
  inbox& operator=(const inbox&) = delete;
  lci::comp_t cq() const { return cq_; }
  lci::rcomp_t rcomp() const { return rcomp_; }

 private:
  lci::comp_t cq_;
  lci::rcomp_t rcomp_;
};

// Memory that all ranks may reach, and the remote keys of all. Collective like inbox.
class window {
 public:
  explicit window(std::size_t size);
  ~window();
  window(const window&) = delete;
  window& operator=(const window&) = delete;
  std::vector<char>& bytes() { return bytes_; }
  lci::mr_t mr() const { return mr_; }
  lci::rmr_t rmr(int rank) const { return keys_[static_cast<std::size_t>(rank)]; }

 private:
  std::vector<char> bytes_;
  lci::mr_t mr_;
  std::vector<lci::rmr_t> keys_;
};

// The text of the exception of type Error that `action` throws, or "nothing thrown" and the like.
template <class Error, class Action>
std::string text_thrown(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  } catch (const std::exception& error) {
    return std::string("another type: ") + error.what();
  }
  return "nothing thrown";
}

}  // namespace interface_test
