// The clock and its units. Threads: any; each function is pure or a system call.
#include "lct/time.h"

#include <time.h>

extern "C" {

LCT_time_t LCT_now(void) {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<LCT_time_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

double LCT_time_to_ns(LCT_time_t time) { return static_cast<double>(time); }
double LCT_time_to_us(LCT_time_t time) { return static_cast<double>(time) / 1e3; }
double LCT_time_to_ms(LCT_time_t time) { return static_cast<double>(time) / 1e6; }
double LCT_time_to_s(LCT_time_t time) { return static_cast<double>(time) / 1e9; }

}  // extern "C"
