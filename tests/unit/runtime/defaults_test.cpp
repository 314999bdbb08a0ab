#include "lci/runtime/defaults.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

#include "lci/base/log.hpp"
#include "lci/errors.hpp"
#include "tests/support/must_fire.hpp"
#include "tests/support/scoped_env.hpp"

namespace lci::runtime {
namespace {

using test::throws_with;

class defaults_test : public testing::Test {
 protected:
  defaults_test() {
    for (const attribute_row& row : describe(global_attr_t())) vars_.unset(variable_of(row.name));
    vars_.unset("LCI_LOG_LEVEL");
  }
  static attribute_row row(const std::vector<attribute_row>& rows, const std::string& name) {
    const auto found = std::find_if(rows.begin(), rows.end(),
                                    [&](const attribute_row& r) { return r.name == name; });
    EXPECT_NE(found, rows.end()) << name;
    return found == rows.end() ? attribute_row{} : *found;
  }
  void expect_refused(const char* variable, const char* value, const char* accepted) {
    test::scoped_env one;
    one.set(variable, value);
    EXPECT_TRUE(throws_with<argument_error>([] { read_defaults(); }, {variable, value, accepted}));
  }
  test::scoped_env vars_;
};

TEST_F(defaults_test, read__nothing_set_gives_the_built_in_values) {
  const auto rows = describe(read_defaults());
  const auto built_in = describe(global_attr_t());
  ASSERT_EQ(rows.size(), built_in.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].value_text, built_in[i].value_text) << rows[i].name;
    EXPECT_EQ(rows[i].source, "default") << rows[i].name;
  }
}

// Every attribute answers to its variable, and to its own text: what describe() prints can be set.
TEST_F(defaults_test, read__every_attribute_takes_its_own_text_back) {
  for (const attribute_row& r : describe(global_attr_t())) {
    if (r.value_text.empty()) continue;
    test::scoped_env one;
    one.set(variable_of(r.name), r.value_text);
    const attribute_row again = row(describe(read_defaults()), r.name);
    EXPECT_EQ(again.value_text, r.value_text) << r.name;
    EXPECT_EQ(again.source, variable_of(r.name)) << r.name;
  }
}

TEST_F(defaults_test, read__each_kind_of_value) {
  vars_.set("LCI_ATTR_NPACKETS", "0x400");
  vars_.set("LCI_ATTR_PACKET_SIZE", "16K");
  vars_.set("LCI_ATTR_IBV_GID_IDX", "-1");
  vars_.set("LCI_ATTR_ZERO_COPY_AM", "Yes");
  vars_.set("LCI_ATTR_NET_SEND_RESERVED_PCT", "0.5");
  vars_.set("LCI_ATTR_OFI_PROVIDER_NAME", "tcp;ofi_rxm");
  vars_.set("LCI_ATTR_RDV_PROTOCOL", "WriteImm");
  vars_.set("LCI_ATTR_MATCHING_ENGINE_TYPE", "queue");
  vars_.set("LCI_ATTR_CQ_TYPE", "array_atomic");
  vars_.set("LCI_ATTR_IBV_TD_STRATEGY", "none");
  vars_.set("LCI_ATTR_IBV_ODP_STRATEGY", "implicit_odp");
  vars_.set("LCI_ATTR_IBV_PREFETCH_STRATEGY", "prefetch_no_fault");
  const global_attr_t a = read_defaults();
  vars_.set("LCI_ATTR_FAILURE_NOTICE", "all");
  EXPECT_EQ(read_defaults().failure_notice, attr_failure_notice_t::all);
  vars_.set("LCI_ATTR_GPU_GDRCOPY", "off");
  EXPECT_EQ(read_defaults().gpu_gdrcopy, attr_gpu_gdrcopy_t::off);
  vars_.set("LCI_ATTR_GPU_GDRCOPY", "On");
  EXPECT_EQ(read_defaults().gpu_gdrcopy, attr_gpu_gdrcopy_t::on);
  vars_.set("LCI_ATTR_GPU_GDRCOPY", "auto");
  EXPECT_EQ(read_defaults().gpu_gdrcopy, attr_gpu_gdrcopy_t::auto_select);
  vars_.set("LCI_ATTR_CQ_TYPE", "per_thread");
  EXPECT_EQ(read_defaults().cq_type, attr_cq_type_t::per_thread);
  vars_.set("LCI_ATTR_MAX_HANDLER_DEPTH", "3");
  EXPECT_EQ(read_defaults().max_handler_depth, 3);
  EXPECT_EQ(a.max_handler_depth, 8);
  vars_.set("LCI_ATTR_MAX_HANDLER_WAIT_S", "7");
  EXPECT_EQ(read_defaults().max_handler_wait_s, 7);
  EXPECT_EQ(a.max_handler_wait_s, 3600);
  EXPECT_EQ(a.npackets, 1024u);
  EXPECT_EQ(a.packet_size, 16384u);
  EXPECT_EQ(a.ibv_gid_idx, -1);
  EXPECT_TRUE(a.zero_copy_am);
  EXPECT_DOUBLE_EQ(a.net_send_reserved_pct, 0.5);
  EXPECT_EQ(a.ofi_provider_name, "tcp;ofi_rxm");
  EXPECT_EQ(a.rdv_protocol, attr_rdv_protocol_t::writeimm);
  EXPECT_EQ(a.matching_engine_type, attr_matching_engine_type_t::queue);
  EXPECT_EQ(a.cq_type, attr_cq_type_t::array_atomic);
  EXPECT_EQ(a.ibv_td_strategy, attr_ibv_td_strategy_t::none);
  EXPECT_EQ(a.ibv_odp_strategy, attr_ibv_odp_strategy_t::implicit_odp);
  EXPECT_EQ(a.ibv_prefetch_strategy, attr_ibv_prefetch_strategy_t::prefetch_no_fault);
}

// As in a build with LCI_OFI_PROVIDER_HINT_DEFAULT.
TEST_F(defaults_test, read__an_empty_text_replaces_that_of_the_build) {
  global_attr_t built_in;
  built_in.ofi_provider_name = "tcp";
  EXPECT_EQ(read_defaults(built_in).ofi_provider_name, "tcp");
  vars_.set("LCI_ATTR_OFI_PROVIDER_NAME", "");
  vars_.set("LCI_ATTR_NPACKETS", "");
  const global_attr_t attr = read_defaults(built_in);
  EXPECT_EQ(attr.ofi_provider_name, "");
  EXPECT_EQ(attr.npackets, built_in.npackets) << "nothing is no number";
  EXPECT_EQ(row(describe(attr), "ofi_provider_name").source, "LCI_ATTR_OFI_PROVIDER_NAME");
  EXPECT_EQ(row(describe(attr), "npackets").source, "default");
}

TEST_F(defaults_test, read__backend_by_name_in_any_case) {
  const std::pair<const char*, attr_backend_t> names[] = {{"shm", attr_backend_t::shm},
                                                          {"SHM", attr_backend_t::shm},
                                                          {"ibv", attr_backend_t::ibv},
                                                          {"OFI", attr_backend_t::ofi},
                                                          {"none", attr_backend_t::none}};
  for (const auto& [text, value] : names) {
    vars_.set("LCI_ATTR_BACKEND", text);
    EXPECT_EQ(read_defaults().backend, value) << text;
  }
}

TEST_F(defaults_test, read__lock_mode_is_a_list_in_its_own_variable) {
  vars_.set("LCI_NET_LOCK_MODE", "send,MR");
  EXPECT_EQ(read_defaults().ofi_lock_mode,
            static_cast<std::uint64_t>(LCI_NET_TRYLOCK_SEND | LCI_NET_LOCK_MR));
  EXPECT_EQ(row(describe(read_defaults()), "ofi_lock_mode").value_text, "send,mr");
  vars_.set("LCI_NET_LOCK_MODE", "all");
  EXPECT_EQ(read_defaults().ofi_lock_mode, static_cast<std::uint64_t>(LCI_NET_LOCK_ALL));
  vars_.set("LCI_NET_LOCK_MODE", "none");
  EXPECT_EQ(read_defaults().ofi_lock_mode, 0u);
}

TEST_F(defaults_test, read__nonsense_is_refused_with_variable_value_and_range) {
  expect_refused("LCI_ATTR_NPACKETS", "lots", "whole number");
  expect_refused("LCI_ATTR_NPACKETS", "-1", "whole number");
  expect_refused("LCI_ATTR_PACKET_SIZE", "64", "from 128");
  expect_refused("LCI_ATTR_ZERO_COPY_AM", "2", "true");
  expect_refused("LCI_ATTR_BACKEND", "verbs", "none, ibv, ofi, ucx, shm");
  expect_refused("LCI_ATTR_RDV_PROTOCOL", "write,writeimm", "one of auto_select");
  expect_refused("LCI_ATTR_FAILURE_NOTICE", "none", "own, all");
  expect_refused("LCI_ATTR_GPU_GDRCOPY", "yes", "auto_select, on, off");
  expect_refused("LCI_ATTR_NET_SEND_RESERVED_PCT", "1.0", "a number from 0 to less than 1");
  expect_refused("LCI_ATTR_IMM_NBITS_TAG", "32", "from 0 to 31");
  expect_refused("LCI_ATTR_SYNC_THRESHOLD", "0", "from 1");
  expect_refused("LCI_ATTR_MAX_HANDLER_DEPTH", "0", "from 1 to 32");
  expect_refused("LCI_ATTR_MAX_HANDLER_DEPTH", "33", "from 1 to 32");
  expect_refused("LCI_ATTR_SHM_SLOT_SIZE", "100", "multiple of 64");
  expect_refused("LCI_ATTR_SHM_MAX_POLLS", "33", "from 1 to 32");
  expect_refused("LCI_NET_LOCK_MODE", "both", "none, send, recv, poll, mr, all");
  expect_refused("LCI_LOG_LEVEL", "loud", "error, warn");
}

TEST_F(defaults_test, read__imm_bits_are_checked_together) {
  vars_.set("LCI_ATTR_IMM_NBITS_TAG", "20");
  EXPECT_TRUE(throws_with<argument_error>([] { read_defaults(); },
                                          {"IMM_NBITS_TAG", "20 and 15", "at most 31"}));
  vars_.set("LCI_ATTR_IMM_NBITS_RCOMP", "11");
  EXPECT_EQ(read_defaults().imm_nbits_tag, 20);
}

TEST_F(defaults_test, describe__tells_variable_from_program) {
  vars_.set("LCI_ATTR_NPACKETS", "100");
  global_attr_t a = read_defaults();
  EXPECT_EQ(row(describe(a), "npackets").source, "LCI_ATTR_NPACKETS");
  a.npackets = 200;
  a.net_max_recvs = 7;
  const auto rows = describe(a);
  EXPECT_EQ(row(rows, "npackets").source, "program");
  EXPECT_EQ(row(rows, "npackets").value_text, "200");
  EXPECT_EQ(row(rows, "net_max_recvs").source, "program");
  EXPECT_EQ(row(rows, "net_max_sends").source, "default");
}

TEST_F(defaults_test, describe__in_the_order_of_the_struct) {
  const auto rows = describe(global_attr_t());
  EXPECT_EQ(rows.front().name, "packet_return_threshold");
  const auto at = [&](const char* name) {
    return std::find_if(rows.begin(), rows.end(),
                        [&](const attribute_row& r) { return r.name == name; });
  };
  EXPECT_LT(at("rdv_protocol"), at("npackets"));
  EXPECT_LT(at("npackets"), at("matching_engine_type"));
  EXPECT_LT(at("matching_engine_type"), at("sync_threshold"));
  EXPECT_LT(at("sync_threshold"), at("backend"));
  EXPECT_LT(at("backend"), at("net_max_sends"));
}

TEST_F(defaults_test, describe__does_not_throw_on_a_bad_variable) {
  vars_.set("LCI_ATTR_NPACKETS", "lots");
  EXPECT_NO_THROW(describe(global_attr_t()));
}

TEST_F(defaults_test, read__dead_and_misspelt_variables_are_warned_about) {
  vars_.set("LCI_SERVER_MAX_SENDS", "1");
  vars_.set("LCI_SERVER_SOMETHING", "1");
  vars_.set("LCI_PACKET_SIZE", "1");
  vars_.set("LCI_ATTR_NPACKET", "1");
  vars_.set("LCI_ATTR_OFI_LOCK_MODE", "1");
  vars_.set("LCI_ATTR_NPACKETS", "1");
  vars_.set("LCI_ATTR_USE_CUDA", "off");
  testing::internal::CaptureStderr();
  read_defaults();
  const std::string err = testing::internal::GetCapturedStderr();
  for (const char* text :
       {"LCI_SERVER_MAX_SENDS has no effect: set LCI_ATTR_NET_MAX_SENDS",
        "LCI_SERVER_SOMETHING has no effect", "LCI_PACKET_SIZE has no effect",
        "LCI_ATTR_NPACKET has no effect", "LCI_ATTR_OFI_LOCK_MODE has no effect: set LCI_NET"})
    EXPECT_NE(err.find(text), std::string::npos) << text << "\n" << err;
  EXPECT_EQ(err.find("LCI_ATTR_NPACKETS has no effect"), std::string::npos) << err;
  EXPECT_EQ(err.find("LCI_ATTR_USE_CUDA has no effect"), std::string::npos) << err;
}

}  // namespace
}  // namespace lci::runtime
