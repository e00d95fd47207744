// Encoding and decoding through the C interface.
#include <gtest/gtest.h>

#include <memory>

#include "golden.h"
#include "terse/terse.h"

namespace terse::codec {
namespace {

struct Destroy {
  void operator()(terseScheme_t* scheme) const { terseSchemeDestroy(scheme); }
};
using SchemeHandle = std::unique_ptr<terseScheme_t, Destroy>;

SchemeHandle parse(const std::string& text) {
  terseScheme_t* scheme = nullptr;
  EXPECT_EQ(terseSchemeParse(text.c_str(), &scheme), TERSE_SUCCESS) << terseGetLastError();
  return SchemeHandle(scheme);
}

terseDataType_t number_of(Dtype dtype) {
  const int numbers[] = {TERSE_FLOAT32, TERSE_FLOAT16, TERSE_BFLOAT16};
  return static_cast<terseDataType_t>(numbers[static_cast<int>(dtype)]);
}

// After a refused call, `out` is as it was and the message says why.
void expect_refused(terseResult_t result, const Guarded& out, const Bytes& before,
                    const std::string& message) {
  EXPECT_EQ(result, TERSE_INVALID_ARGUMENT);
  EXPECT_TRUE(out.intact() && out.content() == before) << "it wrote";
  EXPECT_NE(std::string(terseGetLastError()).find(message), std::string::npos)
      << terseGetLastError() << "\nought to say: " << message;
}

TEST(Api, EncodesTheGoldens) {
  for (const Golden& g : read_goldens(TERSE_TEST_DATA, "encode")) {
    SCOPED_TRACE(g.path());
    const SchemeHandle scheme = parse(g.scheme);
    size_t bytes = 0;
    ASSERT_EQ(terseEncodedSize(scheme.get(), g.count, number_of(g.dtype), &bytes), TERSE_SUCCESS);
    ASSERT_EQ(bytes, g.packed.size());
    for (size_t offset = 0; offset < 4; ++offset) {
      Guarded in(g.elements, offset), out(bytes, offset);
      ASSERT_EQ(terseEncode(in.data(), g.count, number_of(g.dtype), scheme.get(), g.draw,
                            out.data(), bytes),
                TERSE_SUCCESS)
          << terseGetLastError();
      EXPECT_TRUE(out.intact());
      EXPECT_EQ(out.content(), g.packed);
    }
  }
}

TEST(Api, DecodesTheGoldens) {
  for (const Golden& g : read_goldens(TERSE_TEST_DATA, "decode")) {
    SCOPED_TRACE(g.path());
    for (size_t offset = 0; offset < 4; ++offset) {
      Guarded in(g.packed, offset), out(g.elements.size(), offset);
      ASSERT_EQ(terseDecode(in.data(), in.size(), out.data(), g.count, number_of(g.dtype)),
                TERSE_SUCCESS)
          << terseGetLastError();
      EXPECT_TRUE(out.intact());
      EXPECT_EQ(out.content(), g.elements);
    }
  }
}

TEST(Api, RefusesTheGoldens) {
  for (const Golden& g : read_goldens(TERSE_TEST_DATA, "refuse")) {
    SCOPED_TRACE(g.path());
    Guarded in(g.packed), out(5 * 4);
    const Bytes before = out.content();
    expect_refused(terseDecode(in.data(), in.size(), out.data(), 5, number_of(Dtype::kFloat32)),
                   out, before, g.message);
  }
}

TEST(Api, RefusesAnotherCount) {
  const Spec spec =
      parse_spec("int4:block=32,round=nearest,seed=0", std::make_unique<uint64_t>().get());
  const Bytes packed =
      oracle::seal(spec, Dtype::kFloat32, 5, oracle::encode(spec, {}, gaussian(5, 1)));
  for (size_t count : {0, 4, 6}) {
    Guarded out(6 * 4);
    const Bytes before = out.content();
    expect_refused(
        terseDecode(packed.data(), packed.size(), out.data(), count, number_of(Dtype::kFloat32)),
        out, before, "holds 5 elements, not " + std::to_string(count));
  }
}

TEST(Api, RefusesWhatCannotBeEncoded) {
  const SchemeHandle int8 = parse("int8:seed=1"), off = parse("off");
  const Floats x(10);
  Guarded out(100);
  const Bytes before = out.content();
  const auto encode = [&](const terseScheme_t* scheme, int type, size_t capacity) {
    return terseEncode(x.data(), x.size(), static_cast<terseDataType_t>(type), scheme, 0,
                       out.data(), capacity);
  };
  expect_refused(encode(int8.get(), TERSE_FLOAT32, 47), out, before, "48 bytes are needed");
  expect_refused(encode(int8.get(), 8, 100), out, before, "datatype 8");
  expect_refused(encode(off.get(), TERSE_FLOAT32, 100), out, before, "off");
  expect_refused(encode(nullptr, TERSE_FLOAT32, 100), out, before, "null");
  EXPECT_EQ(encode(int8.get(), TERSE_FLOAT32, 48), TERSE_SUCCESS);
}

TEST(Api, TheSeedAndTheDrawMatter) {
  const Floats x = gaussian(256, 2);
  const auto packed = [&](const char* text, size_t draw) {
    const SchemeHandle scheme = parse(text);
    Bytes out(32 + 256 / 2 + 2 * 4);
    EXPECT_EQ(terseEncode(x.data(), x.size(), number_of(Dtype::kFloat32), scheme.get(), draw,
                          out.data(), out.size()),
              TERSE_SUCCESS);
    return out;
  };
  const char* one = "int4:round=stochastic,seed=1";
  EXPECT_EQ(packed(one, 1), packed(one, 1));
  EXPECT_NE(packed(one, 1), packed(one, 2));
  EXPECT_NE(packed(one, 1), packed("int4:round=stochastic,seed=2", 1));
}

}  // namespace
}  // namespace terse::codec
