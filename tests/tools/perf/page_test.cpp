// The page and its plots are well formed and need nothing from elsewhere.
#include "tools/perf/page.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/tools/perf/made_up.hpp"
#include "tools/perf/plot.hpp"

namespace lci_perf {
namespace {

// What is wrong with the nesting of elements and with entities; empty: nothing. Enough XML for what
// is written here: no comments, no CDATA.
std::string malformed(const std::string& text) {
  std::vector<std::string> open;
  for (std::size_t at = text.find('<'); at != std::string::npos; at = text.find('<', at + 1)) {
    const std::size_t end = text.find('>', at);
    if (end == std::string::npos) return "an element does not end";
    std::string inside = text.substr(at + 1, end - at - 1);
    if (inside.find('<') != std::string::npos) return "< in <" + inside;
    if (inside[0] == '!') continue;
    const std::string name = inside.substr(0, inside.find_first_of(" \n/", 1));
    if (inside[0] == '/') {
      if (open.empty() || "/" + open.back() != inside) return inside + " closes nothing";
      open.pop_back();
    } else if (inside.back() != '/') {
      open.push_back(name);
    }
  }
  for (std::size_t at = text.find('&'); at != std::string::npos; at = text.find('&', at + 1)) {
    const std::string entity = text.substr(at, text.find(';', at) - at + 1);
    if (entity.size() > 6 || entity.find(' ') != std::string::npos)
      return "a bare & before " + entity;
  }
  return open.empty() ? "" : open.back() + " is not closed";
}

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t found = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1))
    ++found;
  return found;
}

TEST(perf_page, malformed__fires) {
  EXPECT_EQ(malformed("<a><b/></a>"), "");
  EXPECT_NE(malformed("<a><b></a>"), "");
  EXPECT_NE(malformed("<a>"), "");
  EXPECT_NE(malformed("<a>x & y z</a>"), "");
}

TEST(perf_page, page_of__is_well_formed_and_alone) {
  const std::string text = page_of(made_up());
  EXPECT_EQ(malformed(text), "");
  EXPECT_EQ(count(text, "<svg "), 2u);  // bars, and bandwidth over four sizes
  EXPECT_EQ(count(text, "<tr class=\"first\">"), made_up().stages[0].rows.size());
  // A name of a kind of document is no address that is asked.
  EXPECT_EQ(count(text, "http"), count(text, "http://www.w3.org/"));
  for (const char* outside : {" src=", "<link", "@import", "url("})
    EXPECT_EQ(count(text, outside), 0u) << outside;
  EXPECT_EQ(count(text, "<script>"), 1u);
  EXPECT_NE(text.find("nccl not measured: no GPU"), std::string::npos);
  EXPECT_NE(text.find("Imagined &lt;9000&gt; &amp; &quot;Co&quot;"), std::string::npos);
}

TEST(perf_plot, bars_of__one_for_each_measured_rival_and_row) {
  const report all = made_up();
  const std::string text = bars_of(all.stages[0], all);
  EXPECT_EQ(malformed(text), "");
  EXPECT_EQ(count(text, "fill-opacity"), all.stages[0].rows.size());
  EXPECT_NE(text.find("ucx 2.00"), std::string::npos);
}

// All bars have one scale; one of 100 times is cut, and says so.
TEST(perf_plot, bars_of__what_does_not_fit_is_cut) {
  report all = made_up();
  EXPECT_EQ(count(bars_of(all.stages[0], all), "class=\"cut\""), 0u);
  all.stages[0].rows[0].entries[1].values = {10'000, 11'000, 9'000};
  const std::string text = bars_of(all.stages[0], all);
  EXPECT_EQ(malformed(text), "");
  EXPECT_EQ(count(text, "class=\"cut\""), 1u);
  EXPECT_NE(text.find("ucx 100<"), std::string::npos) << text;
  EXPECT_NE(text.find("width=\"440.0\""), std::string::npos) << text;  // 8 of 8
  EXPECT_NE(text.find("width=\"27.5\""), std::string::npos) << text;   // 0.5 of 8
}

TEST(perf_plot, bars_of__without_a_rival_there_are_none) {
  report all = made_up();
  for (row& what : all.stages[0].rows) what.entries.resize(1);
  EXPECT_EQ(bars_of(all.stages[0], all), "");
}

TEST(perf_plot, curves_of__one_for_each_library_from_three_sizes_on) {
  report all = made_up();
  const std::string text = curves_of(all.stages[0], measure::bandwidth, operation::sendrecv, all);
  EXPECT_EQ(malformed(text), "");
  EXPECT_EQ(count(text, "<polyline"), 2u);
  EXPECT_EQ(count(text, "<circle"), 8u);
  all.stages[0].rows.resize(3);
  EXPECT_EQ(curves_of(all.stages[0], measure::bandwidth, operation::sendrecv, all), "");
}

// 4 KiB are measured in ns and 64 KiB in us: the same speed is a straight line in one unit.
TEST(perf_plot, curves_of__one_unit_for_all_sizes) {
  report all = made_up();
  std::vector<row>& rows = all.stages[0].rows;
  rows.clear();
  const auto add = [&](std::uint64_t size, double value) {
    rows.push_back({measure::latency, operation::am, size, {{"lci", {value}, 1, 1, ""}}});
  };
  add(4096, 1000);
  add(16384, 4);
  add(65536, 16);
  const std::string text = curves_of(all.stages[0], measure::latency, operation::am, all);
  EXPECT_NE(text.find("latency, am, by size, us<"), std::string::npos) << text;
  EXPECT_NE(text.find("4 KiB: 1.00 us"), std::string::npos) << text;
  EXPECT_NE(text.find("64 KiB: 16.0 us"), std::string::npos) << text;
}

TEST(perf_plot, plots_of__nothing_measured_is_no_plot) {
  report all = made_up();
  for (row& what : all.stages[0].rows)
    for (entry& of : what.entries) of.values.clear();
  EXPECT_TRUE(plots_of(all.stages[0], all).empty());
  EXPECT_EQ(malformed(page_of(all)), "");
}

TEST(perf_plot, escaped__nothing_gets_out) {
  EXPECT_EQ(escaped("a<b>&\"'\x01"), "a&lt;b&gt;&amp;&quot;&#39; ");
}

}  // namespace
}  // namespace lci_perf
