// Every attribute away from its default, as a program's user may have set it.
#pragma once

#include <string>

#include "lci.hpp"

namespace interface_test {

// Into the environment, before the library reads it.
void set_attributes_away();

// Names of those that have their built-in value all the same, or that nobody has thought of.
std::string near_attributes();

}  // namespace interface_test
