// The limits of a process's address space. Threads: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lci::base {

// Where the addresses end that a process gets unless it asks for higher ones, and where those end
// that it can get at all: with five levels of page tables on x86, with 52-bit addresses on Arm.
#if defined(__x86_64__)
inline constexpr std::uintptr_t USUAL_SPACE = std::uintptr_t{1} << 47;
inline constexpr std::uintptr_t LARGEST_SPACE = std::uintptr_t{1} << 56;
#elif defined(__aarch64__)
inline constexpr std::uintptr_t USUAL_SPACE = std::uintptr_t{1} << 48;
inline constexpr std::uintptr_t LARGEST_SPACE = std::uintptr_t{1} << 52;
#else
inline constexpr std::uintptr_t USUAL_SPACE = UINTPTR_MAX / 2;
inline constexpr std::uintptr_t LARGEST_SPACE = UINTPTR_MAX / 2;
#endif

// How many bytes can follow an address. Memory that begins in the usual space also ends there.
inline std::size_t most_bytes_at(const void* address) noexcept {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const std::uintptr_t end = at < USUAL_SPACE ? USUAL_SPACE : LARGEST_SPACE;
  return at < end ? end - at : 0;
}

// False only where most_bytes_at() has to decide.
inline bool is_surely_in_space(const void* address, std::size_t size) noexcept {
  return size <= USUAL_SPACE && reinterpret_cast<std::uintptr_t>(address) <= USUAL_SPACE - size;
}

// For a few bytes, in a few instructions: false for null and wherever is_surely_in_space() is
// false.
inline bool is_near(const void* address, std::size_t few) noexcept {
  return reinterpret_cast<std::uintptr_t>(address) - 1 < USUAL_SPACE - few || few == 0;
}

}  // namespace lci::base
