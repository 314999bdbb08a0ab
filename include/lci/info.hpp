/// @file info.hpp
/// Describes this library and what it can do on this machine, as text and as data.
#ifndef LCI_INFO_HPP
#define LCI_INFO_HPP

#include <string>
#include <vector>

#include "lci/export.hpp"

namespace lci {

/// A feature and, if it is not usable, the reason.
struct info_choice_t {
  std::string name;     ///< as in environment variables
  std::string why_not;  ///< empty: usable; else one sentence
};

/// One NIC of a network, or one port of it.
struct info_card_t {
  std::string name;                    ///< as device_name takes it
  std::string what;                    ///< its state, speed and address
  bool is_chosen = false;              ///< whether a process started here would use it
  std::string why;                     ///< the reason for the choice
  std::vector<int> near_cores;         ///< nearest cores, ascending; empty: unknown, or all
  std::vector<std::string> near_gpus;  ///< nearest GPUs, by name; empty: none, or unknown
};

/// A network that this library supports.
struct info_backend_t : info_choice_t {
  std::string place;               ///< reaches only processes at this place; empty: any
  std::vector<info_card_t> cards;  ///< usable or not
};

/// A GPU.
struct info_gpu_t {
  std::string name;                 ///< "GPU 0"
  std::string what;                 ///< model and address, or why it cannot be used
  std::vector<int> near_cores;      ///< nearest cores, ascending; empty: unknown, or all
  std::vector<info_choice_t> ways;  ///< paths that its memory can take
};

/// A kind of accelerator.
struct info_accelerator_t : info_choice_t {
  std::vector<info_gpu_t> gpus;  ///< empty if not usable
};

/// A tier of communication that a kernel starts, with what was tried on this machine.
struct info_tier_t : info_choice_t {
  std::vector<info_choice_t> probes;  ///< in the order in which they were made
};

/// The default value of an attribute in this process.
struct info_attribute_t {
  std::string name;    ///< as in global_attr_t
  std::string value;   ///< as in the environment
  std::string source;  ///< "default", the name of a variable, or "program"
};

/// The whole description.
struct info_t {
  std::string version;                           ///< "2.0.0"
  std::string full_version;                      ///< with the source that it was built from
  std::string built;                             ///< time of the build
  std::string host;                              ///< name of this machine
  std::vector<int> cores;                        ///< on which this thread may run, ascending
  std::vector<info_backend_t> backends;          ///< in order of preference
  std::vector<info_choice_t> bootstraps;         ///< in the order in which lci tries them
  std::vector<info_accelerator_t> accelerators;  ///< with their GPUs
  std::vector<info_tier_t> gpu_tiers;            ///< highest first
  std::vector<info_choice_t> libraries;          ///< optional libraries of the build
  std::vector<info_choice_t>
      experimental;  ///< features that never ran on their hardware; usable: built
  std::vector<info_attribute_t> attributes;  ///< in the order of global_attr_t
  std::string build_options;                 ///< one "NAME=VALUE" per line
};

/// Examines this machine. Works without global_initialize(). It opens NICs and initializes
/// accelerator runtimes during the call, so it may take a second.
/// @return the description
/// @throws lci::argument_error  an environment variable has an invalid value
/// Threads: any, while no thread changes the environment.
LCI_PUBLIC info_t describe_machine();

/// Describes this machine as text.
/// @param verbose  also every attribute with its value and the source of the value, and the build
/// options
/// @return version, build, every backend with `usable` or the reason why not, and the bootstraps
/// @throws lci::argument_error  an environment variable has an invalid value
/// Threads: any, while no thread changes the environment.
LCI_PUBLIC std::string get_info(bool verbose);

}  // namespace lci

#endif  // LCI_INFO_HPP
