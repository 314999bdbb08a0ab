// Errors of lci speak of the ranks of a job. The runtime of a connection has two, of which its
// program knows nothing: this side and the peer. Callers: pair, link. Threads: pure functions.
#pragma once

#include <exception>
#include <string>
#include <string_view>

namespace lci::transports {

// The text in the words of a transport; me: the rank of this side. Removes "rank N is lost: " from
// the start, because the caller says it.
std::string without_job(std::string_view text, int me);
// The same error with such a text. One of a type that only some callers know stays as it is.
std::exception_ptr without_job(const std::exception_ptr& problem, int me);

}  // namespace lci::transports
