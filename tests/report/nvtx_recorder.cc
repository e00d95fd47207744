// What a tool is to NVTX (NVTX_INJECTION64_PATH): it writes each range of the domain "terse" as a
// line to the file NVTX_RECORD, "TEXT BYTES".
#include <nvtx3/nvToolsExt.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

namespace {

int g_domain;
int g_depth;  // ranges that are open
std::mutex g_mutex;

void write(const nvtxEventAttributes_t* a) {
  const std::lock_guard lock(g_mutex);
  ++g_depth;
  if (FILE* f = std::fopen(std::getenv("NVTX_RECORD"), "a")) {
    std::fprintf(f, "%s %llu\n", a->message.ascii,
                 static_cast<unsigned long long>(a->payload.ullValue));
    std::fclose(f);
  }
}

void close_one() {
  const std::lock_guard lock(g_mutex);
  --g_depth;
}

nvtxDomainHandle_t NVTX_API create(const char* name) {
  return std::strcmp(name, "terse") == 0 ? reinterpret_cast<nvtxDomainHandle_t>(&g_domain)
                                         : nullptr;
}
nvtxRangeId_t NVTX_API start(nvtxDomainHandle_t, const nvtxEventAttributes_t* a) {
  write(a);
  return 17;
}
void NVTX_API end(nvtxDomainHandle_t, nvtxRangeId_t id) {
  if (id == 17) close_one();
}
int NVTX_API push(nvtxDomainHandle_t, const nvtxEventAttributes_t* a) {
  write(a);
  return 0;
}
int NVTX_API pop(nvtxDomainHandle_t) {
  close_one();
  return 0;
}

template <class Function>
void set(NvtxFunctionTable table, unsigned size, unsigned index, Function function) {
  if (index < size) *table[index] = reinterpret_cast<NvtxFunctionPointer>(function);
}

struct AtExit {
  ~AtExit() {
    if (FILE* f = std::fopen(std::getenv("NVTX_RECORD"), "a")) {
      std::fprintf(f, "open %d\n", g_depth);
      std::fclose(f);
    }
  }
} g_at_exit;

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    NvtxGetExportTableFunc_t get) {
  const auto* callbacks = static_cast<const NvtxExportTableCallbacks*>(get(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (callbacks == nullptr ||
      !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size))
    return 0;
  set(table, size, NVTX_CBID_CORE2_DomainCreateA, &create);
  set(table, size, NVTX_CBID_CORE2_DomainRangeStartEx, &start);
  set(table, size, NVTX_CBID_CORE2_DomainRangeEnd, &end);
  set(table, size, NVTX_CBID_CORE2_DomainRangePushEx, &push);
  set(table, size, NVTX_CBID_CORE2_DomainRangePop, &pop);
  return 1;
}
