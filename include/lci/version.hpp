/// @file version.hpp
/// Version and configuration macros. The build writes `lci/config.hpp`; this file has the default
/// of every macro that it does not define, so that the headers also work directly from the source
/// tree.
#ifndef LCI_VERSION_HPP
#define LCI_VERSION_HPP

#if defined(__has_include)
#if __has_include("lci/config.hpp")
#include "lci/config.hpp"
#endif
#endif

#ifndef LCI_VERSION_MAJOR
#define LCI_VERSION_MAJOR 2  ///< changes when programs must change
#define LCI_VERSION_MINOR 0  ///< changes when something is added
#define LCI_VERSION_PATCH 0  ///< changes when something is repaired
#endif
#ifndef LCI_VERSION_SUFFIX
#define LCI_VERSION_SUFFIX "-dev"  ///< empty for a release
#endif
#ifndef LCI_VERSION_STRING
#define LCI_VERSION_STRING "2.0.0-dev"  ///< major.minor.patch and suffix
#endif
#ifndef LCI_VERSION_FULL
#define LCI_VERSION_FULL LCI_VERSION_STRING  ///< version string and commit, if known
#endif
#ifndef LCI_BUILD_TIMESTAMP
#define LCI_BUILD_TIMESTAMP "unknown"  ///< when the library was configured
#endif
/// The version as one number that can be compared.
#define LCI_VERSION_HEX ((LCI_VERSION_MAJOR << 16) | (LCI_VERSION_MINOR << 8) | LCI_VERSION_PATCH)

#ifndef LCI_NETWORK_BACKENDS_ENABLED
#define LCI_NETWORK_BACKENDS_ENABLED "SHM"  ///< backends of this build, separated by ';'
#endif
#ifndef LCI_WITH_SHM
#define LCI_WITH_SHM 1  ///< 1 if messages inside a host can use shared memory
#endif
#ifndef LCI_USE_REG_CACHE
#define LCI_USE_REG_CACHE 0  ///< not 0: default of attribute `use_reg_cache` is true
#endif
#ifndef LCI_CACHE_LINE
#define LCI_CACHE_LINE 64  ///< bytes
#endif
#ifndef LCI_PACKET_SIZE_DEFAULT
#define LCI_PACKET_SIZE_DEFAULT 8192  ///< bytes, default of attribute `packet_size`
#endif
#ifndef LCI_PACKET_NUM_DEFAULT
#define LCI_PACKET_NUM_DEFAULT 65536  ///< default of attribute `npackets`
#endif
#ifndef LCI_BACKEND_MAX_SENDS_DEFAULT
#define LCI_BACKEND_MAX_SENDS_DEFAULT 64  ///< default of attribute `net_max_sends`
#endif
#ifndef LCI_BACKEND_MAX_RECVS_DEFAULT
#define LCI_BACKEND_MAX_RECVS_DEFAULT 4096  ///< default of attribute `net_max_recvs`
#endif
#ifndef LCI_BACKEND_MAX_CQES_DEFAULT
#define LCI_BACKEND_MAX_CQES_DEFAULT 65536  ///< default of attribute `net_max_cqes`
#endif
#ifndef LCI_BACKEND_MAX_POLLS
#define LCI_BACKEND_MAX_POLLS 32  ///< maximum number of completions that one poll takes
#endif
#ifndef LCI_USE_MAX_SINGLE_MESSAGE_SIZE_DEFAULT
#define LCI_USE_MAX_SINGLE_MESSAGE_SIZE_DEFAULT 0x7FFFFFFF  ///< default of attribute `max_msg_size`
#endif
#ifndef LCI_OFI_PROVIDER_HINT_DEFAULT
#define LCI_OFI_PROVIDER_HINT_DEFAULT ""  ///< default of attribute `ofi_provider_name`
#endif

#endif  // LCI_VERSION_HPP
