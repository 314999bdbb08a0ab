// What programs ask of the preprocessor before they include anything else: the configuration
// headers alone, in both orders. Compiling this file is the test.
#include "lci_config.hpp"
#include "lct_config.h"

#if LCI_VERSION_MAJOR != 2 || !defined(LCI_VERSION_MINOR) || !defined(LCI_VERSION_PATCH) || \
    LCI_VERSION_HEX < 0x020000
#error "the version of the interface"
#endif
#if LCI_WITH_SHM != 1 || LCI_CACHE_LINE < 16 || LCI_BACKEND_MAX_POLLS != 32 || \
    LCI_PACKET_SIZE_DEFAULT < 1
#error "numbers of the configuration"
#endif
#if LCT_VERSION_HEX != LCI_VERSION_HEX || LCT_CACHE_LINE < 16 || \
    (LCT_CACHE_LINE & (LCT_CACHE_LINE - 1)) != 0
#error "numbers of the companion library"
#endif

static_assert(sizeof(LCI_VERSION_STRING) == sizeof(LCT_VERSION_STRING),
              "both libraries are of one version");
static_assert(sizeof(LCI_VERSION_FULL) > sizeof(LCI_VERSION_STRING),
              "the full version names a commit");
static_assert(sizeof(LCT_PMI_BACKEND_DEFAULT) > 1, "bootstraps by default");
static_assert(sizeof(LCI_NETWORK_BACKENDS_ENABLED) > 0, "backends of the build");

#include "lci.hpp"
#include "lct.h"
