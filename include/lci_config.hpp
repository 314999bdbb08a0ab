/// @file lci_config.hpp
/// Version and configuration macros alone, under the name that programs of the interface know; the
/// preprocessor can ask them before anything else of lci is included. `lci.hpp` brings them too.
#ifndef LCI_CONFIG_ALONE_HPP
#define LCI_CONFIG_ALONE_HPP

#include "lci/version.hpp"

#endif  // LCI_CONFIG_ALONE_HPP
