#include "codec/container.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "codec/host_ops.h"

namespace terse::codec {
namespace {

constexpr uint8_t kVersion = 4;
constexpr uint8_t kNcclDtype[kDtypes] = {7, 6, 9};  // indexed by Dtype

// The header as it lies in memory.
struct Wire {
  char magic[4];
  uint8_t version, codec, bits, dtype;
  uint32_t block;
  uint8_t scale, hadamard, zero[2];
  uint64_t count;
  uint64_t check;
};
static_assert(sizeof(Wire) == kHeaderBytes && offsetof(Wire, check) == 24);
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the format is little-endian");

uint64_t check_of(Wire wire, const void* packed, size_t bytes) {
  wire.check = 0;
  uint8_t head[kHeaderBytes];
  std::memcpy(head, &wire, sizeof head);
  const HostOps& ops = host_ops();
  const auto* const rest = static_cast<const uint8_t*>(packed) + kHeaderBytes;
  constexpr size_t kWords = kHeaderBytes / 4;
  return ops.check_packed(head, kWords, 0) + ops.check_packed(rest, bytes / 4 - kWords, kWords);
}

}  // namespace

void seal(const Header& h, void* packed) {
  Wire wire{{'T', 'R', 'S', 'E'},
            kVersion,
            static_cast<uint8_t>(h.spec.codec),
            h.spec.bits,
            kNcclDtype[static_cast<int>(h.dtype)],
            h.spec.block,
            static_cast<uint8_t>(h.spec.scale),
            h.spec.hadamard,
            {0, 0},
            h.count,
            0};
  wire.check = check_of(wire, packed, container_size(h.spec, h.count));
  std::memcpy(packed, &wire, sizeof wire);
}

const char* open(const void* packed, size_t bytes, Header* header) {
  if (bytes < kHeaderBytes) return "shorter than a header";
  Wire wire;
  std::memcpy(&wire, packed, sizeof wire);
  if (std::memcmp(wire.magic, "TRSE", 4) != 0) return "it does not begin with TRSE";
  if (wire.version != kVersion) return "unknown format version";
  const uint8_t* dtype = std::find(std::begin(kNcclDtype), std::end(kNcclDtype), wire.dtype);
  if (dtype == std::end(kNcclDtype)) return "unknown element type";
  const Spec spec{static_cast<CodecId>(wire.codec),
                  Rounding::kNearest,
                  wire.bits,
                  static_cast<uint16_t>(wire.block),
                  static_cast<Number>(wire.scale),
                  wire.hadamard};
  const bool known_scale = wire.scale <= static_cast<uint8_t>(Number::kE8M0);
  if (!known_scale || !valid(spec) || wire.block > kMaxBlock || wire.zero[0] != 0 ||
      wire.zero[1] != 0)
    return "unknown codec, bits, block or parameters";
  // An element takes two bits at least; this also keeps the size from overflowing.
  if (wire.count > bytes * 4 || container_size(spec, wire.count) != bytes)
    return "its size is not that of its element count";
  if (check_of(wire, packed, bytes) != wire.check)
    return "its check is wrong: the data are damaged";
  *header = {spec, static_cast<Dtype>(dtype - kNcclDtype), wire.count};
  return nullptr;
}

}  // namespace terse::codec
