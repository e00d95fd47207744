#include "engine/comm/codebooks.h"

#include "codec/codebook.h"

namespace terse {

Codebooks::~Codebooks() {
  for (const auto& [kind, codebook] : all_) backend_.release(codebook.table);
}

void Codebooks::make(const CodebookKind& kind, Track& track) {
  if (all_.contains(kind)) return;
  const size_t bytes = codec::codebook_bytes(kind.spec.bits);
  void* const table = backend_.allocate(bytes);
  try {
    const Stream stream = track.lanes().front();
    backend_.upload(stream, table, codec::uniform_codebook(kind.spec.bits), bytes);
    backend_.synchronize(stream);
    all_.emplace(kind, Codebook{.table = static_cast<float*>(table)});
  } catch (...) {
    backend_.release(table);
    throw;
  }
  bytes_ += bytes;
}

Codebook* Codebooks::find(const CodebookKind& kind) {
  const auto known = all_.find(kind);
  return known != all_.end() && known->second.agreed ? &known->second : nullptr;
}

}  // namespace terse
