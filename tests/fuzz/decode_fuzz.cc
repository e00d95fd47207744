// terseDecode on arbitrary bytes. It accepts exactly what the oracle accepts, writes nothing when
// it refuses and never outside the elements; and what it accepts can be encoded again, to the same
// size. The first byte of an input chooses element type, rounding and alignment.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>

#include "expect.h"
#include "oracle.h"
#include "specs.h"
#include "terse/terse.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

using namespace terse::codec;
using oracle::Bytes;

constexpr size_t kHeader = 32, kCountAt = 16, kCheckAt = 24;

uint64_t header_count(const Bytes& packed) {
  uint64_t count = 0;
  if (packed.size() >= kHeader) std::memcpy(&count, &packed[kCountAt], sizeof count);
  return count;
}

// Exactly `n` bytes on the heap, `offset` past an aligned address.
class Memory {
 public:
  Memory(size_t n, size_t offset) : n_(n), begin_(offset), bytes_(new uint8_t[offset + n]) {
    std::memset(data(), 0x5A, n);
  }
  uint8_t* data() { return bytes_.get() + begin_; }
  bool untouched() {
    return std::all_of(data(), data() + n_, [](uint8_t byte) { return byte == 0x5A; });
  }

 private:
  size_t n_, begin_;
  std::unique_ptr<uint8_t[]> bytes_;
};

Spec spec_of(const Bytes& packed) {
  Spec spec;
  uint32_t block;
  std::memcpy(&block, &packed[8], sizeof block);
  spec.codec = CodecId{packed[5]};
  spec.bits = packed[6];
  spec.block = static_cast<uint16_t>(block);
  spec.scale = static_cast<Number>(packed[12]);
  spec.hadamard = packed[13];
  return spec;
}

void encode_again(const Bytes& packed, uint8_t options, const void* elements, size_t count,
                  int datatype) {
  const Spec spec = spec_of(packed);
  const Rounding roundings[] = {Rounding::kNearest, Rounding::kStochastic, Rounding::kShift};
  Spec rounded = spec;
  rounded.rounding = roundings[options / 16 % 3];
  const std::string text = describe(valid(rounded) ? rounded : spec) + ",seed=1";
  terseScheme_t* scheme = nullptr;
  expect(terseSchemeParse(text.c_str(), &scheme) == TERSE_SUCCESS, text);
  size_t bytes = 0;
  expect(terseEncodedSize(scheme, count, datatype, &bytes) == TERSE_SUCCESS, "a size");
  expect(bytes == packed.size(), "the same size");
  Memory again(bytes, options % 4);
  expect(terseEncode(elements, count, datatype, scheme, 0, again.data(), bytes) == TERSE_SUCCESS,
         "encoding again");
  Memory out(4 * count, 0);
  expect(terseDecode(again.data(), bytes, out.data(), count, TERSE_FLOAT32) == TERSE_SUCCESS,
         "decoding again");
  terseSchemeDestroy(scheme);
}

void put_check(Bytes& packed) {
  const uint64_t check = oracle::check(packed);
  std::memcpy(&packed[kCheckAt], &check, sizeof check);
}

// Makes a valid buffer of what is there, keeping as much of it as possible.
void repair(Bytes& packed, size_t max_size) {
  std::memcpy(packed.data(), "TRSE\4", 5);
  const std::vector<Spec> specs = every_spec(32 * (1 + packed[8] % 128));
  const Spec spec = specs[(packed[5] * 256 + packed[6]) % specs.size()];
  packed[5] = static_cast<uint8_t>(spec.codec);
  packed[6] = spec.bits;
  packed[7] = packed[7] % 3 == 0 ? 6 : packed[7] % 3 == 1 ? 7 : 9;
  const uint32_t block = spec.block;
  std::memcpy(&packed[8], &block, sizeof block);
  packed[12] = static_cast<uint8_t>(spec.scale);
  packed[13] = spec.hadamard;
  packed[14] = packed[15] = 0;
  uint64_t count = header_count(packed) % 3000;
  while (kHeader + oracle::size_of_body(spec, count) > max_size) count /= 2;
  std::memcpy(&packed[kCountAt], &count, sizeof count);
  packed.resize(kHeader + oracle::size_of_body(spec, count));
  put_check(packed);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const uint8_t options = data[0];
  const Bytes packed(data + 1, data + size);
  const int datatypes[] = {TERSE_FLOAT16, TERSE_FLOAT32, TERSE_BFLOAT16, TERSE_FLOAT32};
  const int datatype = datatypes[options / 4 % 4];
  const size_t element = datatype == TERSE_FLOAT32 ? 4 : 2;
  const uint64_t named = header_count(packed);
  const size_t count = named <= 4 * size ? named : 5;

  Memory in(packed.size(), options % 4), out(count * element, options % 4);
  std::copy(packed.begin(), packed.end(), in.data());
  const bool accepted =
      terseDecode(in.data(), packed.size(), out.data(), count, datatype) == TERSE_SUCCESS;
  expect(accepted == oracle::acceptable(packed), "the oracle's judgement");
  expect(std::equal(packed.begin(), packed.end(), in.data()), "an unchanged buffer");
  if (accepted) {
    encode_again(packed, options, out.data(), count, datatype);
    expect(terseDecode(in.data(), packed.size(), out.data(), count + 1, datatype) ==
               TERSE_INVALID_ARGUMENT,
           "another count refused");
  } else {
    expect(out.untouched(), "nothing written");
    expect(*terseGetLastError() != '\0', "a message");
  }
  return 0;
}

// Random bytes never have the right check: give most inputs one.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  size = LLVMFuzzerMutate(data, size, max_size);
  if (size < 1 + kHeader || seed % 8 == 0) return size;
  Bytes packed(data + 1, data + size);
  if (seed % 8 < 3) {
    put_check(packed);
  } else {
    repair(packed, max_size - 1);
  }
  std::copy(packed.begin(), packed.end(), data + 1);
  return 1 + packed.size();
}
