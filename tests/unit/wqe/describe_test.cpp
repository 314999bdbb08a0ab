#include "lci/wqe/describe.hpp"

#include <gtest/gtest.h>

#include "tests/unit/wqe/golden.hpp"

namespace {

using namespace lci::test;
using namespace lci::wqe;

// Octowords of their own, so that what is read behind them is found.
std::string text_of_bytes(const bytes& all) {
  std::vector<octoword> words(all.size() / OCTOWORD_SIZE);
  std::memcpy(static_cast<void*>(words.data()), all.data(), words.size() * OCTOWORD_SIZE);
  return describe(words.data(), static_cast<std::uint32_t>(words.size()));
}
std::string as_hex(const json& v) { return lci::wqe::detail::hex(number(v)); }

// What the text of a vector has to say.
std::vector<std::string> parts_of(const json& v) {
  std::vector<std::string> out = {text(v.at("op")) + ", index " +
                                  lci::wqe::detail::hex(number(v.at("index")) & 0xffff) + ", qpn " +
                                  as_hex(v.at("qpn")) + ", octowords " +
                                  std::to_string(number(v.at("expect").at("ds")))};
  if (v.at("signaled").get<bool>()) out.push_back(", signaled");
  if (v.at("solicited").get<bool>()) out.push_back(", solicited");
  if (text(v.at("fence")) != "none") out.push_back(", " + text(v.at("fence")) + " fence");
  if (v.contains("imm")) out.push_back(", imm " + as_hex(v.at("imm")));
  if (v.contains("raddr"))
    out.push_back("; remote " + as_hex(v.at("raddr")) + " key " + as_hex(v.at("rkey")));
  // None at all are no segment.
  if (v.contains("inline") && !bytes_of(v.at("inline")).empty())
    out.push_back("; inline bytes " + std::to_string(bytes_of(v.at("inline")).size()) + ":");
  if (v.contains("atomic")) {
    const json& a = v.at("atomic");
    const bool adds = !a.contains("compare");
    out.push_back((adds ? "; add " : "; swap ") + as_hex(a.at("swap_add")));
    if (!adds) out.push_back(" compare " + as_hex(a.at("compare")));
    if (a.contains("field_boundary")) out.push_back(" boundary " + as_hex(a.at("field_boundary")));
    if (a.contains("swap_mask"))
      out.push_back(" swap mask " + as_hex(a.at("swap_mask")) + " compare mask " +
                    as_hex(a.at("compare_mask")));
  }
  if (v.contains("sge"))
    for (const sge& e : entries_of(v.at("sge")))
      if (e.length != 0)
        out.push_back("; bytes " + std::to_string(e.length) + " at " +
                      lci::wqe::detail::hex(e.laddr) + " key " + lci::wqe::detail::hex(e.lkey));
  return out;
}

TEST(describe, everything_that_a_golden_vector_says) {
  std::size_t described = 0;
  for (const json& v : vectors("send", 123)) {
    const std::string said = text_of_bytes(bytes_of(v.at("expect").at("wqe")));
    std::size_t at = 0;
    for (const std::string& part : parts_of(v)) {
      const std::size_t found = said.find(part, at);
      EXPECT_NE(found, std::string::npos) << v.at("id") << ": no '" << part << "' in: " << said;
      if (found != std::string::npos) at = found;
    }
    EXPECT_EQ(said.find("cut"), std::string::npos) << said;
    EXPECT_EQ(said.find("solicited") == std::string::npos, !v.at("solicited").get<bool>()) << said;
    EXPECT_EQ(said.find("signaled") == std::string::npos, !v.at("signaled").get<bool>()) << said;
    ++described;
  }
  EXPECT_EQ(described, 123u);
}

TEST(describe, whole_text) {
  const unsigned char payload[] = {1, 0xab, 3, 4, 5};
  send_request r;
  r.op = opcode::rdma_write;
  r.qpn = 0x123;
  r.fence = fence_mode::small;
  r.raddr = 0x7f1000002000;
  r.rkey = 0x54321;
  r.inline_data = payload;
  r.inline_length = sizeof(payload);
  octoword ring[16] = {};
  const written_wqe written = write_checked({ring, 4}, 0x10002, r);
  // Block 2 of the ring.
  EXPECT_EQ(describe(ring + 8, written.octowords),
            "RDMA_WRITE, index 0x2, qpn 0x123, octowords 3, signaled, small fence; remote "
            "0x7f1000002000 key 0x54321; inline bytes 5: 01 ab 03 04 05");
  EXPECT_EQ(describe(ring + 8, 2),
            "RDMA_WRITE, index 0x2, qpn 0x123, octowords 3, signaled, small fence; remote "
            "0x7f1000002000 key 0x54321; cut");
  EXPECT_EQ(describe(ring, 0), "nothing");
}

// Any bytes have a text, and none behind them is read.
TEST(describe, bytes_that_are_no_request) {
  bytes all(5 * OCTOWORD_SIZE);
  std::uint32_t state = 12345;
  std::size_t unknown = 0;
  for (int i = 0; i < 20000; ++i) {
    all.resize(OCTOWORD_SIZE * (1 + static_cast<std::size_t>(i) % 5));
    for (unsigned char& one : all) {
      state = state * 1664525 + 1013904223;
      one = static_cast<unsigned char>(state >> 24);
    }
    // Every opcode, and sizes that the octowords are about as long as.
    all[3] = static_cast<unsigned char>(i / 5);
    all[7] = static_cast<unsigned char>(all[7] % 8);
    const std::string said = text_of_bytes(all);
    EXPECT_FALSE(said.empty());
    unknown += said.compare(0, 7, "opcode ") == 0;
    EXPECT_EQ(said.find("; cut") != std::string::npos, all[7] > all.size() / OCTOWORD_SIZE) << said;
  }
  EXPECT_GT(unknown, 10000u);
}

}  // namespace
