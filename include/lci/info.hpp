/// @file info.hpp
/// What this library is and what it can do on this machine, as text for people.
#ifndef LCI_INFO_HPP
#define LCI_INFO_HPP

#include <string>

#include "lci/export.hpp"

namespace lci {

/// Version, build, every backend with `usable` or the sentence why not, and how processes would
/// find each other; with `verbose` also every attribute with its value and where that came from,
/// and the options of the build. Works without global_initialize().
/// @throws lci::argument_error  an environment variable has a value that is not understood
/// Threads: any, while nobody changes the environment.
LCI_PUBLIC std::string get_info(bool verbose);

}  // namespace lci

#endif  // LCI_INFO_HPP
