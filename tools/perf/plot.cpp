#include "tools/perf/plot.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

namespace lci_perf {

namespace {

// Readable on white and on a dark ground, and by those who see fewer colours (Okabe and Ito).
constexpr const char* COLOURS[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                   "#e69f00", "#56b4e9", "#999999"};
constexpr double WIDTH = 760, LEFT = 200, RIGHT = 30, TOP = 64;
constexpr std::size_t LEAST_SIZES = 3;  // of a curve

const char* colour_of(std::size_t index) { return COLOURS[index % std::size(COLOURS)]; }

std::string at(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", std::isfinite(value) ? value : 0.0);
  return text;
}

std::string text_at(double x, double y, const std::string& text, const char* anchor = "start",
                    const char* more = "") {
  return "<text x=\"" + at(x) + "\" y=\"" + at(y) + "\" text-anchor=\"" + anchor + "\"" + more +
         ">" + escaped(text) + "</text>\n";
}

std::string line_at(double x1, double y1, double x2, double y2, const char* colour,
                    const char* more = "") {
  return "<line x1=\"" + at(x1) + "\" y1=\"" + at(y1) + "\" x2=\"" + at(x2) + "\" y2=\"" + at(y2) +
         "\" stroke=\"" + colour + "\"" + more + "/>\n";
}

// A picture with a title and the machine's name, on a ground of its own.
std::string picture(double height, const std::string& title, const std::string& below,
                    const std::string& body) {
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + at(WIDTH) + " " + at(height) +
         "\" width=\"" + at(WIDTH) + "\" height=\"" + at(height) +
         "\" role=\"img\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#222\">\n<title>" +
         escaped(title) + "</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n" +
         text_at(12, 22, title, "start", " font-size=\"15\" font-weight=\"bold\"") +
         text_at(12, 40, below, "start", " fill=\"#555\" font-size=\"11\"") + body + "</svg>\n";
}

std::string subtitle(const stage& one, const report& all) {
  std::string text = all.here.model + ", " + stage_text(one, all);
  if (one.r_before_ns > 0) text += ", R " + number_text(one.r_before_ns) + " ns";
  return text;
}

// Rivals alone: raw copies are no library, but what the machine can do.
bool is_bar(const row& what, std::size_t index) {
  return what.entries[index].name != "raw" && advantage_over(what, index).count > 0;
}

// One scale for all bars; what goes beyond `most` is cut there, which a gap shows.
struct ruler {
  double most;
  double one() const { return (WIDTH - LEFT - RIGHT - 90) / most; }
  double x(double ratio) const { return LEFT + std::clamp(ratio, 0.0, most) * one(); }
};

std::string bar(const row& what, std::size_t index, double y, const ruler& by) {
  const spread ratio = advantage_over(what, index);
  const double end = by.x(ratio.median);
  const std::string name = what.entries[index].name, value = number_text(ratio.median);
  std::string text = "<rect x=\"" + at(LEFT) + "\" y=\"" + at(y) + "\" width=\"" + at(end - LEFT) +
                     "\" height=\"12\" fill=\"" + colour_of(index) + "\" fill-opacity=\"" +
                     (ratio.median < 1 ? "0.55" : "0.9") + "\"><title>" +
                     escaped(row_text(what) + ": " + value + " times " + name + ", quartiles " +
                             number_text(ratio.low) + " to " + number_text(ratio.high)) +
                     "</title></rect>\n" +
                     line_at(by.x(ratio.low), y + 6, by.x(ratio.high), y + 6, "#222");
  if (ratio.median > by.most)
    text += line_at(end - 14, y + 14, end - 8, y - 2, "#fff", " stroke-width=\"4\" class=\"cut\"");
  return text + text_at(std::max(end, by.x(ratio.high)) + 4, y + 10, name + " " + value, "start",
                        " font-size=\"10\"");
}

// 8 B at 0, one for each doubling.
double doublings(double value) { return std::log2(std::max(value, 1e-9)); }

struct frame {
  double low_x, high_x, low_y, high_y;  // in doublings
  double height;
  double x(double value) const {
    return 60 + (doublings(value) - low_x) / std::max(high_x - low_x, 1e-9) * (WIDTH - 60 - RIGHT);
  }
  double y(double value) const {
    return TOP + (high_y - doublings(value)) / std::max(high_y - low_y, 1e-9) * height;
  }
};

using rows_by_size = std::vector<const row*>;

// All sizes in one unit, that of the largest: a row's own may be ns, and that of a later one us.
double median_in(const rows_by_size& rows, const row& one, const entry& of) {
  const spread all = spread_of(of.values);
  if (all.count == 0) return 0;
  const std::string from = one.unit(), to = rows.back()->unit();
  if (from == to) return all.median;
  return from == "ns" ? all.median / 1e3 : all.median * 1e3;
}

frame frame_of(const rows_by_size& rows) {
  double low = 1e30, high = 1e-30;
  for (const row* one : rows) {
    for (const entry& of : one->entries) {
      const double median = median_in(rows, *one, of);
      if (median <= 0) continue;
      low = std::min(low, median);
      high = std::max(high, median);
    }
  }
  return {doublings(static_cast<double>(rows.front()->size)),
          doublings(static_cast<double>(rows.back()->size)), std::floor(doublings(low)),
          std::ceil(doublings(high)), 260};
}

std::string grid(const frame& in, const rows_by_size& rows) {
  std::string body;
  for (double power = in.low_y; power <= in.high_y; ++power) {
    const double value = std::exp2(power);
    body += line_at(60, in.y(value), WIDTH - RIGHT, in.y(value), "#ddd") +
            text_at(54, in.y(value) + 4, number_text(value), "end");
  }
  const std::size_t step = rows.size() > 9 ? 2 : 1;
  for (std::size_t i = 0; i < rows.size(); i += step) {
    body += text_at(in.x(static_cast<double>(rows[i]->size)), TOP + in.height + 18,
                    size_text(rows[i]->size), "middle", " font-size=\"10\"");
  }
  return body;
}

std::string curve(const frame& in, const rows_by_size& rows, std::size_t index) {
  std::string points, marks;
  for (const row* one : rows) {
    const entry& of = one->entries[index];
    const double median = median_in(rows, *one, of);
    if (median <= 0) continue;
    const double x = in.x(static_cast<double>(one->size)), y = in.y(median);
    points += at(x) + "," + at(y) + " ";
    marks += "<circle cx=\"" + at(x) + "\" cy=\"" + at(y) + "\" r=\"3\" fill=\"" +
             colour_of(index) + "\"><title>" +
             escaped(of.name + ", " + size_text(one->size) + ": " + number_text(median) + " " +
                     rows.back()->unit()) +
             "</title></circle>\n";
  }
  if (points.empty()) return "";
  const char* const dashes = rows.front()->entries[index].name == "raw" ? "4 4" : "none";
  return "<polyline fill=\"none\" stroke=\"" + std::string(colour_of(index)) +
         "\" stroke-width=\"" + (index == 0 ? "3" : "1.5") + "\" stroke-dasharray=\"" + dashes +
         "\" points=\"" + points + "\"/>\n" + marks;
}

std::string legend(const rows_by_size& rows, double y) {
  std::string body;
  double x = 60;
  const std::vector<entry>& entries = rows.front()->entries;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (curve(frame_of(rows), rows, i).empty()) continue;
    body += line_at(x, y - 4, x + 18, y - 4, colour_of(i), " stroke-width=\"3\"") +
            text_at(x + 23, y, entries[i].name);
    x += 40 + 8 * static_cast<double>(entries[i].name.size());
  }
  return body;
}

}  // namespace

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return out;
}

std::string bars_of(const stage& one, const report& all) {
  double most = 1.2, y = TOP;
  for (const row& what : one.rows)
    for (std::size_t i = 1; i < what.entries.size(); ++i)
      if (is_bar(what, i)) most = std::max(most, advantage_over(what, i).high);
  // A single outlier must not make all others invisible.
  const ruler by{std::min(most, 8.0)};
  std::string body;
  for (const row& what : one.rows) {
    const double first = y;
    for (std::size_t i = 1; i < what.entries.size(); ++i) {
      if (!is_bar(what, i)) continue;
      body += bar(what, i, y, by);
      y += 15;
    }
    if (y > first) body += text_at(LEFT - 8, first + 10, row_text(what), "end");
    if (y > first) y += 9;
  }
  if (y == TOP) return "";
  body += line_at(by.x(1), TOP - 8, by.x(1), y, "#000", " stroke-dasharray=\"3 3\"") +
          text_at(by.x(1), TOP - 11, "as fast as lci", "middle", " font-size=\"10\"");
  return picture(y + 12, "How many times better lci is; longer is better", subtitle(one, all),
                 body);
}

std::string curves_of(const stage& one, measure what, operation op, const report& all) {
  rows_by_size rows;
  bool has_values = false;
  for (const row& of : one.rows) {
    if (of.what != what || of.op != op) continue;
    rows.push_back(&of);
    for (const entry& by : of.entries) has_values = has_values || !by.values.empty();
  }
  std::sort(rows.begin(), rows.end(), [](const row* a, const row* b) { return a->size < b->size; });
  if (rows.size() < LEAST_SIZES || !has_values) return "";
  const frame in = frame_of(rows);
  std::string body = grid(in, rows);
  for (std::size_t i = rows.front()->entries.size(); i-- > 0;) body += curve(in, rows, i);
  body += legend(rows, TOP + in.height + 42);
  return picture(
      TOP + in.height + 56,
      std::string(name_of(what)) + ", " + name_of(op) + ", by size, " + rows.back()->unit(),
      subtitle(one, all), body);
}

std::vector<std::string> plots_of(const stage& one, const report& all) {
  std::vector<std::string> plots;
  std::set<std::pair<measure, operation>> kinds;
  for (const row& what : one.rows) {
    if (!kinds.emplace(what.what, what.op).second) continue;
    plots.push_back(curves_of(one, what.what, what.op, all));
  }
  // Bars say it in one look, unless there are too many of them.
  plots.insert(one.rows.size() <= 16 ? plots.begin() : plots.end(), bars_of(one, all));
  plots.erase(std::remove(plots.begin(), plots.end(), ""), plots.end());
  return plots;
}

}  // namespace lci_perf
