/// @file lci.hpp
/// The public interface of a job, in one header. Headers that it does not include: lci/buffer.hpp
/// (memory that processes share), lci/transport.hpp (connections without a job), lci/gpu.hpp and
/// lci/device.cuh (communication that kernels start), and lct.h (the companion library).
///
/// Every operation `op` is a function `op(positional...)` and a class `op_x(positional...)` with a
/// setter for each argument, positional or optional, run by `call()` or `operator()`:
/// @code
/// lci::post_am_x(rank, buffer, size, comp, rcomp).device(device).tag(7)();
/// @endcode
#ifndef LCI_HPP
#define LCI_HPP

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "lci/attr.hpp"
#include "lci/collective.hpp"
#include "lci/completion.hpp"
#include "lci/errors.hpp"
#include "lci/graph.hpp"
#include "lci/handles.hpp"
#include "lci/info.hpp"
#include "lci/memory.hpp"
#include "lci/net.hpp"
#include "lci/options.hpp"
#include "lci/post.hpp"
#include "lci/progress.hpp"
#include "lci/remote_completion.hpp"
#include "lci/resources.hpp"
#include "lci/runtime.hpp"
#include "lci/status.hpp"
#include "lci/stream.hpp"
#include "lci/types.hpp"
#include "lci/version.hpp"

#endif  // LCI_HPP
