#include "tests/support/code_range.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>

namespace lci::test {

code_range library_around(const void* place) {
  struct search {
    std::uint64_t wanted;
    code_range found;
  } what{reinterpret_cast<std::uint64_t>(place), {}};
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* data) {
        auto& s = *static_cast<search*>(data);
        code_range all{~std::uint64_t{0}, 0};
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& part = info->dlpi_phdr[i];
          if (part.p_type != PT_LOAD) continue;
          all.begin = std::min<std::uint64_t>(all.begin, info->dlpi_addr + part.p_vaddr);
          all.end = std::max<std::uint64_t>(all.end, info->dlpi_addr + part.p_vaddr + part.p_memsz);
        }
        if (s.wanted >= all.begin && s.wanted < all.end) s.found = all;
        return 0;
      },
      &what);
  return what.found;
}

std::vector<code_range> functions_around(const void* place, const std::string& text) {
  Dl_info where{};
  if (dladdr(place, &where) == 0) return {};
  std::ifstream file(where.dli_fname, std::ios::binary);
  const std::string image(std::istreambuf_iterator<char>(file), {});
  Elf64_Ehdr head{};
  if (image.size() < sizeof head) return {};
  std::memcpy(&head, image.data(), sizeof head);
  // Positions are relative to where it is loaded, but for programs that are always in one place.
  const std::uint64_t base =
      head.e_type == ET_DYN ? reinterpret_cast<std::uint64_t>(where.dli_fbase) : 0;
  const auto section = [&](std::size_t i) {
    Elf64_Shdr out{};
    std::memcpy(&out, image.data() + head.e_shoff + i * head.e_shentsize, sizeof out);
    return out;
  };
  std::vector<code_range> found;
  for (std::size_t i = 0; i < head.e_shnum; ++i) {
    const Elf64_Shdr symbols = section(i);
    if (symbols.sh_type != SHT_SYMTAB) continue;
    const char* const names = image.data() + section(symbols.sh_link).sh_offset;
    for (std::uint64_t at = 0; at < symbols.sh_size; at += sizeof(Elf64_Sym)) {
      Elf64_Sym one{};
      std::memcpy(&one, image.data() + symbols.sh_offset + at, sizeof one);
      if (ELF64_ST_TYPE(one.st_info) != STT_FUNC || one.st_size == 0) continue;
      if (std::strstr(names + one.st_name, text.c_str()) == nullptr) continue;
      found.push_back({base + one.st_value, base + one.st_value + one.st_size});
    }
  }
  std::sort(found.begin(), found.end(),
            [](const code_range& a, const code_range& b) { return a.begin < b.begin; });
  return found;
}

}  // namespace lci::test
