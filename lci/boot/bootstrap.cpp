#include "lci/boot/bootstrap.hpp"

#include "lci/base/spin.hpp"
#include "lci/boot/meanwhile.hpp"
#include "lci/errors.hpp"

namespace lci::boot {

void bootstrap::fence_with(meanwhile* work) {
  // What ranks that are in the fence already would have to do does not happen.
  constexpr std::chrono::milliseconds PATIENCE{1000};
  if (work != nullptr) {
    const deadline until = deadline::in(PATIENCE);
    for (base::spin_wait wait; !work->is_all_out() && !until.is_over();)
      if (work->progress())
        wait.reset();
      else
        wait();
  }
  fence();
}

void check_put(const char* backend, std::string_view key, std::string_view value) {
  if (key.empty() || key.size() > MAX_KEY) {
    throw argument_error(std::string(backend) + ": key of " + std::to_string(key.size()) +
                         " bytes: expected 1 to " + std::to_string(MAX_KEY));
  }
  if (value.size() > MAX_VALUE) {
    throw argument_error(std::string(backend) + ": value of " + std::to_string(value.size()) +
                         " bytes for key \"" + std::string(key) + "\": expected at most " +
                         std::to_string(MAX_VALUE));
  }
}

void check_rank(const char* backend, int rank, int size) {
  if (rank < 0 || rank >= size) {
    throw argument_error(std::string(backend) + ": rank " + std::to_string(rank) +
                         ": expected 0 to " + std::to_string(size - 1));
  }
}

void throw_missing_key(const char* backend, int rank, std::string_view key) {
  throw argument_error(std::string(backend) + ": rank " + std::to_string(rank) +
                       " has not put key \"" + std::string(key) + "\" before the last fence");
}

}  // namespace lci::boot
