#include "lci/boot/choose.hpp"

#include <array>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "lci/base/env.hpp"
#include "lci/base/log.hpp"
#include "lci/boot/file.hpp"
#include "lci/boot/lcrun.hpp"
#include "lci/boot/local.hpp"
#include "lci/boot/tcp.hpp"
#include "lci/errors.hpp"
#include "lci/version.hpp"

namespace lci::boot {

namespace {

constexpr const char* VARIABLE = "LCT_PMI_BACKEND";
#ifdef LCT_PMI_BACKEND_DEFAULT
constexpr std::string_view BUILT_IN = LCT_PMI_BACKEND_DEFAULT;
#else
constexpr std::string_view BUILT_IN = "tcp,file,local";
#endif

// A word of the list: why it is unavailable here (nothing = available), and how it is opened.
struct kind {
  std::string_view name;
  std::optional<std::string> (*unavailable)();
  std::unique_ptr<bootstrap> (*open)();
};

std::optional<std::string> not_built() { return "not built"; }
std::unique_ptr<bootstrap> open_nothing() { return nullptr; }

std::optional<std::string> file_unavailable() {
  std::string why;
  if (read_file_variables(why)) return std::nullopt;
  return why;
}

std::unique_ptr<bootstrap> open_file() {
  std::string why;
  const auto variables = read_file_variables(why);
  if (!variables) throw backend_error("file: " + why);
  return std::make_unique<file_bootstrap>(*variables);
}

std::optional<std::string> always() { return std::nullopt; }
std::unique_ptr<bootstrap> open_local() { return std::make_unique<local_bootstrap>(); }

constexpr std::array<kind, 8> KINDS = {{
    {"lcrun", &lcrun_bootstrap::unavailable, &lcrun_bootstrap::open},
    {"pmix", &not_built, &open_nothing},
    {"pmi2", &not_built, &open_nothing},
    {"pmi1", &not_built, &open_nothing},
    {"mpi", &not_built, &open_nothing},
    {"tcp", &tcp_unavailable, &open_tcp},
    {"file", &file_unavailable, &open_file},
    {"local", &always, &open_local},
}};

const kind& find_kind(std::string_view word) {
  std::string known;
  for (const kind& k : KINDS) {
    if (base::env::same_word(k.name, word)) return k;
    known += (known.empty() ? "" : ", ") + std::string(k.name);
  }
  throw argument_error(std::string(VARIABLE) + " holds \"" + std::string(word) +
                       "\": expected a list of " + known);
}

// All words are looked at before one is used, so that a misspelt one shows wherever it stands.
std::vector<const kind*> wanted() {
  const auto given = base::env::find(VARIABLE);
  std::vector<const kind*> list;
  if (!given) list.push_back(&KINDS[0]);
  base::env::for_each_entry(given.value_or(BUILT_IN), ",; ",
                            [&](std::string_view word) { list.push_back(&find_kind(word)); });
  return list;
}

}  // namespace

std::unique_ptr<bootstrap> open_bootstrap() {
  std::string reasons;
  for (const kind* k : wanted()) {
    const auto why = k->unavailable();
    if (!why) {
      // From here on failures are errors: falling back to a process alone would let every rank
      // believe that it is rank 0.
      log::info("boot", "using bootstrap %s", std::string(k->name).c_str());
      auto opened = k->open();
      log::debug("boot", "rank %d of %d", opened->rank(), opened->size());
      return opened;
    }
    reasons += "\n  " + std::string(k->name) + ": " + *why;
  }
  throw backend_error("no bootstrap is available:" + reasons);
}

std::vector<choice> list_bootstraps() {
  std::vector<choice> out;
  for (const kind* k : wanted())
    out.push_back(choice{std::string(k->name), k->unavailable().value_or("")});
  return out;
}

}  // namespace lci::boot
