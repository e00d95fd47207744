// Packed buffers in host memory (terse.h): encoding and decoding without a communicator.
#include "api/require.h"
#include "codec/codec.h"
#include "codec/container.h"
#include "policy/datatype.h"
#include "policy/settings.h"

using namespace terse;

namespace {

codec::Dtype require_compressible(ncclDataType_t datatype) {
  codec::Dtype dtype;
  if (!compressible(datatype, &dtype))
    fail(ncclInvalidArgument, "datatype {} cannot be compressed, only fp32, fp16 and bf16",
         static_cast<int>(datatype));
  return dtype;
}

const codec::Spec& require_codec(const terseScheme_t* scheme) {
  const Scheme& s = require(scheme);
  if (s.automatic) fail(ncclInvalidArgument, "the scheme is auto, which chooses for calls alone");
  if (s.off) fail(ncclInvalidArgument, "the scheme is off and has no codec");
  return s.spec;
}

void require_count(size_t count) {
  if (count > size_t{1} << 47)
    fail(ncclInvalidArgument, "a count of {} elements cannot be right", count);
}

}  // namespace

extern "C" {

terseResult_t terseEncodedSize(const terseScheme_t* scheme, size_t count, terseDataType_t datatype,
                               size_t* bytes) {
  return answer("terseEncodedSize", [&] {
    const codec::Spec& spec = require_codec(scheme);
    require_compressible(datatype);
    require_count(count);
    *require(bytes, "bytes") = codec::container_size(spec, count);
  });
}

terseResult_t terseEncode(const void* data, size_t count, terseDataType_t datatype,
                          const terseScheme_t* scheme, size_t draw, void* packed, size_t capacity) {
  return answer("terseEncode", [&] {
    const codec::Spec& spec = require_codec(scheme);
    const codec::Dtype dtype = require_compressible(datatype);
    require_count(count);
    if (count != 0) require(data, "data");
    const size_t bytes = codec::container_size(spec, count);
    char* out = static_cast<char*>(require(packed, "packed"));
    if (capacity < bytes)
      fail(ncclInvalidArgument, "{} bytes are needed, {} are there", bytes, capacity);
    const codec::Source source{data, dtype};
    const uint64_t seed = scheme->value.seed.value_or(settings().seed);
    codec::combine({.sources = {&source, 1},
                    .target = {out + codec::kHeaderBytes, spec,
                               codec::make_draw({.seed = seed, .sequence = draw})},
                    .total = count,
                    .count = count});
    codec::seal({spec, dtype, count}, out);
  });
}

terseResult_t terseDecode(const void* packed, size_t bytes, void* data, size_t count,
                          terseDataType_t datatype) {
  return answer("terseDecode", [&] {
    const codec::Dtype dtype = require_compressible(datatype);
    codec::Header header;
    if (const char* wrong = codec::open(require(packed, "packed"), bytes, &header))
      fail(ncclInvalidArgument, "not a packed buffer: {}", wrong);
    if (header.count != count)
      fail(ncclInvalidArgument, "the buffer holds {} elements, not {}", header.count, count);
    if (count != 0) require(data, "data");
    const codec::Source source{static_cast<const char*>(packed) + codec::kHeaderBytes, header.spec};
    codec::combine(
        {.sources = {&source, 1}, .target = {data, dtype}, .total = count, .count = count});
  });
}

}  // extern "C"
