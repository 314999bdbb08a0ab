#include "tests/support/x86_decode.hpp"

#if defined(__x86_64__)

namespace lci::test {
namespace {

// What the prefixes said.
struct prefixes {
  bool lock = false;
  bool rep = false;
  bool operand16 = false;
  bool address32 = false;
  std::uint64_t segment_base = 0;
  unsigned rex = 0;     // W R X B in bits 3..0, from REX or VEX
  unsigned vector = 0;  // bytes of a VEX vector, 0 without VEX
  enum map_t { one, two, three_38, three_3a } map = one;
};

std::uint64_t general_register(const user_regs_struct& r, unsigned number) {
  const unsigned long long all[] = {r.rax, r.rcx, r.rdx, r.rbx, r.rsp, r.rbp, r.rsi, r.rdi,
                                    r.r8,  r.r9,  r.r10, r.r11, r.r12, r.r13, r.r14, r.r15};
  return all[number & 15];
}

std::int64_t signed32(const unsigned char* p) {
  const std::uint32_t v = p[0] | p[1] << 8 | p[2] << 16 | static_cast<std::uint32_t>(p[3]) << 24;
  return static_cast<std::int32_t>(v);
}

// The memory operand behind a ModRM byte whose mod field is not 3.
x86_access memory_operand(const unsigned char* modrm, const prefixes& p,
                          const user_regs_struct& r) {
  const unsigned mod = modrm[0] >> 6;
  unsigned base = modrm[0] & 7;
  const unsigned char* rest = modrm + 1;
  x86_access a;
  bool has_base = true;
  if (base == 4) {  // SIB byte
    const unsigned sib = *rest++;
    const unsigned index = (sib >> 3 & 7) | (p.rex & 2) << 2;
    if (index != 4) a.address += general_register(r, index) << (sib >> 6);
    base = sib & 7;
    has_base = !(base == 5 && mod == 0);
    if (!has_base) a.address += static_cast<std::uint64_t>(signed32(rest));
  } else if (base == 5 && mod == 0) {
    a.rip_relative = true;
    a.address = static_cast<std::uint64_t>(signed32(rest));
    return a;
  }
  if (has_base) a.address += general_register(r, base | (p.rex & 1) << 3);
  if (mod == 1) a.address += static_cast<std::uint64_t>(static_cast<std::int8_t>(*rest));
  if (mod == 2) a.address += static_cast<std::uint64_t>(signed32(rest));
  a.address += p.segment_base;
  return a;
}

bool one_byte_has_modrm(unsigned op) {
  if (op < 0x40) return (op & 7) < 4;
  return op == 0x63 || op == 0x69 || op == 0x6b || (op >= 0x80 && op <= 0x8f) || op == 0xc0 ||
         op == 0xc1 || op == 0xc6 || op == 0xc7 || (op >= 0xd0 && op <= 0xd3) ||
         (op >= 0xd8 && op <= 0xdf) || op == 0xf6 || op == 0xf7 || op == 0xfe || op == 0xff;
}

bool two_byte_has_modrm(unsigned op) {
  return !(op == 0x05 || op == 0x06 || op == 0x08 || op == 0x09 || op == 0x0b || op == 0x0e ||
           (op >= 0x30 && op <= 0x37) || op == 0x77 || (op >= 0x80 && op <= 0x8f) ||
           (op >= 0xa0 && op <= 0xa2) || (op >= 0xa8 && op <= 0xaa) || (op >= 0xc8 && op <= 0xcf));
}

// Prefetches and long nops name memory without reading or writing it.
bool two_byte_is_hint(unsigned op) { return op == 0x0d || (op >= 0x18 && op <= 0x1f); }

bool two_byte_is_vector(unsigned op) {
  return (op >= 0x10 && op <= 0x17) || (op >= 0x28 && op <= 0x2f) || (op >= 0x50 && op <= 0x7f) ||
         op == 0xc2 || op == 0xc6 || op >= 0xd0;
}

unsigned operand_size(unsigned op, const prefixes& p) {
  if (p.vector != 0) return p.vector;
  if (p.map == prefixes::two && two_byte_is_vector(op)) {
    // movd, movq, scalar and half-register moves touch 4 or 8 bytes, the rest a whole register.
    const bool half = op == 0x12 || op == 0x13 || op == 0x16 || op == 0x17 || op == 0x6e ||
                      op == 0x7e || op == 0xd6;
    const bool unaligned_whole = op == 0x6f || op == 0x7f;  // movdqu has a scalar's prefix
    return half || (p.rep && !unaligned_whole) ? 8 : 16;
  }
  if (p.map == prefixes::three_38 || p.map == prefixes::three_3a) return 16;
  const bool is_byte =
      p.map == prefixes::one
          ? (op < 0x40 || (op >= 0x80 && op <= 0x8b) || op >= 0xc0) && (op & 1) == 0 && op != 0x8e
          : op == 0xb0 || op == 0xb6 || op == 0xbe || op == 0xc0 || (op >= 0x90 && op <= 0x9f);
  if (is_byte) return 1;
  if (p.rex & 8) return 8;
  return p.operand16 ? 2 : 4;
}

// Reads prefixes, REX or VEX, and the escape bytes; answers where the opcode is, or null.
const unsigned char* read_prefixes(const unsigned char* c, const user_regs_struct& r, prefixes& p) {
  for (;; ++c) {
    if (*c == 0xf0)
      p.lock = true;
    else if (*c == 0xf2 || *c == 0xf3)
      p.rep = true;
    else if (*c == 0x66)
      p.operand16 = true;
    else if (*c == 0x67)
      p.address32 = true;
    else if (*c == 0x64)
      p.segment_base = r.fs_base;
    else if (*c == 0x65)
      p.segment_base = r.gs_base;
    else if (*c != 0x2e && *c != 0x36 && *c != 0x3e && *c != 0x26)
      break;
  }
  if ((*c & 0xf0) == 0x40) p.rex = *c++ & 15;
  if (*c == 0x62) return nullptr;  // EVEX: scaled displacements
  if (*c == 0xc5) {
    p.rex = (c[1] & 0x80) ? 0 : 4;
    p.vector = (c[1] & 4) ? 32 : 16;
    p.map = prefixes::two;
    return c + 2;
  }
  if (*c == 0xc4) {
    const unsigned map = c[1] & 31;
    if (map == 0 || map > 3) return nullptr;
    p.rex = ((c[1] >> 5 ^ 7) & 7) | ((c[2] & 0x80) ? 8 : 0);
    p.vector = (c[2] & 4) ? 32 : 16;
    p.map = static_cast<prefixes::map_t>(map);
    return c + 3;
  }
  if (*c != 0x0f) return c;
  if (c[1] == 0x38)
    p.map = prefixes::three_38;
  else if (c[1] == 0x3a)
    p.map = prefixes::three_3a;
  else
    p.map = prefixes::two;
  return c + (p.map == prefixes::two ? 1 : 2);
}

// push, pop, call, ret, leave and string instructions: memory that no ModRM byte names.
void implicit_accesses(unsigned op, unsigned reg, const prefixes& p, const user_regs_struct& r,
                       x86_instruction& out) {
  const bool group_ff = op == 0xff && (reg == 2 || reg == 6);
  if ((op >= 0x50 && op <= 0x57) || op == 0x68 || op == 0x6a || op == 0xe8 || op == 0x9c ||
      group_ff) {
    out.accesses[1] = {r.rsp - 8, 8};
  } else if ((op >= 0x58 && op <= 0x5f) || op == 0xc3 || op == 0xc2 || op == 0x8f || op == 0x9d) {
    out.accesses[1] = {r.rsp, 8};
  } else if (op == 0xc9) {
    out.accesses[1] = {r.rbp, 8};
  } else if ((op >= 0xa4 && op <= 0xa7) || (op >= 0xaa && op <= 0xaf)) {
    const unsigned size = (op & 1) == 0 ? 1 : operand_size(0x89, p);
    out.is_repeated = p.rep;
    if (p.rep && r.rcx == 0) return;
    const bool reads_rsi = op <= 0xa7 || op == 0xac || op == 0xad;
    const bool uses_rdi = op != 0xac && op != 0xad;
    if (reads_rsi) out.accesses[0] = {r.rsi, size};
    if (uses_rdi) out.accesses[1] = {r.rdi, size};
  } else if ((op >= 0xa0 && op <= 0xa3) || op == 0xd7) {
    out.understood = false;
  }
}

}  // namespace

x86_instruction decode_x86(const unsigned char* code, const user_regs_struct& regs) {
  x86_instruction out;
  prefixes p;
  const unsigned char* at = read_prefixes(code, regs, p);
  if (at == nullptr || p.address32) {
    out.understood = false;
    return out;
  }
  const unsigned op = *at;
  const unsigned char* modrm = at + 1;
  const bool has_modrm = p.map == prefixes::one ? one_byte_has_modrm(op)
                                                : p.map != prefixes::two || two_byte_has_modrm(op);
  const bool in_memory = has_modrm && (*modrm >> 6) != 3;
  const unsigned reg = *modrm >> 3 & 7;
  out.is_locked = p.lock || (p.map == prefixes::one && (op == 0x86 || op == 0x87) && in_memory);
  out.is_syscall = (p.map == prefixes::two && (op == 0x05 || op == 0x34)) ||
                   (p.map == prefixes::one && op == 0xcd && at[1] == 0x80);
  out.reads_clock = p.map == prefixes::two && (op == 0x31 || (op == 0x01 && *modrm == 0xf9));
  out.is_fence =
      p.map == prefixes::two && op == 0xae && !in_memory && reg == 6 && !p.operand16 && !p.rep;
  if (p.map == prefixes::one) implicit_accesses(op, has_modrm ? reg : 0, p, regs, out);
  const bool is_gather = p.map == prefixes::three_38 && p.vector != 0 && op >= 0x90 && op <= 0x93;
  if (is_gather) out.understood = false;
  const bool only_computes = (p.map == prefixes::one && op == 0x8d) ||  // lea
                             (p.map == prefixes::two && p.vector == 0 && two_byte_is_hint(op));
  if (in_memory && !only_computes && !is_gather) {
    out.accesses[0] = memory_operand(modrm, p, regs);
    const bool pushes = p.map == prefixes::one && op == 0xff && reg >= 2;
    out.accesses[0].size = pushes ? 8 : operand_size(op, p);
    // An indirect jump or call does not go on behind itself, so its own end is not where the next
    // one starts: such an instruction ends with its displacement.
    if (pushes && out.accesses[0].rip_relative) {
      out.accesses[0].rip_relative = false;
      out.accesses[0].address += regs.rip + static_cast<std::uint64_t>(modrm - code) + 5;
    }
  }
  return out;
}

}  // namespace lci::test

#endif
