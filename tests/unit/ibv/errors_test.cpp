#include "backends/ibv/errors.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <set>
#include <string>

namespace lci::ibv {
namespace {

// All that verbs knows, in its order.
const char* const STATUSES[] = {
    "SUCCESS",
    "LOC_LEN_ERR",
    "LOC_QP_OP_ERR",
    "LOC_EEC_OP_ERR",
    "LOC_PROT_ERR",
    "WR_FLUSH_ERR",
    "MW_BIND_ERR",
    "BAD_RESP_ERR",
    "LOC_ACCESS_ERR",
    "REM_INV_REQ_ERR",
    "REM_ACCESS_ERR",
    "REM_OP_ERR",
    "RETRY_EXC_ERR",
    "RNR_RETRY_EXC_ERR",
    "LOC_RDD_VIOL_ERR",
    "REM_INV_RD_REQ_ERR",
    "REM_ABORT_ERR",
    "INV_EECN_ERR",
    "INV_EEC_STATE_ERR",
    "FATAL_ERR",
    "RESP_TIMEOUT_ERR",
    "GENERAL_ERR",
    "TM_ERR",
    "TM_RNDV_INCOMPLETE",
};
static_assert(std::size(STATUSES) == IBV_WC_TM_RNDV_INCOMPLETE + 1);
constexpr auto UNKNOWN = static_cast<ibv_wc_status>(std::size(STATUSES));

TEST(errors, meaning_of__each_status_has_its_own) {
  std::set<std::string_view> seen{meaning_of(UNKNOWN)};
  for (std::size_t i = 0; i < std::size(STATUSES); ++i)
    EXPECT_TRUE(seen.insert(meaning_of(static_cast<ibv_wc_status>(i))).second) << STATUSES[i];
}

TEST(errors, document__names_each_status_of_a_failure) {
  std::ifstream file(LCI_SOURCE_DIR "/docs/errors.md");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  ASSERT_FALSE(text.empty());
  for (std::size_t i = 1; i < std::size(STATUSES); ++i)
    EXPECT_NE(text.find('`' + std::string(STATUSES[i]) + '`'), std::string::npos) << STATUSES[i];
}

}  // namespace
}  // namespace lci::ibv
