// What an instruction of x86-64 does to vectors of 256 bits and more: as much of its encoding as tells the
// kinds apart (Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2: VEX and EVEX).
#pragma once

#include <cstdint>

namespace optest {

// Each has units of its own, some of which others share. `other` is what no vector unit works on: scalar
// instructions, short vectors, masks, and mere loads, stores and copies of vectors.
enum class Kind : int64_t { other, plain, multiply, shuffle };

struct Encoding {
  int map = 0;     // 1: 0F, 2: 0F38, 3: 0F3A; 0: neither VEX nor EVEX
  int prefix = 0;  // 0: none, 1: 66, 2: F3, 3: F2
  uint8_t opcode = 0;
  bool wide = false;    // 256 bits and more
  bool memory = false;  // an operand lies there
};

inline Encoding encoding_of(const uint8_t* at) {
  const auto in_memory = [](uint8_t modrm) { return modrm >> 6 != 3; };
  if (at[0] == 0xc5) return {1, at[1] & 3, at[2], (at[1] >> 2 & 1) != 0, in_memory(at[3])};
  if (at[0] == 0xc4) {
    return {at[1] & 0x1f, at[2] & 3, at[3], (at[2] >> 2 & 1) != 0, in_memory(at[4])};
  }
  if (at[0] == 0x62) {
    const bool memory = in_memory(at[5]);
    const bool rounds = (at[3] >> 4 & 1) != 0 && !memory;  // the length says how, then: it is 512
    return {at[1] & 7, at[2] & 3, at[4], rounds || (at[3] >> 5 & 3) != 0, memory};
  }
  return {};
}

inline bool is_mask(const Encoding& e, bool evex) {
  const bool logic = e.opcode >= 0x41 && e.opcode <= 0x4b;
  return !evex && e.map == 1 && (logic || (e.opcode >= 0x90 && e.opcode <= 0x99));
}

inline bool moves_whole(const Encoding& e) {
  if (e.map == 1) {
    switch (e.opcode) {
      case 0x10: case 0x11: case 0x28: case 0x29: case 0x2b: case 0x6f: case 0x77: case 0x7f:
      case 0xe7: case 0xf0:
        return true;
      default:
        return false;
    }
  }
  if (e.map != 2 || !e.memory) return false;
  return (e.opcode >= 0x18 && e.opcode <= 0x1b) || e.opcode == 0x2a ||
         (e.opcode >= 0x58 && e.opcode <= 0x5b) || e.opcode == 0x78 || e.opcode == 0x79;
}

inline bool multiplies(const Encoding& e) {
  const uint8_t op = e.opcode;
  if (e.map == 2 && op == 0x52) return e.prefix != 0;  // words, pairs of bf16
  if (e.prefix != 1 && !(e.map == 1 && op == 0x59)) return false;
  if (e.map == 1) return op == 0x59 || op == 0xd5 || op == 0xe4 || op == 0xe5 || op == 0xf4 || op == 0xf5;
  if (e.map != 2) return false;
  const bool fused = op >= 0x96 && op <= 0xbf && (op & 15) >= 6;
  return fused || op == 0x04 || op == 0x0b || op == 0x28 || op == 0x40 || (op >= 0x50 && op <= 0x53);
}

inline bool moves_lanes(const Encoding& e) {
  const uint8_t op = e.opcode;
  switch (e.map) {
    case 1:
      return op == 0x14 || op == 0x15 || (op >= 0x60 && op <= 0x63) || (op >= 0x67 && op <= 0x6d) ||
             op == 0x70 || op == 0xc6;
    case 2:
      return op == 0x00 || op == 0x0c || op == 0x0d || op == 0x16 || op == 0x36 || op == 0x2b ||
             (op >= 0x20 && op <= 0x25) || (op >= 0x30 && op <= 0x35) || (op >= 0x75 && op <= 0x77) ||
             (op >= 0x7d && op <= 0x7f) || op == 0x8d;
    case 3:
      return op <= 0x01 || (op >= 0x03 && op <= 0x06) || op == 0x0f || op == 0x46 || op == 0x23 ||
             op == 0x43 || (op >= 0x18 && op <= 0x1b) || (op >= 0x38 && op <= 0x3b);
    default:
      return false;
  }
}

// Whether it is a conditional jump, which a processor decodes as one with the comparison before it.
inline bool may_fuse(const uint8_t* at) {
  return (at[0] & 0xf0) == 0x70 || (at[0] == 0x0f && (at[1] & 0xf0) == 0x80);
}

// Of the instruction whose bytes begin at `at`.
inline Kind kind_of(const uint8_t* at) {
  const Encoding e = encoding_of(at);
  if (!e.wide || is_mask(e, at[0] == 0x62) || moves_whole(e)) return Kind::other;
  if (multiplies(e)) return Kind::multiply;
  return moves_lanes(e) ? Kind::shuffle : Kind::plain;
}

}  // namespace optest
