// The defaults of all attributes: built in, then preset by the environment, then changed by the
// program. This reads the environment and reports where a value comes from.
//
// LCI_ATTR_<NAME> presets attribute <name>; only ofi_lock_mode has another variable,
// LCI_NET_LOCK_MODE. Callers: global initialization (once), lci_info.
// Threads: any, as for getenv(); no state of its own.
// Always true: a value that is malformed or out of range throws; nothing is half applied.
#pragma once

#include <string>
#include <vector>

#include "lci/attr.hpp"

namespace lci::runtime {

// The built-in defaults with the environment applied; an empty variable is a value for a text
// alone. Throws argument_error that names the variable, its value and what is accepted. Logs a
// warning for variables that look like lci's and have no effect: misspelt attributes and the names
// of version 1.
global_attr_t read_defaults(global_attr_t built_in = global_attr_t());

struct attribute_row {
  std::string name;        // of the attribute
  std::string value_text;  // as it would be written in the environment
  std::string source;      // "default", the variable's name, or "program"
};

// One row per attribute, in the order of global_attr_t.
std::vector<attribute_row> describe(const global_attr_t& attr);

// "LCI_ATTR_NPACKETS" for "npackets".
std::string variable_of(const std::string& attribute);

}  // namespace lci::runtime
