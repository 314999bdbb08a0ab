#include "lci/boot/choose.hpp"

#include <array>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "lci/base/env.hpp"
#include "lci/base/log.hpp"
#include "lci/boot/board.hpp"
#include "lci/boot/file.hpp"
#include "lci/boot/launched.hpp"
#include "lci/boot/lcrun.hpp"
#include "lci/boot/local.hpp"
#include "lci/boot/mpi.hpp"
#include "lci/boot/pmi1.hpp"
#include "lci/boot/pmi2.hpp"
#include "lci/boot/pmix.hpp"
#include "lci/boot/tcp.hpp"
#include "lci/errors.hpp"
#include "lci/version.hpp"

namespace lci::boot {

namespace {

constexpr const char* VARIABLE = "LCT_PMI_BACKEND";
// The list that lcrun has put into it where the user has not set it: for programs of other
// implementations of the interface, which do not know the word lcrun.
constexpr const char* BY_LCRUN = "LCI_LCRUN_BACKEND";
#ifdef LCT_PMI_BACKEND_DEFAULT
constexpr std::string_view BUILT_IN = LCT_PMI_BACKEND_DEFAULT;
#else
constexpr std::string_view BUILT_IN = "tcp,file,local";
#endif

#ifdef LCT_PMI_BACKEND_LEFT_OUT
constexpr std::string_view LEFT_OUT = LCT_PMI_BACKEND_LEFT_OUT;
#else
constexpr std::string_view LEFT_OUT = "";
#endif

// A word of the list: why it is unavailable here (nothing = available), and how to open it.
struct kind {
  std::string_view name;
  std::optional<std::string> (*unavailable)();
  std::unique_ptr<bootstrap> (*open)(board_cache&);
};

std::optional<std::string> file_unavailable() {
  std::string why;
  if (read_file_variables(why)) return std::nullopt;
  return why;
}

std::unique_ptr<bootstrap> open_file(board_cache&) {
  std::string why;
  const auto variables = read_file_variables(why);
  if (!variables) throw backend_error("file: " + why);
  return std::make_unique<file_bootstrap>(*variables);
}

std::optional<std::string> always() { return std::nullopt; }
std::unique_ptr<bootstrap> open_local(board_cache&) { return std::make_unique<local_bootstrap>(); }

// These bootstraps join anew each time.
template <auto open>
std::unique_ptr<bootstrap> open_without_cache(board_cache&) {
  return open();
}

constexpr std::array<kind, 8> KINDS = {{
    {"lcrun", &lcrun_bootstrap::unavailable, &open_without_cache<&lcrun_bootstrap::open>},
    {"pmix", &pmix_unavailable, &open_pmix},
    {"pmi2", &pmi2_unavailable, &open_pmi2},
    {"pmi1", &pmi1_unavailable, &open_pmi1},
    {"mpi", &mpi_unavailable, &open_mpi},
    {"tcp", &tcp_unavailable, &open_without_cache<&open_tcp>},
    {"file", &file_unavailable, &open_file},
    {"local", &always, &open_local},
}};

std::optional<std::string> why_unavailable(const kind& k) {
  if (auto why = why_left_out(LEFT_OUT, k.name)) return why;
  return k.unavailable();
}

const kind& find_kind(std::string_view word) {
  std::string known;
  for (const kind& k : KINDS) {
    if (base::env::same_word(k.name, word)) return k;
    known += (known.empty() ? "" : ", ") + std::string(k.name);
  }
  throw argument_error(std::string(VARIABLE) + " holds \"" + std::string(word) +
                       "\": expected a list of " + known);
}

bool is_named_by_user() {
  const auto given = base::env::find(VARIABLE);
  return given && given != base::env::find(BY_LCRUN);
}

// All words are checked before one is used, so that a misspelt one is reported wherever it stands.
std::vector<const kind*> wanted() {
  std::vector<const kind*> list;
  if (!is_named_by_user()) list.push_back(&KINDS[0]);
  base::env::for_each_entry(base::env::find(VARIABLE).value_or(BUILT_IN), ",; ",
                            [&](std::string_view word) { list.push_back(&find_kind(word)); });
  return list;
}

// Each of n processes that a launcher started would take itself for the only one: n jobs instead of
// one, and usually n wrong results. A user who names local, or gives the size, means it.
void refuse_loneliness(const bootstrap& opened, const std::string& reasons) {
  const std::string_view name = opened.name();
  if (opened.size() > 1 || name == "tcp" || name == "lcrun") return;
  if (name == "local" && is_named_by_user()) return;
  const auto started = find_launch();
  if (!started) return;
  // It found no other process, although the launcher has told its own kind of MPI how.
  const std::string remedy =
      name == "mpi" ? "let LCI_MPI_LIBRARY name the MPI library of that launcher" : started->remedy;
  throw backend_error(started->launcher + " has started this process as one of several (" +
                      started->variable + "), but the bootstrap " + std::string(name) +
                      " would make it rank 0 of 1: " + remedy +
                      "; LCT_PMI_BACKEND=local makes each process a job of its own" +
                      (reasons.empty() ? "" : ". What else was tried:" + reasons));
}

}  // namespace

std::optional<std::string> why_left_out(std::string_view left_out, std::string_view word) {
  bool is_left_out = false;
  base::env::for_each_entry(left_out, ";",
                            [&](std::string_view one) { is_left_out |= one == word; });
  if (!is_left_out) return std::nullopt;
  std::string option = "LCT_PMI_BACKEND_ENABLE_";
  for (const char c : word) option += static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return "left out of this build (" + option + "=OFF)";
}

std::unique_ptr<bootstrap> open_bootstrap(board_cache& cache) {
  std::string reasons;
  for (const kind* k : wanted()) {
    const std::string word(k->name);
    auto why = why_unavailable(*k);
    try {
      if (!why) {
        // From here on failures are errors: falling back to a process alone would make every rank
        // believe that it is rank 0.
        auto opened = k->open(cache);
        refuse_loneliness(*opened, reasons);
        log::info("boot", "using bootstrap %s", word.c_str());
        log::debug("boot", "rank %d of %d", opened->rank(), opened->size());
        return opened;
      }
    } catch (const declined_error& error) {
      why = error.what();
    }
    reasons += "\n  " + word + ": " + *why;
  }
  throw backend_error("no bootstrap is available:" + reasons);
}

std::vector<choice> list_bootstraps() {
  std::vector<choice> out;
  for (const kind* k : wanted())
    out.push_back(choice{std::string(k->name), why_unavailable(*k).value_or("")});
  return out;
}

}  // namespace lci::boot
