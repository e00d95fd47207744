#include "kernels/device/batch.h"

#include <algorithm>
#include <bit>
#include <stdexcept>

#include "kernels/device/exchange.h"

namespace terse::kernels {
namespace {

using codec::Combine;
using codec::Source;

void require(bool condition, const char* what) {
  if (!condition) throw std::invalid_argument(what);
}

bool aligned(const void* p, uint64_t to) { return reinterpret_cast<uintptr_t>(p) % to == 0; }

bool aligned(const Combine& work) {
  const auto end = [](const auto& e) { return aligned(e.data, e.format.raw() ? 16 : 8); };
  return end(work.target) && std::ranges::all_of(work.sources, end);
}

bool is_raw(const Source& source) { return source.format.raw(); }

// Returns the kernel that all works of a batch have in common.
KernelId kernel_of(const Combine& work) {
  const codec::Spec *from = codec::packed_source(work), *to = work.target.format.spec();
  require(from != nullptr || to != nullptr, "nothing is packed");
  KernelId id{to != nullptr ? *to : *from, codec::Dtype::kFloat32, to != nullptr,
              codec::transforms(work)};
  if (work.target.format.raw())
    id.raw = work.target.format.dtype();
  else
    id.part = work.target.part;
  for (const Source& source : work.sources)
    if (is_raw(source)) id.raw = source.format.dtype();
  return id;
}

// Multiplier of raw sources. Works without raw sources multiply by nothing, so that kernels need
// not read it.
codec::Multiplier multiplier_of(const Combine& work) {
  return std::ranges::any_of(work.sources, is_raw) ? work.premultiply : codec::Multiplier{};
}

bool alike(const codec::Multiplier& a, const codec::Multiplier& b) {
  return a.at == b.at && (a.at != nullptr || a.value == b.value);
}

// Number by which a work's draws change when it runs again; null: they do not.
const uint64_t* replays_of(const Combine& work, const uint64_t* replays) {
  return work.target.repeats ? nullptr : replays;
}

// Codebook of the packed format; null for formats without one.
const float* codebook_of(const Combine& work, const KernelId& id) {
  return codec::descriptor(id.spec.codec).codebook ? work.codebook : nullptr;
}

uint64_t total(const Tiles& tiles) { return uint64_t{tiles.whole} + tiles.partial; }

void check(const Combine& work, const KernelId& id) {
  require(work.first == 0 && work.count == work.total, "kernels take whole bodies");
  require(!work.sources.empty(), "nothing to combine");
  const codec::Descriptor& d = codec::descriptor(id.spec.codec);
  require(id.part == codec::Part::kAll || shares_grid(d),
          "parts of a body whose grid is not shared");
  require(id.part != codec::Part::kMerged ||
              (d.sharing == codec::Sharing::kMerged && std::ranges::none_of(work.sources, is_raw)),
          "merges of what is not packed, or not merged");
  const auto fits = [&](const codec::Format& format) {
    if (format.raw()) return format == id.raw;
    return packs_alike(*format.spec(), id.spec);
  };
  require(fits(work.target.format) && std::ranges::all_of(work.sources, fits, &Source::format),
          "raw memory of two types, or bodies of two specs");
}

// A work that changes the spec, in two.
Combine to_sums(const Combine& work) {
  require(work.sums != nullptr, "no room for sums");
  Combine first = work;
  first.target = {work.sums, codec::Dtype::kFloat32};
  return first;
}

Combine from_sums(const Combine& work, const Source& sums) {
  Combine second = work;
  second.sources = {&sums, 1};
  second.factor = 1.0f;
  second.premultiply = {};
  return second;
}

// Distance between two addresses, modulo 2^64.
uint64_t distance(const void* from, const void* to) {
  return reinterpret_cast<uintptr_t>(to) - reinterpret_cast<uintptr_t>(from);
}

// Draws alike but for the second number of their streams.
bool of_one_key(const codec::Draw& a, const codec::Draw& b) {
  return std::ranges::equal(a.key, b.key) && a.stream[0] == b.stream[0] && a.rotate == b.rotate &&
         a.flip == b.flip;
}

// Adds a work's body to a run. Returns false if it does not continue it, and leaves the run as it
// was. `of_body`: what is the same for all bodies of a run.
bool add_body(PieceRun& run, SourcesOfRun* groups, const Combine& work, const Piece& of_body) {
  const bool second = run.bodies == 1;
  const auto continues = [&](uint64_t step, uint64_t from_first) {
    return second || from_first == run.bodies * step;
  };
  if (run.count != of_body.count || run.params_offset != of_body.params_offset ||
      run.tiles != of_body.tiles || run.origin != of_body.origin || run.factor != of_body.factor ||
      !of_one_key(run.draw, of_body.draw))
    return false;
  const uint64_t target = distance(run.target, work.target.data);
  const uint32_t stream = of_body.draw.stream[1] - run.draw.stream[1];
  if (!continues(run.next_target, target) || (!second && stream != run.bodies * run.next_stream))
    return false;
  size_t s = 0;
  for (size_t g = 0; g < run.sources; ++g) {
    const SourcesOfRun& group = groups[g];
    if (work.sources.size() - s < group.count) return false;
    const uint64_t from_first = distance(group.data, work.sources[s].data);
    if (!continues(group.next, from_first)) return false;
    for (uint32_t i = 0; i < group.count; ++i, ++s) {
      const Source& source = work.sources[s];
      if (group.packed != !is_raw(source) || group.negated != source.negated ||
          distance(group.data, source.data) != from_first + i * group.stride)
        return false;
    }
  }
  if (s != work.sources.size()) return false;
  if (second) {
    run.next_target = target;
    run.next_stream = stream;
    s = 0;
    for (size_t g = 0; g < run.sources; s += groups[g++].count)
      groups[g].next = distance(groups[g].data, work.sources[s].data);
  }
  ++run.bodies;
  return true;
}

// A batch, and the list of its sources.
template <class B>
struct Pieces {
  B batch{};

  void clear() {
    batch.pieces = 0;
    batch.tiles = {};
    sources_ = 0;
  }

  // Writes the work's piece, which counts from then on; or adds its body to the last one. Returns
  // false if there is no room.
  bool place(const Combine& work, const codec::Spec& spec) {
    const Tiles tiles = tiles_of(work);
    if (total(batch.tiles) + total(tiles) > kMaxTiles) return false;
    const Piece piece{
        .target = work.target.data,
        .count = work.count,
        .params_offset = codec::body_layout(spec, work.total, work.params_offset).params_offset,
        .first = batch.tiles,
        .tiles = tiles,
        .origin = work.target.origin,
        .draw = work.target.draw,
        .factor = work.factor,
        .first_sources = static_cast<uint16_t>(sources_)};
    if (!continues(work, piece) && !begin(work, piece)) return false;
    batch.tiles.whole += tiles.whole;
    batch.tiles.partial += tiles.partial;
    return true;
  }

 private:
  bool continues(const Combine& work, const Piece& piece) {
    if constexpr (std::is_same_v<typename B::Piece, PieceRun>) {
      if (batch.pieces == 0) return false;
      PieceRun& last = batch.piece[batch.pieces - 1];
      return add_body(last, batch.sources + last.first_sources, work, piece);
    }
    return false;
  }

  bool begin(const Combine& work, const Piece& piece) {
    if (batch.pieces == B::kMaxPieces) return false;
    const size_t first = sources_;
    for (const Source& source : work.sources) {
      if (!extend(first, source)) {
        sources_ = first;
        return false;
      }
    }
    auto& placed = batch.piece[batch.pieces++];
    placed = {piece};
    placed.sources = static_cast<uint16_t>(sources_ - first);
    if constexpr (std::is_same_v<typename B::Piece, PieceRun>) placed.bodies = 1;
    return true;
  }

  Tiles tiles_of(const Combine& work) const {
    const Geometry& g = batch.geometry;
    const uint64_t all = work.count / g.tile + (work.count % g.tile != 0);
    require(all <= kMaxTiles, "a piece of more elements than kernels count");
    const uint64_t whole = aligned(work) && g.dense ? work.count / g.tile : 0;
    return {static_cast<uint32_t>(whole), static_cast<uint32_t>(all - whole)};
  }

  // Adds a source to the piece's list: to its last group where kind and distance fit.
  bool extend(size_t first, const Source& source) {
    if (sources_ > first) {
      Sources& group = batch.sources[sources_ - 1];
      const uint64_t from_first = distance(group.data, source.data);
      if (group.packed == !is_raw(source) && group.negated == source.negated &&
          (group.count == 1 || from_first == group.count * group.stride)) {
        if (group.count == 1) group.stride = from_first;
        ++group.count;
        return true;
      }
    }
    if (sources_ == B::kMaxSources) return false;
    batch.sources[sources_] = {};
    static_cast<Sources&>(batch.sources[sources_++]) = {source.data, 0, 1, !is_raw(source),
                                                        source.negated};
    return true;
  }

  size_t sources_ = 0;
};

class Builder {
 public:
  Builder(const uint64_t* replays, const std::function<void(const KernelId&, const Batch&)>& launch)
      : replays_(replays), launch_(launch) {}

  void add(const Combine& work) {
    if (work.count == 0) return;
    const KernelId id = kernel_of(work);
    check(work, id);
    const bool fits = id == id_ && replays_of(work, replays_) == batch_.replays &&
                      work.target.content == batch_.content &&
                      work.target.content_parts == batch_.content_parts &&
                      codebook_of(work, id) == batch_.codebook && work.verdict == batch_.verdict &&
                      alike(multiplier_of(work), batch_.premultiply);
    if (batch_.pieces > 0 && !(fits && pieces_.place(work, id.spec))) flush();
    if (batch_.pieces == 0) {
      id_ = id;
      batch_.replays = replays_of(work, replays_);
      batch_.content = work.target.content;
      batch_.content_parts = work.target.content_parts;
      batch_.premultiply = multiplier_of(work);
      batch_.scale = id.spec.scale;
      batch_.part = id.part;
      batch_.ranks = id.spec.ranks;
      batch_.codebook = codebook_of(work, id);
      batch_.verdict = work.verdict;
      batch_.geometry = make_geometry(id.spec.block);
      require(pieces_.place(work, id.spec),
              "more unequal distances between sources than a launch can name");
    }
  }

  void flush() {
    if (batch_.pieces > 0) launch_(id_, batch_);
    pieces_.clear();
  }

 private:
  const uint64_t* const replays_;
  const std::function<void(const KernelId&, const Batch&)>& launch_;
  KernelId id_{};
  Pieces<Batch> pieces_;
  Batch& batch_ = pieces_.batch;
};

// The pieces of a fused kernel, whatever stage they are of.
class FusedBuilder {
 public:
  explicit FusedBuilder(const uint64_t* replays) : replays_(replays) {}

  struct Stage {
    uint32_t pieces;
    bool has_content;  // by which it draws
  };

  Stage add(std::span<const Combine> works) {
    const uint32_t before = pieces_.batch.pieces;
    const auto has_content = [](const Combine& work) { return work.target.content != nullptr; };
    const bool any = std::ranges::any_of(works, has_content);
    require(any == std::ranges::all_of(works, has_content) || works.empty(),
            "works of a stage that draw by different things");
    for (const Combine& work : works)
      if (work.count != 0) add(work);
    return {pieces_.batch.pieces - before, any};
  }

  FusedBatch finish(const Stage& pushes, const Stage& makes) {
    require(pieces_.batch.pieces != 0, "nothing to do");
    return {.kernel = id_,
            .batch = pieces_.batch,
            .exchange = {.pushes = pushes.pieces,
                         .makes = makes.pieces,
                         .push_content = pushes.has_content,
                         .make_content = makes.has_content,
                         .tiles = tiles_}};
  }

 private:
  void add(const Combine& work) {
    const KernelId id = kernel_of(work);
    check(work, id);
    require(!id.transforms && !codec::changes_spec(work) && id.part == codec::Part::kAll &&
                codebook_of(work, id) == nullptr && work.verdict == nullptr,
            "what fused kernels do not do");
    FusedPieces& batch = pieces_.batch;
    if (batch.pieces == 0) {
      id_ = id;
      batch.scale = id.spec.scale;
      batch.ranks = id.spec.ranks;
      batch.geometry = make_geometry(id.spec.block);
    }
    require(packs_alike(id.spec, id_.spec) && id.raw == id_.raw, "works of different formats");
    if (id.packed_target) add_packed(work, id);
    if (std::ranges::any_of(work.sources, is_raw)) add_raw(work);
    const uint64_t before = total(batch.tiles);
    require(pieces_.place(work, id.spec), "more than a launch can name");
    tiles_ = std::max(tiles_, static_cast<uint32_t>(total(batch.tiles) - before));
  }

  // All that write packed memory draw by the same, if at all, but for their keys.
  void add_packed(const Combine& work, const KernelId& id) {
    FusedPieces& batch = pieces_.batch;
    const uint64_t* const replays = replays_of(work, replays_);
    if (!has_packed_) {
      id_ = id;
      batch.replays = replays;
    }
    require(id == id_ && batch.replays == replays, "works that are packed in different ways");
    has_packed_ = true;
    if (work.target.content == nullptr) return;
    if (batch.content == nullptr) {
      batch.content = work.target.content;
      batch.content_parts = work.target.content_parts;
    }
    require(
        batch.content == work.target.content && batch.content_parts == work.target.content_parts,
        "works that draw by different things");
  }

  void add_raw(const Combine& work) {
    codec::Multiplier& all = pieces_.batch.premultiply;
    if (!has_raw_) all = work.premultiply;
    require(alike(work.premultiply, all), "works with different multipliers");
    has_raw_ = true;
  }

  const uint64_t* const replays_;
  KernelId id_{};
  Pieces<FusedPieces> pieces_;
  uint32_t tiles_ = 0;
  bool has_packed_ = false, has_raw_ = false;
};

}  // namespace

Geometry make_geometry(uint32_t block) {
  Geometry g{};
  g.block = block;
  g.vectors = block / kVec8;
  const uint32_t row = kVec8 << kWarpShift;  // elements in a warp's row
  g.whole = block > kRows * row;
  const uint32_t threads_shift = g.whole ? std::countr_zero(kThreads) : kWarpShift;
  const uint32_t rows = g.whole ? kRows : std::bit_ceil((block + row - 1) / row);
  g.rows_shift = std::countr_zero(rows);
  g.team_shift = std::countr_zero(std::bit_ceil((g.vectors + rows - 1) / rows));
  g.blocks_per_row = 1u << (threads_shift - g.team_shift);
  g.blocks_per_tile = kRows / rows * g.blocks_per_row;
  g.tile = block * g.blocks_per_tile;
  for (uint32_t bit = 0; bit < kRowBits; ++bit)
    g.row_stride[bit] = bit < g.rows_shift ? kVec8 << g.team_shift << bit
                                           : block * g.blocks_per_row << (bit - g.rows_shift);
  g.dense = std::has_single_bit(block);
  return g;
}

uint64_t thread_blocks(const Batch& batch) {
  const uint64_t units = batch.geometry.whole ? 1 : kThreads >> kWarpShift;
  const uint64_t tiles = total(batch.tiles);
  return tiles / units + (tiles % units != 0);
}

void make_batches(std::span<const Combine> works, const uint64_t* replays,
                  const std::function<void(const KernelId&, const Batch&)>& launch) {
  // A kernel knows one spec. Where the target is of another, the sums lie in memory in between.
  Builder sums(replays, launch), rest(replays, launch);
  for (const Combine& work : works)
    if (codec::changes_spec(work)) sums.add(to_sums(work));
  sums.flush();
  for (const Combine& work : works) {
    if (!codec::changes_spec(work)) {
      rest.add(work);
      continue;
    }
    const Source source{work.sums, codec::Dtype::kFloat32};  // read at once
    rest.add(from_sums(work, source));
  }
  rest.flush();
}

FusedBatch make_fused_batch(const FusedWorks& works, const uint64_t* replays) {
  FusedBuilder builder(replays);
  const FusedBuilder::Stage pushes = builder.add(works.pushes), makes = builder.add(works.makes);
  const auto packs = [](const Combine& work) { return !work.target.format.raw(); };
  require(std::ranges::all_of(works.pushes, packs) && std::ranges::none_of(works.takes, packs) &&
              (std::ranges::all_of(works.makes, packs) || std::ranges::none_of(works.makes, packs)),
          "works that are not of their stage");
  builder.add(works.takes);
  return builder.finish(pushes, makes);
}

}  // namespace terse::kernels
