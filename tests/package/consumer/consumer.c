/* Packs and unpacks a few numbers with the installed library; exits 0 when all is well. */
#include <stdio.h>
#include <terse/terse.h>

int main(void) {
  float in[100], out[100];
  char packed[1024];
  size_t bytes = 0;
  int version = 0, i;
  terseScheme_t* scheme = NULL;
  for (i = 0; i < 100; ++i) in[i] = (float)(i - 50);
  if (terseGetVersion(&version) != TERSE_SUCCESS || version != TERSE_VERSION_CODE) return 1;
  if (terseSchemeParse("int8", &scheme) != TERSE_SUCCESS) return 2;
  if (terseEncodedSize(scheme, 100, TERSE_FLOAT32, &bytes) != TERSE_SUCCESS || bytes != 136)
    return 3;
  if (terseEncode(in, 100, TERSE_FLOAT32, scheme, 0, packed, sizeof packed) != TERSE_SUCCESS)
    return 4;
  if (terseDecode(packed, bytes, out, 100, TERSE_FLOAT32) != TERSE_SUCCESS) return 5;
  for (i = 0; i < 100; ++i)
    if (out[i] - in[i] > 0.2 || in[i] - out[i] > 0.2) return 6;
  terseSchemeDestroy(scheme);
  if (terseSchemeParse("int99", &scheme) != TERSE_INVALID_ARGUMENT || scheme != NULL) return 7;
  printf("%s\n", terseGetLastError());
  return 0;
}
