// The compiled copy kernel, for every GPU that this library was built for. Callers: accelerator.
// Threads: immutable.
#pragma once

#include <span>

namespace lci::cuda {

// Empty in a library without device code.
std::span<const unsigned char> resident_image() noexcept;

}  // namespace lci::cuda
