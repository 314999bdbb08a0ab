// Tables, CSV, JSON, plots and the page, of made-up results.
#include "tools/perf/report_text.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/tools/perf/made_up.hpp"

namespace lci_perf {
namespace {

TEST(perf_report_text, table__ratios_reasons_and_lost_messages) {
  report all = made_up();
  all.stages[0].rows[0].entries[1].messages -= 3;
  const std::string text = table_of(all);
  EXPECT_NE(text.find("Imagined <9000> & \"Co\", 16 processors on 8 cores"), std::string::npos)
      << text;
  EXPECT_NE(text.find("R 55.0 ns before, 56.0 ns after\n"), std::string::npos) << text;
  EXPECT_NE(text.find("latency am 8 B, one way"), std::string::npos) << text;
  EXPECT_NE(text.find("lci x 2.00 [2.00..2.00]"), std::string::npos) << text;
  EXPECT_NE(text.find("LOST 3 messages"), std::string::npos) << text;
  EXPECT_NE(text.find("  nccl not measured: no GPU\n"), std::string::npos) << text;
  EXPECT_NE(text.find("lci x 0.500 [0.500..0.500]  behind"), std::string::npos) << text;
}

TEST(perf_report_text, handover__hyperthreads_that_a_hypervisor_hides_are_named) {
  stage one = made_up().stages[0];
  EXPECT_EQ(handover_text(one).find("hyperthreads"), std::string::npos);
  one.r_before_ns = one.r_after_ns = 30;
  EXPECT_NE(handover_text(one).find("hyperthreads"), std::string::npos);
  one.kind = "hyperthreads";
  EXPECT_EQ(handover_text(one).find("probably"), std::string::npos);
  one.r_before_ns = 0;  // one processor: there is no R
  EXPECT_EQ(handover_text(one), "");
}

TEST(perf_report_text, load__other_programs_are_named) {
  report all = made_up();
  EXPECT_EQ(load_text(all), "");
  all.here.load = 2.5;
  EXPECT_NE(table_of(all).find("load 2.50 before the start"), std::string::npos);
}

TEST(perf_report_text, json__is_json_and_has_every_value) {
  const nlohmann::json all = nlohmann::json::parse(json_of(made_up()));
  EXPECT_EQ(all["machine"]["model"], "Imagined <9000> & \"Co\"");
  const nlohmann::json& results = all["stages"][0]["rows"][0]["results"];
  EXPECT_EQ(results[1]["values"].size(), 3u);
  EXPECT_DOUBLE_EQ(results[1]["advantage"].get<double>(), 2);
  EXPECT_EQ(results[2]["why_not"], "no GPU");
  EXPECT_EQ(results[0]["messages"], results[0]["expected"]);
}

// The buffers are in GPU memory; what a handler gets is not.
TEST(perf_report_text, gpu_memory__active_messages_arrive_in_host_memory) {
  report all = made_up();
  const std::string exception = "am: into host memory";
  EXPECT_EQ(table_of(all).find(exception), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(json_of(all))["stages"][0]["rows"][1]["arrives_in"], "host");
  all.is_gpu = true;
  EXPECT_NE(table_of(all).find("GPU memory (" + exception + ")"), std::string::npos);
  const nlohmann::json parsed = nlohmann::json::parse(json_of(all));
  EXPECT_EQ(parsed["stages"][0]["rows"][0]["arrives_in"], "host");
  EXPECT_EQ(parsed["stages"][0]["rows"][1]["arrives_in"], "gpu");
  all.stages[0].rows.erase(all.stages[0].rows.begin());
  EXPECT_EQ(table_of(all).find(exception), std::string::npos);
}

TEST(perf_report_text, csv__every_line_has_every_column) {
  const std::string text = csv_of(made_up());
  const auto columns = [](const std::string& line) {
    return std::count(line.begin(), line.end(), ',');
  };
  std::size_t begin = 0, lines = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
    EXPECT_EQ(columns(text.substr(begin, end - begin)), 18) << text.substr(begin, end - begin);
    begin = end + 1;
    ++lines;
  }
  EXPECT_EQ(lines, 1 + 3 * made_up().stages[0].rows.size());
  EXPECT_NE(text.find("nccl,ns,,,,,,,,,55,56,\"no GPU\"\n"), std::string::npos) << text;
}

// One of the two hides nothing: a ratio would be infinite, and its round would be left out.
TEST(perf_report_text, overlap__is_compared_in_points) {
  report all = made_up();
  row& what = all.stages[0].rows[0];
  what.what = measure::overlap;
  what.entries[0].values = {50, 60, 70};
  what.entries[1].values = {0, 0, 0};
  EXPECT_NE(table_of(all).find("lci +60.0 points [+55.0..+65.0]\n"), std::string::npos)
      << table_of(all);
  EXPECT_NE(csv_of(all).find("ucx,%,0,0,0,3,300,,,,55,56,\n"), std::string::npos) << csv_of(all);
  EXPECT_NE(csv_of(all).find("lci,%,60,55,65,3,300,,,,55,56,\n"), std::string::npos);
  const nlohmann::json parsed = nlohmann::json::parse(json_of(all));
  const nlohmann::json& rival = parsed["stages"][0]["rows"][0]["results"][1];
  EXPECT_DOUBLE_EQ(rival["points"].get<double>(), 60);
  EXPECT_FALSE(rival.contains("advantage"));
  std::swap(what.entries[0].values, what.entries[1].values);
  EXPECT_NE(table_of(all).find("lci -60.0 points [-65.0..-55.0]  behind"), std::string::npos);
}

TEST(perf_report_text, json__what_is_no_utf8_does_not_break_it) {
  report all = made_up();
  all.versions["ucx"] = "caf\xe9 \xc3\xa9 \xed\xa0\x80 \xf0\x9f";
  const nlohmann::json parsed = nlohmann::json::parse(json_of(all));
  EXPECT_EQ(parsed["versions"]["ucx"], "caf? \xc3\xa9 ??? ??");
}

TEST(perf_report_text, number_text__three_digits_that_count) {
  EXPECT_EQ(number_text(0), "0");
  EXPECT_EQ(number_text(1234.5), "1234");
  EXPECT_EQ(number_text(12.345), "12.3");
  EXPECT_EQ(number_text(0.012345), "0.0123");
}

}  // namespace
}  // namespace lci_perf
