// A program of two files links (nothing is defined twice), sees one set of variables and equal
// constants in both, and gets at defaults and names before anything is initialised.
#include <cstdio>

#include "two_units.hpp"

static int failures = 0;

static void expect(bool holds, const char* what) {
  if (!holds) {
    std::fprintf(stderr, "failed: %s\n", what);
    ++failures;
  }
}

int main() {
  const seen_by_other_file other = look_from_other_file();
  expect(other.default_name == &lci::DEFAULT_NAME, "one DEFAULT_NAME");
  expect(other.defaults == &lci::g_default_attr, "one g_default_attr");
  expect(other.comp_null_retry == lci::COMP_NULL_RETRY, "COMP_NULL_RETRY is equal in both files");
  expect(other.mr_unknown == lci::MR_UNKNOWN, "MR_UNKNOWN is equal in both files");
  expect(other.graph_end == lci::GRAPH_END, "GRAPH_END is equal in both files");
  expect(std::strcmp(lci::DEFAULT_NAME, "unnamed") == 0, "text of DEFAULT_NAME");

  const lci::global_attr_t attr = lci::get_g_default_attr();
  expect(attr.sync_threshold == 1 && attr.npackets == LCI_PACKET_NUM_DEFAULT,
         "defaults before initialisation");
  expect(attr.matching_engine_type == lci::attr_matching_engine_type_t::map,
         "map engine by default");
  expect(lci::get_rank_me() == -1 && lci::get_rank_n() == -1, "no rank before initialisation");
  expect(std::strcmp(lci::get_errorcode_str(lci::errorcode_t::retry_nomem), "retry_nomem") == 0,
         "code name");

  expect(lci::COMP_NULL.is_empty() && lci::COMP_NULL_RETRY.is_empty(),
         "null completions are empty");
  expect(!lci::comp_t(&failures).is_empty(), "any other completion is not");
  expect(lci::MR_HOST.is_empty() && lci::MR_DEVICE.is_empty() && lci::MR_UNKNOWN.is_empty(),
         "null regions are empty");
  expect(lci::RMR_NULL.is_empty(), "null remote region is empty");

  bool thrown = false;
  try {
    lci::device_t().get_impl();
  } catch (const std::runtime_error& e) {
    thrown = std::strstr(e.what(), "device") != nullptr;
  }
  expect(thrown, "an empty handle throws and names its type");
  thrown = false;
  try {
    (void)lci::comp_t().get_attr_comp_type();
  } catch (const std::runtime_error&) {
    thrown = true;
  }
  expect(thrown, "attributes of an empty handle throw, across the library's edge");
  try {
    throw_from_other_file(3);
  } catch (const std::runtime_error& e) {
    const lci::peer_failure_error* failure = dynamic_cast<const lci::peer_failure_error*>(&e);
    expect(failure != nullptr && failure->failed_rank() == 3, "a failure carries its rank");
  }
  if (failures == 0) std::puts("two_units: ok");
  return failures == 0 ? 0 : 1;
}
