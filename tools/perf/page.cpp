#include "tools/perf/page.hpp"

#include "tools/perf/plot.hpp"

namespace lci_perf {

namespace {

constexpr const char* HEAD = R"(<!DOCTYPE html>
<html lang="en" xmlns="http://www.w3.org/1999/xhtml">
<head>
<meta charset="utf-8"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<title>lci_perf</title>
<style>
body { font-family: sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; color: #222; background: #fff; }
table { border-collapse: collapse; margin: 1em 0; }
th, td { text-align: left; padding: 0.2em 0.8em; border-bottom: 1px solid #ddd; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
tr.first td { border-top: 2px solid #888; }
.ahead { color: #006b4d; } .behind { color: #a33b00; } .note { color: #555; }
svg { max-width: 100%; height: auto; display: block; margin: 1em 0; border: 1px solid #ddd; }
</style>
</head>
<body>
<h1>How fast lci is on this machine</h1>
)";

constexpr const char* HOW_TO_READ =
    R"(<p>Every library is measured in turn in each round, by the same code, on the same
processors. <b>lci x 1.50</b> means that lci is 1.5 times better than the library of that row: the median of the ratios
of all rounds, with the quartiles in brackets. R is the time in which one cache line goes from one processor to the
other; nothing is faster. <i>raw</i> is no library: one line, or one copy, in memory that both processes have.</p>
<p><label><input type="checkbox" id="rivals" checked="checked"/> show the other libraries</label></p>
)";

// Hides rows; without it all of them show.
constexpr const char* SCRIPT = R"(<script>
document.getElementById("rivals").addEventListener("change", function () {
  var rows = document.querySelectorAll("tr.rival");
  for (var i = 0; i != rows.length; ++i) { rows[i].hidden = !this.checked; }
});
</script>
</body>
</html>
)";

std::string cell(const std::string& text, const char* kind = "number") {
  return "<td class=\"" + std::string(kind) + "\">" + escaped(text) + "</td>";
}

std::string line_of(const row& what, std::size_t index) {
  const entry& of = what.entries[index];
  const spread value = spread_of(of.values);
  std::string text = index == 0 ? "<tr class=\"first\">" : "<tr class=\"rival\">";
  text += cell(index == 0 ? row_text(what) : "", "") + cell(of.name, "");
  if (value.count == 0)
    return text + "<td colspan=\"3\" class=\"note\">" + escaped(of.why_not) + "</td></tr>\n";
  text += cell(number_text(value.median) + " " + what.unit());
  text += cell("[" + number_text(value.low) + ".." + number_text(value.high) + "]");
  const std::string compared = comparison_text(what, index);
  const spread points = points_over(what, index);
  const bool is_ahead =
      points.count > 0 ? points.median >= 0 : advantage_over(what, index).median >= 1;
  const char* const kind = of.name == "raw" || compared.empty() ? "note"
                           : is_ahead                           ? "ahead"
                                                                : "behind";
  return text + cell(compared, kind) + "</tr>\n";
}

std::string stage_section(const stage& one, const report& all) {
  std::string text = "<h2>" + escaped(stage_text(one, all)) + "</h2>\n";
  for (const std::string& line : {handover_text(one), one.note})
    if (!line.empty()) text += "<p class=\"note\">" + escaped(line) + "</p>\n";
  for (const std::string& plot : plots_of(one, all)) text += plot;
  text +=
      "<table>\n<tr><th>what</th><th>library</th><th>median</th><th>quartiles</th><th>lci "
      "is</th></tr>\n";
  const std::map<std::string, std::string> absent = absent_from(one);
  for (const row& what : one.rows)
    for (std::size_t i = 0; i < what.entries.size(); ++i)
      if (absent.count(what.entries[i].name) == 0) text += line_of(what, i);
  text += "</table>\n";
  for (const auto& [name, why] : absent)
    text += "<p class=\"note\">" + escaped(name + " not measured: " + why) + "</p>\n";
  return text;
}

}  // namespace

std::string page_of(const report& all) {
  std::string text = HEAD + ("<p>" + escaped(machine_text(all)) + "</p>\n<p class=\"behind\">" +
                             escaped(load_text(all)) + "</p>\n<ul>\n");
  for (const auto& [name, version] : all.versions)
    if (!version.empty()) text += "<li>" + escaped(name + ": " + version) + "</li>\n";
  text += std::string("</ul>\n") + HOW_TO_READ;
  for (const stage& one : all.stages) text += stage_section(one, all);
  return text + SCRIPT;
}

}  // namespace lci_perf
