// Answers importers over a unix socket, where the system lets no process take a descriptor out of
// another: the owner's side is a thread that runs only if the program asked for it, the importer's
// is one question. Callers: buffer.cpp, owner_link. Threads: any.
// Always true: only processes of the same user are answered, and the answer to bytes that were not
// published is a verdict without descriptors. An importer believes only the process that the handle
// names. Neither side waits longer than its limit for the other. A child of fork() does not keep
// its parent's socket.
#pragma once

#include <string>

#include "lci/base/descriptor.hpp"
#include "lci/share/exports.hpp"

namespace lci::share {

// Throws backend_error. Runs already: nothing.
void start_server();
void stop_server() noexcept;
bool is_serving() noexcept;

struct server_answer {
  verdict found = verdict::same;  // also without an answer; then the descriptors are empty
  base::descriptor page, memory;
};
// Throws buffer_error: no_room.
server_answer ask_server(const handle& h, std::string& why_not);

}  // namespace lci::share
