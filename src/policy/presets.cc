#include "policy/presets.h"

#include <fmt/format.h>

#include <algorithm>

namespace terse {
namespace {

using plan::Collective;

constexpr Set kAllGather = set_of(Collective::kAllGather);
constexpr Set kAllReduce = set_of(Collective::kAllReduce);
constexpr Set kReduceScatter = set_of(Collective::kReduceScatter);
constexpr Set kSums = 0
#define NCCL_COLLECTIVE(suffix, form, send, recv, name, ...) \
  | (plan::k##form##Form.reduces ? set_of(Collective::k##name) : 0)
#include <nccl_collectives.inc>
    ;
constexpr Set kMoves = ((Set{1} << plan::kCollectives) - 1) & ~(kSums | kAllGather);
constexpr Set kFp32 = set_of(ncclFloat32);

struct Part {
  Set collectives;  // none: all that the parts before lack
  std::string_view scheme;
  Set dtypes = 0;  // none: any
};

// Preset, and its variant for fp32 weights.
struct Family {
  std::string_view name;
  std::string_view fp32_name;  // of the variant; empty: none, and AllGather is native
  std::string_view weights;    // scheme of AllGather
  std::span<const Part> others;
  std::string_view meaning;
};

// What moves brings values as they are (weights): a random shift of a block's grid is unbiased,
// as stochastic rounding is, with half of its squared error (1/12 against 1/6 of a step's square).
// What reduces brings gradients, whose errors must be independent between elements and ranks to
// average out: stochastic. Unbiased is what the convergence theorems of QSDP (arXiv 2302.02390) and
// SDP4Bit (arXiv 2410.15526, 4.1) ask of the gradients' compressor.
constexpr std::string_view kShift = "minmax8:block=128,round=shift";
constexpr std::string_view kWideShift = "minmax8:block=1024,round=shift";

// Blocks of 64 with bf16 scales are as many bits as blocks of 128 with fp32 ones. A layer's gains
// and biases, whose gradients may be a thousand times apart, share no block where its width is a
// multiple of 64.
constexpr Part kSafe[] = {{kMoves, kShift}, {0, "int8:block=64,round=stochastic,scale=bf16"}};

// Weights keep 8 bits: at 4, SDP4Bit measured a loss of 2.396 (blocks of 32) to 2.573 (of 2048)
// where full precision gives 2.294.
constexpr Part kFast[] = {{kMoves, kShift}, {0, "int4:block=64,round=stochastic,scale=bf16"}};

// QSDP's two quantizers, at the 8 bits for both of its W8G8.
constexpr Part kQsdp[] = {{kMoves, kWideShift}, {0, "minmax8:block=1024,round=stochastic"}};

// QSDP's learned levels (section 5.2), which pay at 6 bits and fewer. QSDP moves each level a
// little at a time; here they are fitted to a histogram of what all ranks send. Weights to the
// nearest level, for a random shift of levels that are not equally far apart is not defined:
// biased, with half the squared error of random rounding. Gradients between neighbouring levels,
// unbiased.
constexpr Part kQsdpLearned[] = {{kMoves, kWideShift}, {0, "learned4:block=1024,round=stochastic"}};

// torch_cgx compresses AllReduce alone; 4 bits and buckets of 1024 are those of its published
// results.
constexpr Part kCgx[] = {{kAllReduce, "minmax4:block=1024,round=stochastic"}, {0, "off"}};

// Practice of large labs: gradients are summed in fp32 and travel as bf16, rounded at random.
constexpr Part kNcclx[] = {{kReduceScatter | kAllReduce, "bf16:round=stochastic"}, {0, "off"}};

// 16-bit gradients lose at each hop of a ring, which rounds every partial sum; here a sum is
// rounded once.
constexpr Part kFp32Sums[] = {
    {kSums, "bf16", set_of(ncclBfloat16)}, {kSums, "fp16", set_of(ncclFloat16)}, {0, "off"}};

// SDP4Bit (arXiv 2410.15526): gradients (section 4, TLq-HS) in 8 bits within a node, 4 between
// nodes, where they are smoothed by a Hadamard transform; weights as 4-bit differences (section 3,
// qWD). Its code rounds differences at random; nearest is within its theorem 4.1, with half the
// squared error.
constexpr Part kSdp4bit[] = {{kMoves, kShift},
                             {0, "int4:block=128,round=stochastic,hadamard=32,intra=int8"}};

// SDP4Bit's gradients in one level, as if each node had one rank, and as in its ablation.
constexpr Part kSdp4bitFlat4[] = {
    {kMoves, kShift},
    {kAllReduce, "int4:block=128,round=stochastic,hadamard=32,algo=twoshot"},
    {0, "int4:block=128,round=stochastic,hadamard=32,algo=direct"}};
constexpr Part kSdp4bitFlat8[] = {{kMoves, kShift},
                                  {kAllReduce, "int8:block=128,round=stochastic,algo=twoshot"},
                                  {0, "int8:block=128,round=stochastic,algo=direct"}};

// ZeRO++ (arXiv 2306.10209): 8-bit weights (qwZ), 4-bit gradients in two levels (qgZ), both to
// nearest. Its sum is divided by the number of nodes alone; here Avg is the mean.
// DeepSpeed quantizes gradients by a matrix's rows; in blocks of 2048 that cost a small GPT 1.2 %
// of its loss, in blocks of 256 0.3 % (docs/ACCURACY.md).
constexpr Part kZeropp[] = {{kMoves, "int8:block=2048"}, {0, "int4:block=256"}};

// Global-QSGD's linear dithering (arXiv 2305.18627), which has one scale for a call; a scale for
// each block here, for with one alone outliers drown all else.
constexpr Part kGlobalQsgd[] = {{kMoves, "off"}, {0, "linear8:block=256,round=stochastic"}};

// Global-QSGD's exponential dithering: less is lost if the elements of a block differ by orders of
// magnitude; with a scale for each block linear dithering is more accurate.
constexpr Part kGlobalQsgdExp[] = {{kMoves, "off"}, {0, "exp8:block=256,round=stochastic"}};

constexpr Family kFamilies[] = {
    {"safe", "safe-fsdp32", kShift, kSafe,
     "8 bits, unbiased everywhere, small blocks: an outlier spoils no more than 63 gradients"},
    {"fast", "fast-fsdp32", kShift, kFast,
     "4 bits for what is reduced, 8 for what is moved, unbiased; plain 4-bit weights are not "
     "enough (SDP4Bit, arXiv 2410.15526)"},
    {"qsdp", "qsdp-fsdp32", kWideShift, kQsdp,
     "QSDP's quantizers (arXiv 2302.02390): random shift for weights, stochastic rounding for "
     "gradients, 8 bits"},
    {"qsdp-w6g4", "qsdp-w6g4-fsdp32", "learned6:block=1024,round=nearest", kQsdpLearned,
     "QSDP with learned levels: 6 bits for weights, 4 for gradients, blocks of 1024"},
    {"qsdp-w4g4", "qsdp-w4g4-fsdp32", "learned4:block=1024,round=nearest", kQsdpLearned,
     "QSDP with learned levels: 4 bits for both; expect some loss, for 4-bit weights cost "
     "(SDP4Bit, table 1)"},
    {"cgx", "", "off", kCgx,
     "what torch_cgx does to AllReduce: 4 bits, min-max, buckets of 1024, stochastic; all else is "
     "native"},
    {"ncclx", "", "off", kNcclx,
     "what NCCLX does to ReduceScatter, and to AllReduce: fp32 sums of what travels as bf16, "
     "stochastic; all else is native"},
    {"fp32-sums", "", "off", kFp32Sums,
     "sums of 16-bit gradients in fp32, rounded once, with no fewer bytes "
     "(reduce_scatter_with_fp32_accumulation of Megatron-LM); all else is native"},
    {"sdp4bit", "sdp4bit-zero32", "int4:block=2048,round=nearest,delta=inplace", kSdp4bit,
     "SDP4Bit (arXiv 2410.15526), where gathered weights stay in their buffers (Megatron, ZeRO-1 "
     "and 2): 4-bit differences; gradients in 8 bits within a node, 4 and a Hadamard transform "
     "between nodes"},
    // FSDP and ZeRO-3 gather into memory that does not last: terse keeps what was gathered, the
    // model's size on each rank. Not in the paper.
    {"sdp4bit-fsdp", "sdp4bit-fsdp32", "int4:block=2048,round=nearest,delta=shadow", kSdp4bit,
     "the same where they do not (FSDP, ZeRO-3): each rank keeps a copy of the gathered model"},
    {"sdp4bit-flat4", "sdp4bit-flat4-fsdp32", kShift, kSdp4bitFlat4,
     "SDP4Bit's gradients with 4 bits in one level, whatever the nodes; weights keep 8 bits"},
    {"sdp4bit-flat8", "sdp4bit-flat8-fsdp32", kShift, kSdp4bitFlat8,
     "SDP4Bit's gradients with 8 bits in one level, whatever the nodes; weights keep 8 bits"},
    {"zeropp", "zeropp-fsdp32", "int8:block=2048", kZeropp,
     "ZeRO++ (arXiv 2306.10209), DeepSpeed's zero_quantized_weights and zero_quantized_gradients: "
     "8-bit weights, 4-bit gradients, in two levels where nodes have several ranks"},
    {"global-qsgd", "", "off", kGlobalQsgd,
     "Global-QSGD's linear dithering (arXiv 2305.18627): 8-bit integers that NCCL itself sums, a "
     "scale per block; what is not summed is native, and so are 16-bit elements on 9 ranks or "
     "more"},
    {"global-qsgd-exp", "", "off", kGlobalQsgdExp,
     "Global-QSGD's exponential dithering: signs and powers of two in 8 bits, merged by the owners "
     "of shards, a scale per block; what is not summed is native"},
};

Preset make(const Family& family, std::vector<PresetPart> gathers) {
  Preset preset{std::string(family.name), std::move(gathers), std::string(family.meaning),
                std::string(family.fp32_name)};
  for (const Part& part : family.others)
    preset.parts.push_back({part.collectives, part.dtypes, std::string(part.scheme)});
  return preset;
}

std::vector<Preset> make_presets() {
  std::vector<Preset> presets;
  for (const Family& family : kFamilies) {
    const std::string weights(family.weights);
    if (family.fp32_name.empty()) {
      presets.push_back(make(family, {}));
      continue;
    }
    presets.push_back(make(family, {{kAllGather, kFp32, "off"}, {kAllGather, 0, weights}}));
    const std::string meaning = fmt::format(
        "{}, and weights that are gathered in fp32, too, but for a rank's own shard: results "
        "differ between ranks",
        family.name);
    Family variant = family;
    variant.name = family.fp32_name;
    variant.fp32_name = {};
    variant.meaning = meaning;
    presets.push_back(make(variant, {{kAllGather, 0, weights + ",own=exact"}}));
  }
  return presets;
}

}  // namespace

std::span<const Preset> presets() {
  // Never destroyed: calls may come while the program exits.
  static const std::vector<Preset>& all = *new std::vector<Preset>(make_presets());
  return all;
}

const Preset* find_preset(std::string_view name) {
  const auto found = std::ranges::find(presets(), name, &Preset::name);
  return found == presets().end() ? nullptr : &*found;
}

}  // namespace terse
