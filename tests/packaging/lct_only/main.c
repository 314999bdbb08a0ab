/* Joins its job, if there is one, and says that with a line of the log. */
#include <stdio.h>

#include "lct.h"

int main(void) {
  int n;
  LCT_init();
  LCT_pmi_initialize();
  LCT_set_rank(LCT_pmi_get_rank());
  n = LCT_pmi_get_size();
  LCT_pmi_barrier();
  LCT_Log(LCT_log_ctx_default, LCT_LOG_ERROR, "only", "%d of %d", LCT_get_rank(), n);
  LCT_pmi_finalize();
  LCT_fina();
  return n < 1;
}
