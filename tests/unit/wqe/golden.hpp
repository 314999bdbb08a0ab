// The vectors of mlx5_golden.json. Its bytes were made by a C program of rdma-core's structures and
// inline functions alone (mlx5dv.h, release 44), and again by a second encoder; those of extended
// atomics come from the layout in NVSHMEM. Callers: the tests of this folder. Threads: single.
// Always true: a list has as many vectors as the file itself says, and as the test that asks says.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/device_code/wqe_inputs.hpp"

namespace lci::test {

using bytes = std::vector<unsigned char>;
using nlohmann::json;

inline const json& golden() {
  static const json all = [] {
    std::ifstream file(LCI_SOURCE_DIR "/tests/unit/wqe/mlx5_golden.json");
    return json::parse(file);
  }();
  return all;
}

// Fails the test where there are more or fewer.
inline const json& vectors(const char* list, std::size_t count) {
  const json& found = golden().at(list);
  EXPECT_EQ(found.size(), count) << list;
  EXPECT_EQ(golden().at("counts").at(list).get<std::size_t>(), count);
  return found;
}

// With the type named: what else compares with a json depends on its version.
inline std::string text(const json& of) { return of.get<std::string>(); }
inline std::uint64_t number(const json& of) {
  return of.is_string() ? std::stoull(of.get<std::string>(), nullptr, 16) : of.get<std::uint64_t>();
}
inline std::uint64_t number_or(const json& in, const char* name, std::uint64_t otherwise) {
  return in.contains(name) ? number(in.at(name)) : otherwise;
}
inline bytes bytes_of(const json& hex) {
  const auto text = hex.get<std::string>();
  bytes out;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2)
    out.push_back(static_cast<unsigned char>(std::stoul(text.substr(i, 2), nullptr, 16)));
  return out;
}
// How a value lies in memory.
template <class T>
std::string in_memory(const T& value) {
  const auto* at = reinterpret_cast<const unsigned char*>(&value);
  std::string out;
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    char pair[3];
    std::snprintf(pair, sizeof(pair), "%02x", at[i]);
    out += pair;
  }
  return out;
}

// Words and rings are read at once, so they begin at an octoword.
class memory {
 public:
  explicit memory(std::size_t size, unsigned char filled = 0xee)
      : words_((size + sizeof(wqe::octoword) - 1) / sizeof(wqe::octoword)) {
    std::memset(words_.data(), filled, words_.size() * sizeof(wqe::octoword));
  }
  unsigned char* data() { return reinterpret_cast<unsigned char*>(words_.data()); }
  std::size_t size() const { return words_.size() * sizeof(wqe::octoword); }
  void put(std::size_t at, const bytes& what) {
    std::memcpy(data() + at, what.data(), what.size());
  }
  bytes get(std::size_t at, std::size_t size) { return {data() + at, data() + at + size}; }

 private:
  std::vector<wqe::octoword> words_;
};

inline wqe::opcode opcode_named(const std::string& name) {
  using wqe::opcode;
  const std::pair<const char*, opcode> all[] = {{"NOP", opcode::nop},
                                                {"SEND", opcode::send},
                                                {"SEND_IMM", opcode::send_imm},
                                                {"SEND_INVAL", opcode::send_inval},
                                                {"RDMA_WRITE", opcode::rdma_write},
                                                {"RDMA_WRITE_IMM", opcode::rdma_write_imm},
                                                {"RDMA_READ", opcode::rdma_read},
                                                {"ATOMIC_CS", opcode::atomic_cs},
                                                {"ATOMIC_FA", opcode::atomic_fa},
                                                {"ATOMIC_MASKED_CS", opcode::atomic_masked_cs},
                                                {"ATOMIC_MASKED_FA", opcode::atomic_masked_fa}};
  for (const auto& [known, op] : all)
    if (name == known) return op;
  ADD_FAILURE() << "no operation " << name;
  return opcode::nop;
}

inline std::vector<wqe::sge> entries_of(const json& list) {
  std::vector<wqe::sge> out;
  for (const json& e : list)
    out.push_back({number(e.at("laddr")), number(e.at("length")),
                   static_cast<std::uint32_t>(number(e.at("lkey")))});
  return out;
}

// The answer to a vector of `reject`, by its name.
inline wqe::status why_rejected(const std::string& id) {
  using wqe::status;
  static const std::map<std::string, status> why = {
      {"rej-len-2p31", status::bad_length},
      {"rej-len-over-31-bits", status::bad_length},
      {"rej-qpn-25-bits", status::bad_qpn},
      {"rej-ds-64", status::too_many_octowords},
      {"rej-wqe-cnt-not-pow2", status::bad_ring},
      {"rej-wqe-longer-than-ring", status::longer_than_ring},
      {"rej-inline-over-cap", status::inline_too_long},
      {"rej-inline-from-device", status::inline_from_device},
      {"rej-atomic-length", status::bad_atomic_length},
      {"rej-atomic-misaligned", status::misaligned_atomic},
      {"rej-inline-read", status::inline_without_meaning},
      {"rej-cqe-size", status::bad_cqe_size}};
  const auto found = why.find(id);
  EXPECT_NE(found, why.end()) << id;
  return found != why.end() ? found->second : status::ok;
}

// A vector of `send`, or what a vector of `batch` changes of one.
inline send_input input_of(const json& v) {
  send_input in{};
  wqe::send_request& r = in.request;
  r.op = opcode_named(v.at("op"));
  r.qpn = static_cast<std::uint32_t>(number(v.at("qpn")));
  r.signaled = v.at("signaled");
  r.solicited = v.at("solicited");
  const std::string fence = v.at("fence");
  r.fence = fence == "none"    ? wqe::fence_mode::none
            : fence == "small" ? wqe::fence_mode::small
                               : wqe::fence_mode::full;
  EXPECT_TRUE(fence == "none" || fence == "small" || fence == "full") << fence;
  r.imm = static_cast<std::uint32_t>(number_or(v, "imm", 0));
  r.raddr = number_or(v, "raddr", 0);
  r.rkey = static_cast<std::uint32_t>(number_or(v, "rkey", 0));
  for (const wqe::sge& e : entries_of(v.at("sge"))) in.entries[r.entry_count++] = e;
  if (v.contains("inline")) {
    const bytes payload = bytes_of(v.at("inline"));
    std::memcpy(in.payload, payload.data(), payload.size());
    r.inline_length = static_cast<std::uint32_t>(payload.size());
  }
  if (v.contains("atomic")) {
    const json& a = v.at("atomic");
    const std::string kind = a.at("kind");
    r.atomic.swap_add = number(a.at("swap_add"));
    r.atomic.compare = number_or(a, "compare", 0);
    r.atomic.swap_mask = number_or(a, "swap_mask", 0);
    r.atomic.compare_mask = number_or(a, "compare_mask", number_or(a, "field_boundary", 0));
    r.atomic.size = kind.substr(kind.size() - 2) == "32" ? 4 : 8;
  }
  in.index = number(v.at("index"));
  in.ring_blocks = v.at("wqe_cnt");
  in.limits = {MOST_INLINE, wqe::MAX_BYTE_COUNT};
  return in;
}

}  // namespace lci::test
