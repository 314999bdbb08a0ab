#include "tools/perf/report_text.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace lci_perf {

namespace {

// Below it two processors share a core, whatever a hypervisor says; cores of one cache take longer.
constexpr double HYPERTHREADS_NS = 38;

// Bytes of the UTF-8 character at `at`; 0: there is none.
std::size_t character_at(const std::string& text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(at);
  if (first < 0x80) return 1;
  const std::size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || at + bytes > text.size()) return 0;
  for (std::size_t i = 1; i < bytes; ++i)
    if ((byte(at + i) & 0xc0) != 0x80) return 0;
  // Too long for its number, half of a pair, or beyond the last one.
  const unsigned second = byte(at + 1);
  if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
      (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f))
    return 0;
  return bytes;
}

std::string as_utf8(const std::string& text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t bytes = character_at(text, at);
    out += bytes == 0 ? "?" : text.substr(at, bytes);
    at += std::max<std::size_t>(bytes, 1);
  }
  return out;
}

// What a library says may be in any encoding; JSON is UTF-8.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : as_utf8(text)) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(c));
      out += code;
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string plain_number(double value) {
  if (!std::isfinite(value)) return "null";
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

std::string padded(const std::string& text, int width) {
  const int missing = std::abs(width) - static_cast<int>(text.size());
  const std::string space(static_cast<std::size_t>(std::max(missing, 0)), ' ');
  return width < 0 ? text + space : space + text;
}

std::string entry_text(const row& one, std::size_t index) {
  const entry& of = one.entries[index];
  const spread all = spread_of(of.values);
  if (!of.why_not.empty() || all.count == 0) return "";
  std::string text = "    " + padded(of.name, -10) + padded(number_text(all.median), 8) + " " +
                     padded(one.unit(), -4) + " [" + number_text(all.low) + ".." +
                     number_text(all.high) + "]";
  if (const std::string compared = comparison_text(one, index); !compared.empty())
    text = padded(text, -46) + " " + compared +
           (is_behind(one, index) && of.name != "raw" ? "  behind" : "");
  if (of.messages != of.expected)
    text +=
        "  LOST " +
        std::to_string(static_cast<long long>(of.expected) - static_cast<long long>(of.messages)) +
        " messages";
  return text + "\n";
}

// lci puts active messages into its packets and memory of its allocator, wherever they start.
bool arrives_in_host(const row& what) { return what.op == operation::am; }

}  // namespace

std::string number_text(double value) {
  if (value == 0) return "0";
  const int digits = static_cast<int>(std::floor(std::log10(std::fabs(value))));
  char text[32];
  std::snprintf(text, sizeof text, "%.*f", std::clamp(2 - digits, 0, 6), value);
  return text;
}

std::string row_text(const row& one) {
  return std::string(name_of(one.what)) + " " + name_of(one.op) + " " + size_text(one.size);
}

std::string machine_text(const report& all) {
  return all.here.model + ", " + std::to_string(all.cpus) + " processors on " +
         std::to_string(all.cores) + " cores" +
         (all.here.is_virtual ? " (as a virtual machine shows them)" : "") + ", " + all.here.system;
}

std::string load_text(const report& all) {
  // What the kernel itself does stays below.
  if (all.here.load < 1) return "";
  return "load " + number_text(all.here.load) +
         " before the start: other programs were running, or one that ended in the minute before, "
         "as a run of lci_perf; only an idle machine gives numbers that mean something";
}

std::string stage_text(const stage& one, const report& all) {
  std::string text = one.place + ", " + std::to_string(one.processes.pairs) +
                     (one.processes.pairs == 1 ? " pair of " : " pairs of ");
  text += all.is_threads ? "threads" : "processes";
  if (all.is_threads) text += all.is_shared ? ", one device for all" : ", each with a device";
  if (all.is_gpu) text += ", GPU memory";
  if (std::any_of(one.rows.begin(), one.rows.end(),
                  [&](const row& what) { return all.is_gpu && arrives_in_host(what); }))
    text += " (am: into host memory)";
  if (!one.transport.empty()) text += ", lci over " + one.transport;
  return text;
}

std::string handover_text(const stage& one) {
  if (one.r_before_ns <= 0) return "";
  std::string text = "R " + number_text(one.r_before_ns) + " ns before, " +
                     number_text(one.r_after_ns) + " ns after";
  if (one.kind != name_of(placement::hyperthreads) &&
      std::max(one.r_before_ns, one.r_after_ns) < HYPERTHREADS_NS)
    text +=
        ": as fast as hyperthreads of one core, so they probably are, and the hypervisor hides it";
  return text;
}

spread advantage_over(const row& one, std::size_t index) {
  if (one.what == measure::overlap) return {};
  return advantage(one.entries[0].values, one.entries[index].values, one.less_is_better());
}

spread points_over(const row& one, std::size_t index) {
  if (one.what != measure::overlap) return {};
  return difference(one.entries[0].values, one.entries[index].values);
}

std::string comparison_text(const row& one, std::size_t index) {
  if (index == 0) return "";
  const auto signed_text = [](double value) { return (value > 0 ? "+" : "") + number_text(value); };
  if (const spread points = points_over(one, index); points.count > 0)
    return "lci " + signed_text(points.median) + " points [" + signed_text(points.low) + ".." +
           signed_text(points.high) + "]";
  const spread ratio = advantage_over(one, index);
  if (ratio.count == 0) return "";
  return "lci x " + number_text(ratio.median) + " [" + number_text(ratio.low) + ".." +
         number_text(ratio.high) + "]";
}

bool is_behind(const row& one, std::size_t index) {
  const spread points = points_over(one, index), ratio = advantage_over(one, index);
  return points.count > 0 ? points.high < 0 : ratio.count > 0 && ratio.high < 1;
}

std::map<std::string, std::string> absent_from(const stage& one) {
  std::map<std::string, std::string> absent;
  for (const row& what : one.rows)
    for (const entry& of : what.entries)
      if (!of.why_not.empty()) absent.emplace(of.name, of.why_not);
  for (const row& what : one.rows)
    for (const entry& of : what.entries)
      if (!of.values.empty()) absent.erase(of.name);
  return absent;
}

std::string table_of(const report& all) {
  std::string text = machine_text(all) + "\n";
  if (const std::string load = load_text(all); !load.empty()) text += "  " + load + "\n";
  for (const auto& [name, version] : all.versions)
    if (!version.empty() && name != "raw") text += "  " + padded(name, -10) + version + "\n";
  for (const stage& one : all.stages) {
    text += "\n" + stage_text(one, all) + "\n";
    if (const std::string r = handover_text(one); !r.empty()) text += "  " + r + "\n";
    if (!one.note.empty()) text += "  " + one.note + "\n";
    const std::map<std::string, std::string> absent = absent_from(one);
    for (const row& what : one.rows) {
      text += "  " + row_text(what) +
              (what.what == measure::latency
                   ? what.op == operation::get ? ", there and back" : ", one way"
                   : "") +
              "\n";
      for (std::size_t i = 0; i < what.entries.size(); ++i) {
        text += entry_text(what, i);
        if (const entry& of = what.entries[i]; !of.why_not.empty() && absent.count(of.name) == 0)
          text += "    " + padded(of.name, -10) + " not measured: " + of.why_not + "\n";
      }
    }
    for (const auto& [name, why] : absent) text += "  " + name + " not measured: " + why + "\n";
  }
  return text;
}

namespace {

std::string csv_quoted(const std::string& text) {
  if (text.empty()) return "";
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c == '\n' || c == '\r' ? ' ' : c;
  }
  return out + "\"";
}

// Fields of what was not measured or cannot be compared are empty.
std::string csv_fields(const spread& of) {
  if (of.count == 0) return ",,,";
  return "," + plain_number(of.median) + "," + plain_number(of.low) + "," + plain_number(of.high);
}

std::string csv_line(const stage& one, const row& what, std::size_t index) {
  const entry& of = what.entries[index];
  const spread value = spread_of(of.values);
  // lci against itself is 1 times, where there are ratios at all.
  const bool is_one = index == 0 && value.count > 0 && what.what != measure::overlap;
  const spread ratio = is_one ? spread{1, 1, 1, value.count} : advantage_over(what, index);
  std::string text = one.kind + "," + one.transport + "," + std::to_string(one.processes.pairs) +
                     "," + name_of(what.what) + "," + name_of(what.op) + "," +
                     std::to_string(what.size) + "," + of.name + "," + what.unit() +
                     csv_fields(value) + ",";
  if (value.count > 0) text += std::to_string(value.count);
  text += "," + (value.count > 0 ? std::to_string(of.messages) : "") + csv_fields(ratio);
  for (const double number : {one.r_before_ns, one.r_after_ns}) text += "," + plain_number(number);
  return text + "," + csv_quoted(of.why_not) + "\n";
}

}  // namespace

std::string csv_of(const report& all) {
  std::string text =
      "place,transport,pairs,measure,operation,bytes,library,unit,median,low,high,rounds,"
      "messages,advantage,advantage_low,advantage_high,r_before_ns,r_after_ns,why_not\n";
  for (const stage& one : all.stages) {
    for (const row& what : one.rows) {
      for (std::size_t i = 0; i < what.entries.size(); ++i) text += csv_line(one, what, i);
    }
  }
  return text;
}

namespace {

std::string json_entry(const row& what, std::size_t index) {
  const entry& of = what.entries[index];
  const spread value = spread_of(of.values);
  std::string text = "{\"library\": " + quoted(of.name);
  if (value.count == 0) return text + ", \"why_not\": " + quoted(of.why_not) + "}";
  text += ", \"median\": " + plain_number(value.median) + ", \"low\": " + plain_number(value.low) +
          ", \"high\": " + plain_number(value.high) +
          ", \"messages\": " + std::to_string(of.messages) +
          ", \"expected\": " + std::to_string(of.expected);
  if (const spread points = points_over(what, index); index > 0 && points.count > 0)
    text += ", \"points\": " + plain_number(points.median) +
            ", \"points_low\": " + plain_number(points.low) +
            ", \"points_high\": " + plain_number(points.high);
  if (const spread ratio = advantage_over(what, index); index > 0 && ratio.count > 0)
    text += ", \"advantage\": " + plain_number(ratio.median) +
            ", \"advantage_low\": " + plain_number(ratio.low) +
            ", \"advantage_high\": " + plain_number(ratio.high);
  text += ", \"values\": [";
  for (std::size_t i = 0; i < of.values.size(); ++i)
    text += (i > 0 ? ", " : "") + plain_number(of.values[i]);
  return text + "]}";
}

}  // namespace

std::string json_of(const report& all) {
  std::string text = "{\"machine\": {\"model\": " + quoted(all.here.model) +
                     ", \"system\": " + quoted(all.here.system) +
                     ", \"is_virtual\": " + (all.here.is_virtual ? "true" : "false") +
                     ", \"processors\": " + std::to_string(all.cpus) +
                     ", \"cores\": " + std::to_string(all.cores) +
                     "},\n \"threads\": " + (all.is_threads ? "true" : "false") +
                     ", \"shared_device\": " + (all.is_shared ? "true" : "false") +
                     ", \"memory\": \"" + (all.is_gpu ? "gpu" : "host") +
                     "\", \"rounds\": " + std::to_string(all.rounds) + ",\n \"versions\": {";
  const char* comma = "";
  for (const auto& [name, version] : all.versions) {
    text += comma + quoted(name) + ": " + quoted(version);
    comma = ", ";
  }
  text += "},\n \"stages\": [";
  comma = "";
  for (const stage& one : all.stages) {
    text += std::string(comma) + "\n  {\"place\": " + quoted(one.kind) +
            ", \"description\": " + quoted(one.place) +
            ", \"transport\": " + quoted(one.transport) +
            ", \"pairs\": " + std::to_string(one.processes.pairs) +
            ", \"r_before_ns\": " + plain_number(one.r_before_ns) +
            ", \"r_after_ns\": " + plain_number(one.r_after_ns) +
            ", \"note\": " + quoted(one.note) + ", \"rows\": [";
    comma = "";
    for (const row& what : one.rows) {
      text += std::string(comma) + "\n   {\"measure\": \"" + name_of(what.what) +
              "\", \"operation\": \"" + name_of(what.op) +
              "\", \"bytes\": " + std::to_string(what.size) + ", \"unit\": \"" + what.unit() +
              "\", \"arrives_in\": \"" + (all.is_gpu && !arrives_in_host(what) ? "gpu" : "host") +
              "\", \"results\": [";
      for (std::size_t i = 0; i < what.entries.size(); ++i)
        text += (i > 0 ? ",\n     " : "\n     ") + json_entry(what, i);
      text += "]}";
      comma = ",";
    }
    text += "]}";
    comma = ",";
  }
  return text + "]}\n";
}

}  // namespace lci_perf
