#include "tests/failure/job_end.hpp"

#include <cstdio>
#include <cstdlib>
#include <new>

#include "lci.hpp"

namespace lci::test {
namespace {

bool has(const std::exception& error, std::string_view words) {
  return std::string_view(error.what()).find(words) != std::string_view::npos;
}

}  // namespace

// Without an allocation: that one may be the one that fails.
job_end end_of(int rank, const char* phase, const std::function<void()>& action) {
  const auto ends = [&](job_end end, const char* what, const char* more = "") {
    std::printf("rank %d, %s: %s%s\n", rank, phase, what, more);
    return end;
  };
  try {
    action();
    return job_end::well;
  } catch (const std::bad_alloc&) {
    return ends(job_end::no_memory, "std::bad_alloc");
  } catch (const peer_failure_error& error) {
    return ends(job_end::lost, "peer_failure_error: ", error.what());
  } catch (const backend_error& error) {
    return ends(job_end::start, "backend_error: ", error.what());
  } catch (const argument_error& error) {
    return ends(has(error, "rmr names no memory") ? job_end::withdrawn : job_end::refused,
                "argument_error: ", error.what());
  } catch (const wrong_bytes&) {
    return ends(job_end::wrong_bytes, "wrong bytes");
  } catch (const wrong_count& count) {
    std::printf("rank %d, %s: %d messages and %d notifications\n", rank, phase, count.messages,
                count.notices);
    return job_end::wrong_count;
  } catch (const std::exception& error) {
    return has(error, "the target's registration has ended")
               ? ends(job_end::given_up, "an operation's error: ", error.what())
               : ends(job_end::untyped, "an untyped error: ", error.what());
  }
}

job_end with_leftovers(int rank, job_end end, const leak_guard& leaks) {
  for (const std::string& line : leaks.leaks()) {
    std::printf("rank %d: left behind: %s\n", rank, line.c_str());
    end = job_end::leftovers;
  }
  return end;
}

void fill(char* into, std::size_t size, int from, std::uint64_t number) {
  for (std::size_t i = 0; i < size; ++i) into[i] = byte_of(i, from, number);
}

bool are_bytes_of(const void* bytes, std::size_t size, int from, std::uint64_t number) {
  for (std::size_t i = 0; i < size; ++i)
    if (static_cast<const char*>(bytes)[i] != byte_of(i, from, number)) return false;
  return true;
}

void check(const void* bytes, std::size_t size, int from, std::uint64_t number) {
  if (!are_bytes_of(bytes, size, from, number)) throw wrong_bytes();
}

bool is_set_to(const char* variable, std::string_view what) {
  const char* const given = std::getenv(variable);
  return given != nullptr && what == given;
}

void meet_in(const std::string& folder, int rank, int ranks, int seconds) {
  const auto set = [](const char* name, const std::string& value) {
    setenv(name, value.c_str(), 1);
  };
  set("LCT_PMI_BACKEND", "file");
  set("LCT_PMI_FILE_DIR", folder);
  set("LCT_PMI_FILE_NRANKS", std::to_string(ranks));
  set("LCT_PMI_FILE_RANK", std::to_string(rank));
  set("LCT_PMI_FILE_TIMEOUT_SEC", std::to_string(seconds));
}

}  // namespace lci::test
