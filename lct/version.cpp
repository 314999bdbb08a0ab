// The version of liblct, from the library and not from the header the client was compiled with.
// Threads: a constant.
#include "lci/config.hpp"
#include "lct.h"

extern "C" const char* LCT_version(void) { return LCI_VERSION_STRING; }
