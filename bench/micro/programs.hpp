// The patterns that `bench_patterns NAME [ARGUMENT...]` knows, each run by all processes of a job.
#pragma once

#include <string>
#include <vector>

namespace bench {

using arguments = std::vector<std::string>;

int am_latency(const arguments& given);
int am_rate(const arguments& given);
int sendrecv_latency(const arguments& given);
int sendrecv_rate(const arguments& given);
int bandwidth(const arguments& given);  // [default|single|pipelined]
int raw_handover(const arguments& given);
int startup(const arguments& given);
int memory(const arguments& given);

}  // namespace bench
