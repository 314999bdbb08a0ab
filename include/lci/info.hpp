/// @file info.hpp
/// What this library is and what it can do on this machine, as text for people and as data for
/// programs.
#ifndef LCI_INFO_HPP
#define LCI_INFO_HPP

#include <string>
#include <vector>

#include "lci/export.hpp"

namespace lci {

/// Something and, where it cannot be used, why.
struct info_choice_t {
  std::string name;     ///< as environment variables spell it
  std::string why_not;  ///< empty: usable; else one sentence
};

/// One card of a network, or one port of it.
struct info_card_t {
  std::string name;                    ///< as device_name takes it
  std::string what;                    ///< its state, speed and address
  bool is_chosen = false;              ///< a process started here would use it
  std::string why;                     ///< it is chosen, or not
  std::vector<int> near_cores;         ///< cores next to it, ascending; empty: not known, or all
  std::vector<std::string> near_gpus;  ///< the nearest GPUs, by name; empty: none, or not known
};

/// A network that this library was built for.
struct info_backend_t : info_choice_t {
  std::string place;               ///< it reaches processes at this place only; empty: any
  std::vector<info_card_t> cards;  ///< usable or not
};

/// A GPU.
struct info_gpu_t {
  std::string name;                 ///< "GPU 0"
  std::string what;                 ///< model and address, or why it cannot be used
  std::vector<int> near_cores;      ///< cores next to it, ascending; empty: not known, or all
  std::vector<info_choice_t> ways;  ///< that its memory can take
};

/// A kind of accelerator.
struct info_accelerator_t : info_choice_t {
  std::vector<info_gpu_t> gpus;  ///< empty where it cannot be used
};

/// The value that an attribute has by default in this process.
struct info_attribute_t {
  std::string name;    ///< as in global_attr_t
  std::string value;   ///< as the environment would say it
  std::string source;  ///< "default", the name of a variable, or "program"
};

/// All of it.
struct info_t {
  std::string version;                           ///< "2.0.0"
  std::string full_version;                      ///< with what it was built from
  std::string built;                             ///< when
  std::string host;                              ///< name of this machine
  std::vector<int> cores;                        ///< that this thread may run on, ascending
  std::vector<info_backend_t> backends;          ///< in order of preference
  std::vector<info_choice_t> bootstraps;         ///< in the order in which they are tried
  std::vector<info_accelerator_t> accelerators;  ///< with their GPUs
  std::vector<info_choice_t> libraries;          ///< that the build may have gone on without
  std::vector<info_choice_t> experimental;       ///< never run on its hardware; usable: built
  std::vector<info_attribute_t> attributes;      ///< in the order of global_attr_t
  std::string build_options;                     ///< one "NAME=VALUE" a line
};

/// Looks at this machine. Works without global_initialize(); opens cards and starts accelerators'
/// runtimes for the time of the call, so it may take a second.
/// @return what was found
/// @throws lci::argument_error  an environment variable has a value that is not understood
/// Threads: any, while nobody changes the environment.
LCI_PUBLIC info_t describe_machine();

/// The same as text.
/// @param verbose  every attribute with its value and where that came from, and the options of the
///                 build, too
/// @return version, build, every backend with `usable` or the sentence why not, and how processes
///         would find each other
/// @throws lci::argument_error  an environment variable has a value that is not understood
/// Threads: any, while nobody changes the environment.
LCI_PUBLIC std::string get_info(bool verbose);

}  // namespace lci

#endif  // LCI_INFO_HPP
