/* The companion library's headers in C. Compiling this file is the test. */
#include "lct_config.h"

#if LCT_VERSION_MAJOR != 2 || LCT_VERSION_HEX < 0x020000 || LCT_CACHE_LINE < 16
#error "numbers of the companion library"
#endif

#include "lct.h"

struct padded {
  char line[LCT_CACHE_LINE];
};

/* An array of -1 elements does not compile. */
typedef char line_is_a_power_of_two[(LCT_CACHE_LINE & (LCT_CACHE_LINE - 1)) == 0 ? 1 : -1];

const char* version_of_the_header(void);
const char* version_of_the_header(void) { return LCT_VERSION_STRING; }
const char* first_bootstraps(void);
const char* first_bootstraps(void) { return LCT_PMI_BACKEND_DEFAULT; }
