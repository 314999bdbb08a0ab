// Stands in for the library's post_am, so that what the headers cost is counted without what the
// library does.
#include "lci.hpp"

namespace lci {
namespace detail {
LCI_PUBLIC status_t post_am(const post_args& args) {
  status_t answer;
  answer.set_done();
  answer.rank = args.rank;
  return answer;
}
}  // namespace detail
}  // namespace lci
