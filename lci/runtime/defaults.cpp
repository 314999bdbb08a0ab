#include "lci/runtime/defaults.hpp"

#include <unistd.h>

#include <set>
#include <string_view>
#include <type_traits>

#include "lci/base/env.hpp"
#include "lci/base/log.hpp"
#include "lci/errors.hpp"
#include "lci/mem/memory_domain.hpp"
#include "lci/runtime/attribute_text.hpp"

namespace lci::runtime {

namespace {

constexpr std::string_view PREFIX = "LCI_ATTR_";

// Reads one variable per attribute it visits.
struct reader {
  std::set<std::string> known;  // variables that have a meaning
  template <class T>
  void operator()(const char* attribute, T& member) {
    const std::string variable = variable_of(attribute);
    known.insert(variable);
    // An empty text is one too: a build may have another default.
    const auto text = std::is_same_v<T, std::string> ? base::env::find_text(variable.c_str())
                                                     : base::env::find(variable.c_str());
    if (text) parse(variable, attribute, *text, member);
  }
};

// Records each attribute it visits.
struct describer {
  std::vector<attribute_row> rows;
  template <class T>
  void operator()(const char* attribute, T& member) {
    rows.push_back(attribute_row{attribute, text_of(attribute, member), ""});
  }
};

std::vector<attribute_row> rows_of(global_attr_t attr) {
  describer d;
  attr.for_each(d);
  return std::move(d.rows);
}

// Checks what one attribute's range cannot express.
void check_together(const global_attr_t& attr) {
  if (attr.imm_nbits_tag + attr.imm_nbits_rcomp > 31) {
    throw argument_error("LCI_ATTR_IMM_NBITS_TAG and LCI_ATTR_IMM_NBITS_RCOMP give " +
                         std::to_string(attr.imm_nbits_tag) + " and " +
                         std::to_string(attr.imm_nbits_rcomp) + ": expected a sum of at most 31");
  }
  if (attr.shm_slot_size % LCI_CACHE_LINE != 0) {
    throw argument_error("LCI_ATTR_SHM_SLOT_SIZE is " + std::to_string(attr.shm_slot_size) +
                         ": expected a multiple of " + std::to_string(LCI_CACHE_LINE));
  }
}

// The log falls back to a default when it is first used; set-up throws.
void check_log_level() {
  const auto text = base::env::find("LCI_LOG_LEVEL");
  if (!text || log::find_level(log::level_names(), *text) >= 0) return;
  throw argument_error("LCI_LOG_LEVEL is \"" + std::string(*text) +
                       "\": expected error, warn, status, info, debug or trace");
}

// Variables of version 1 that manuals still name, and those that replace them.
struct dead_variable {
  std::string_view name, now;
};
constexpr dead_variable DEAD[] = {
    {"LCI_SERVER_MAX_SENDS", "LCI_ATTR_NET_MAX_SENDS"},
    {"LCI_SERVER_MAX_RECVS", "LCI_ATTR_NET_MAX_RECVS"},
    {"LCI_SERVER_MAX_CQES", "LCI_ATTR_NET_MAX_CQES"},
    {"LCI_SERVER_NUM_PKTS", "LCI_ATTR_NPACKETS"},
    {"LCI_PACKET_SIZE", "LCI_ATTR_PACKET_SIZE"},
    {"LCI_MAX_SINGLE_MESSAGE_SIZE", "LCI_ATTR_MAX_MSG_SIZE"},
    {"LCI_RDV_PROTOCOL", "LCI_ATTR_RDV_PROTOCOL"},
    {"LCI_OFI_PROVIDER_HINT", "LCI_ATTR_OFI_PROVIDER_NAME"},
    {"LCI_ATTR_OFI_LOCK_MODE", "LCI_NET_LOCK_MODE"},
};

void warn_about(const std::string& name, const std::set<std::string>& known) {
  for (const dead_variable& d : DEAD) {
    if (name != d.name) continue;
    log::warn("defaults", "%s has no effect: set %s", name.c_str(), std::string(d.now).c_str());
    return;
  }
  if (name.starts_with("LCI_SERVER_"))
    log::warn("defaults", "%s has no effect: it belongs to version 1", name.c_str());
  else if (name.starts_with(PREFIX) && known.count(name) == 0)
    log::warn("defaults", "%s has no effect: no attribute has this name", name.c_str());
}

void warn_about_dead_variables(const std::set<std::string>& known) {
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (equals != std::string_view::npos) warn_about(std::string(text.substr(0, equals)), known);
  }
}

}  // namespace

std::string variable_of(const std::string& attribute) {
  if (attribute == "ofi_lock_mode") return "LCI_NET_LOCK_MODE";
  std::string variable(PREFIX);
  for (const char c : attribute)
    variable += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return variable;
}

global_attr_t read_defaults(global_attr_t built_in) {
  check_log_level();
  global_attr_t attr = std::move(built_in);
  reader r;
  attr.for_each(r);
  check_together(attr);
  for (const mem::memory_domain& domain : mem::memory_domains())
    r.known.insert(std::string(domain.variable));
  warn_about_dead_variables(r.known);
  return attr;
}

std::vector<attribute_row> describe(const global_attr_t& attr) {
  std::vector<attribute_row> rows = rows_of(attr);
  const std::vector<attribute_row> built_in = rows_of(global_attr_t());
  global_attr_t preset;
  try {
    reader r;
    preset.for_each(r);
  } catch (const argument_error&) {
    // Nothing was applied at start either.
  }
  // The source of a value is derived, not stored: a program may change the defaults at any time,
  // and a value that equals the variable's is as good as read from it.
  const std::vector<attribute_row> from_environment = rows_of(preset);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string variable = variable_of(rows[i].name);
    const std::string& value = rows[i].value_text;
    // Only texts can be empty.
    const auto text = base::env::find_text(variable.c_str());
    if (text && text->empty() == value.empty() && value == from_environment[i].value_text)
      rows[i].source = variable;
    else
      rows[i].source = value == built_in[i].value_text ? "default" : "program";
  }
  return rows;
}

}  // namespace lci::runtime
