/// @file lci_config.hpp
/// The version and configuration macros alone, under the file name that programs of the interface
/// use; the preprocessor can test them before any other header of lci is included. `lci.hpp`
/// includes them too.
#ifndef LCI_CONFIG_ALONE_HPP
#define LCI_CONFIG_ALONE_HPP

#include "lci/version.hpp"

#endif  // LCI_CONFIG_ALONE_HPP
